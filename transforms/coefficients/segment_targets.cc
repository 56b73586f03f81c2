// Packing and unpacking of segments, compiled once for every SIMD target and chosen at run time.

#include "transforms/simd/config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/coefficients/segment_targets.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>
#include "transforms/coefficients/pack-inl.h"
#include "transforms/coefficients/segment.h"
#include "transforms/coefficients/unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace carya::coefficients::HWY_NAMESPACE {

bool unpack_blocks(const Segment& segment, int begin, int end, std::int16_t* blocks, std::uint8_t* last) {
  return unpack(segment, begin, end, blocks, last);
}
bool pack_blocks(const std::int16_t* const* blocks, int count, std::vector<std::uint8_t>& out) {
  return pack(blocks, count, out);
}

}  // namespace carya::coefficients::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace carya::coefficients {

HWY_EXPORT(unpack_blocks);
HWY_EXPORT(pack_blocks);

bool unpack_segment(const Segment& segment, int begin, int end, std::int16_t* blocks, std::uint8_t* last) {
  return HWY_DYNAMIC_DISPATCH(unpack_blocks)(segment, begin, end, blocks, last);
}

bool pack_segment(const std::int16_t* const* blocks, int count, std::vector<std::uint8_t>& out) {
  return HWY_DYNAMIC_DISPATCH(pack_blocks)(blocks, count, out);
}

}  // namespace carya::coefficients
#endif
