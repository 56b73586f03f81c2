#pragma once

#include <cstdint>
#include <vector>

#include "autotune/simulator/policy.h"
#include "autotune/simulator/world.h"

namespace carya::autotune::simulator {

/// Something that changes at once. Factors multiply what is true at that moment.
struct Event {
  enum class Kind : std::uint8_t { kDemand, kLocalTime, kWorkerTime, kLink, kWorkerPrice, kLoseWorkers };
  double at_s = 0;
  Kind kind = Kind::kDemand;
  double factor = 1;
};

/// Something that changes evenly over a stretch of time, by a factor in all.
struct Drift {
  double from_s = 0, to_s = 0;  ///< none: the same
  Event::Kind kind = Event::Kind::kDemand;
  double factor = 1;
};

struct Scenario {
  WorldSpec world;
  PlacementFacts model;       ///< what a controller is told before it has measured
  std::vector<Event> events;  ///< by time
  Drift drift;
  double horizon_s = 3600;
  double step_s = 1;
};

/// Drawn by the seed: rates, prices, link, noise up to `noise_max`, drifts, failures. README has the ranges.
Scenario random_scenario(std::uint64_t seed, double noise_max);

/// What a policy did with a scenario. Trials (a first worker) are no changes of the answer.
struct Outcome {
  Bill bill;
  std::uint32_t changes = 0;            ///< of the answer, in all
  std::uint32_t changes_per_world = 0;  ///< the most between two changes of the world
  /// Changes that bring back what was before the one before, within 10 minutes in which the world did not
  /// change.
  std::uint32_t oscillations = 0;
  double settled_s = 0;  ///< of the last change before the world changed first
  double cost_per_sample() const { return bill.total() / bill.samples; }
};

Outcome play(const Scenario& scenario, Policy& policy, World& world);
Outcome play_ours(const Scenario& scenario);
Outcome play_oracle(const Scenario& scenario);

}  // namespace carya::autotune::simulator
