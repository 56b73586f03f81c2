#pragma once

#include <cstdint>
#include <functional>
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
  PlacementInputs model;      ///< what a controller is told before it has measured
  std::vector<Event> events;  ///< by time
  Drift drift;
  PlacementGoal goal;  ///< workers_max: at most the fleet's size
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
  double settled_s = 0;         ///< of the last change before the world changed first
  std::vector<Moment> moments;  ///< each change, at least kMoments over the horizon, and the end
  double cost_per_sample() const { return bill.total() / bill.samples; }
  void add(const Moment& moment, double each_s);
};

inline constexpr double kMoments = 200;

/// Told of the simulated seconds now and then; false ends the play where it is.
using Watch = std::function<bool(double now_s)>;

Outcome play(const Scenario& scenario, Policy& policy, World& world, const Watch& watch = {});
/// Errors: kInvalidArgument: those of Controller::create().
Result<Outcome> try_ours(const Scenario& scenario, const Watch& watch = {});
/// Of a scenario whose numbers are known to be right.
Outcome play_ours(const Scenario& scenario);
/// The goal of the oracle is kCost.
Outcome play_oracle(const Scenario& scenario, const Watch& watch = {});
Outcome play_local(const Scenario& scenario, const Watch& watch = {});

}  // namespace carya::autotune::simulator
