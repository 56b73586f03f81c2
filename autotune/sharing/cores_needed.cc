#include "autotune/sharing/cores_needed.h"

#include <algorithm>

namespace carya::autotune {
namespace {

/// Of a sample until it is measured: only the unit in which it is.
constexpr double kSampleS = 1e-3;
/// A trainer that waits longer wants so many times what it gets, if not more. Nearly all the time cannot be
/// told from all of it, and such noise would hide what it wants later.
constexpr double kOwnShareMin = 0.25;

Controller local_controller(std::uint32_t cores) {
  // The host's price decides nothing: there is nothing to pay for beside it.
  auto made = Controller::create({.model = {.local_cpu_s = kSampleS,
                                            .cuts = {},
                                            .cores = static_cast<double>(std::max<std::uint32_t>(cores, 1))},
                                  .prices = {.host_per_hour = 1},
                                  .goal = {.workers_max = 0}});
  CHECK(made);
  return std::move(*made);
}

}  // namespace

CoresNeeded::CoresNeeded(std::uint32_t cores)
    : controller_(local_controller(cores)), cores_(std::max<std::uint32_t>(cores, 1)) {}

void CoresNeeded::set_cores(std::uint32_t cores) {
  cores_ = std::max<std::uint32_t>(cores, 1);
  controller_ = local_controller(cores_);
  interrupt();
}

bool CoresNeeded::observe(const StreamTotals& totals, double now_s) {
  const double seconds = now_s - begun_s_;
  if (begun_ && seconds < kIntervalS) return false;
  const StreamTotals from = before_;
  before_ = totals;
  begun_s_ = now_s;
  if (!std::exchange(begun_, true)) return false;
  const double taken = totals.taken_samples - from.taken_samples;
  // What the trainer says of itself can be any number.
  const double stall = std::clamp(totals.waited_s - from.waited_s, 0.0, seconds * (1 - kOwnShareMin));
  const Decision& decision = controller_.observe({.seconds = seconds,
                                                  .samples = taken,
                                                  .stall_s = stall,
                                                  .demand = taken / (seconds - stall),
                                                  .local_samples = totals.made_samples - from.made_samples,
                                                  .local_thread_s = totals.thread_s - from.thread_s},
                                                 now_s);
  const auto cores = static_cast<std::uint32_t>(decision.run.cores);
  return std::exchange(cores_, cores) != cores;
}

}  // namespace carya::autotune
