// The decode loops, compiled once for every SIMD target and chosen at run time.

#include "transforms/simd/config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/jpeg/scan/decode_targets.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>
#include "transforms/jpeg/scan/scan-inl.h"
#include "transforms/jpeg/scan/streams-inl.h"

HWY_BEFORE_NAMESPACE();
namespace carya::jpeg::HWY_NAMESPACE {

Outcome decode_one_stream(Work& work) {
  return decode_in_order(work);
}
Outcome decode_two_streams(Work& work) {
  return decode_from_points(work);
}

}  // namespace carya::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace carya::jpeg {

HWY_EXPORT(decode_one_stream);
HWY_EXPORT(decode_two_streams);

Outcome run_decode(Work& work, bool two_streams) {
  return two_streams ? HWY_DYNAMIC_DISPATCH(decode_two_streams)(work)
                     : HWY_DYNAMIC_DISPATCH(decode_one_stream)(work);
}

}  // namespace carya::jpeg
#endif
