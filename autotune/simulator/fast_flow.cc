#include "autotune/simulator/policy.h"

namespace carya::autotune::simulator {
namespace {

constexpr std::uint32_t kWorkers = 2;     // in every published row
constexpr double kProfileElements = 100;  // of either side alone

}  // namespace

Running FastFlowPolicy::run() const {
  if (stage_ == Stage::kLocal) return {.cores = cores_};
  return {.cut = 0, .workers = kWorkers, .cores = stage_ == Stage::kRemote ? 0 : cores_};
}

void FastFlowPolicy::observe(const Measurements& seen, double /*now_s*/) {
  if (stage_ == Stage::kBoth || seen.workers_ready < run().workers) return;
  elements_ += seen.samples / element_samples_;
  if (elements_ < kProfileElements) return;
  stage_ = stage_ == Stage::kLocal ? Stage::kRemote : Stage::kBoth;
  elements_ = 0;
}

}  // namespace carya::autotune::simulator
