// The decode loops, compiled once for every SIMD target and chosen at run time.

#include "transforms/simd/config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/jpeg/scan/decode_targets.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>
#include "transforms/jpeg/scan/planar-inl.h"
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

Outcome from_blocks(Work& work) {
  return transform_planar(work);
}
Outcome pass_over(Work& work, int until) {
  return pass_over_rows(work, until);
}
void unstuff_all(Work& work) {
  unstuff(work.scan, work.header->restart_interval > 0, work.unstuffed);
}

}  // namespace carya::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace carya::jpeg {

HWY_EXPORT(decode_one_stream);
HWY_EXPORT(decode_two_streams);
HWY_EXPORT(from_blocks);
HWY_EXPORT(pass_over);
HWY_EXPORT(unstuff_all);

Outcome run_decode(Work& work, bool two_streams) {
  return two_streams ? HWY_DYNAMIC_DISPATCH(decode_two_streams)(work)
                     : HWY_DYNAMIC_DISPATCH(decode_one_stream)(work);
}

Outcome transform_blocks(Work& work) {
  return HWY_DYNAMIC_DISPATCH(from_blocks)(work);
}

Outcome scout_rows(Work& work, int until) {
  return HWY_DYNAMIC_DISPATCH(pass_over)(work, until);
}

void unstuff_scan(Work& work) {
  HWY_DYNAMIC_DISPATCH(unstuff_all)(work);
}

}  // namespace carya::jpeg
#endif
