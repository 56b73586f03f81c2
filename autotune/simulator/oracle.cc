#include <algorithm>

#include "autotune/simulator/policy.h"

namespace carya::autotune::simulator {
OraclePolicy::OraclePolicy(const World& world, double horizon_s) : horizon_s_(horizon_s) {
  run_.cores = world.spec().truth.cores;
  told(world);
}

OraclePolicy::Value OraclePolicy::value(const World& world, const Running& run) const {
  const WorldSpec& spec = world.spec();
  const double rate = world.rate(run, run.workers);
  const double demand = spec.truth.demand;
  return {(spec.prices.host_per_hour + run.workers * spec.prices.worker_per_hour) / kSecondsPerHour / rate,
          rate, !(demand > 0) || rate >= demand * (1 - kStallMax)};
}

void OraclePolicy::observe(const Measurements& /*seen*/, double now_s) {
  left_s_ = std::max(0.0, horizon_s_ - now_s);
}

void OraclePolicy::told(const World& world) {
  left_s_ = std::max(0.0, horizon_s_ - world.now_s());
  const WorldSpec& spec = world.spec();
  run_.cores = spec.truth.cores;
  const Value present = value(world, run_);
  const auto wins = [](const Value& a, const Value& b) {
    return a.fits != b.fits ? a.fits : a.cost_per_sample < b.cost_per_sample * (1 - 1e-9);
  };
  Running best = {.cores = run_.cores};
  Value least = value(world, best);
  for (std::size_t cut = 0; cut < spec.truth.cuts.size(); ++cut)
    for (std::uint32_t workers = 1; workers <= spec.fleet.size; ++workers) {
      const Running other{.cut = cut, .workers = workers, .cores = run_.cores};
      const Value its = value(world, other);
      if (wins(its, least)) least = its, best = other;
    }
  const double more = best.workers > run_.workers ? best.workers - run_.workers : 0;
  const double cost = more * spec.prices.worker_per_hour * spec.fleet.start_s / kSecondsPerHour;
  const double saving =
      (present.cost_per_sample - least.cost_per_sample) * least.rate * std::min(kSecondsPerHour, left_s_);
  const bool serves = least.fits && !present.fits;
  const bool unpaid = best.workers < run_.workers && best.workers < world.paid_workers();
  if ((serves || saving > cost) && !unpaid) run_ = best;
}

}  // namespace carya::autotune::simulator
