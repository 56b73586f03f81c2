#include "transforms/jpeg/simd_target.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

namespace carya::jpeg {
namespace {

void choose(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().DeInit();  // the next dispatch looks again
}

// Every target of this machine, whatever is forced.
std::vector<std::int64_t> all_targets() {
  const std::int64_t now = hwy::SupportedTargets();
  hwy::SetSupportedTargetsForTest(0);
  const std::vector<std::int64_t> all = hwy::SupportedAndGeneratedTargets();
  if (now != hwy::SupportedTargets()) hwy::SetSupportedTargetsForTest(now);
  return all;
}

}  // namespace

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const std::int64_t target : all_targets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

std::string simd_target() {
  return hwy::TargetName(hwy::SupportedAndGeneratedTargets().front());
}

bool force_simd_target(std::string_view name) {
  if (name.empty()) {
    choose(0);
    return true;
  }
  for (const std::int64_t target : all_targets()) {
    if (name == hwy::TargetName(target)) {
      choose(target);
      return true;
    }
  }
  return false;
}

}  // namespace carya::jpeg
