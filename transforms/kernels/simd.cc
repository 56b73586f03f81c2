#include "transforms/kernels/simd.h"

#include "transforms/kernels/simd_config.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

namespace carya::transforms {
namespace {

constexpr std::int64_t kCompiled = HWY_TARGETS;
constexpr std::int64_t kFallback = HWY_STATIC_TARGET;

}  // namespace

std::vector<std::string> simd_targets() {
  const std::int64_t detected = hwy::SupportedTargets();
  std::vector<std::string> names;
  for (int bit = 0; bit < 63; ++bit) {
    const std::int64_t target = std::int64_t{1} << bit;
    if ((target & kCompiled) != 0 && ((target & detected) != 0 || target == kFallback)) {
      names.emplace_back(hwy::TargetName(target));
    }
  }
  return names;
}

Status force_simd_target(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  if (name.empty()) return {};
  std::string known;
  for (int bit = 0; bit < 63; ++bit) {
    const std::int64_t target = std::int64_t{1} << bit;
    if ((target & kCompiled) == 0) continue;
    const bool supported = (target & hwy::SupportedTargets()) != 0 || target == kFallback;
    if (!supported) continue;
    if (name == hwy::TargetName(target)) {
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(target);
      return {};
    }
    known += std::string(known.empty() ? "" : ", ") + hwy::TargetName(target);
  }
  return fail(Code::kInvalidArgument, "SIMD target " + name + " is not available: " + known);
}

}  // namespace carya::transforms
