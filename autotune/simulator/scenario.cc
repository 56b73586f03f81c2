#include "autotune/simulator/scenario.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/det_math.h"

namespace carya::autotune::simulator {
namespace {

constexpr double kOscillationS = 600;
constexpr double kToldEachS = 60;  // the oracle, of a drift
constexpr double kWatchedEachS = 1000;

/// Draws of one scenario.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(op_key(seed, "autotune/scenario", 0), 0, 0, 0) {}
  double between(double low, double high) { return random_.next_between(low, high); }
  /// Even in the logarithm.
  double scale(double low, double high) { return low * det_exp(random_.next_double() * det_log(high / low)); }
  bool chance(double share) { return random_.next_double() < share; }
  std::uint64_t below(std::uint64_t bound) { return random_.next_below(bound); }

 private:
  SampleRng random_;
};

PlacementInputs random_truth(Draw& draw) {
  PlacementInputs truth{.local_cpu_s = draw.scale(2e-4, 5e-3),
                        .cores = static_cast<double>(1 + draw.below(32)),
                        .worker_cores = static_cast<double>(4 << draw.below(3))};
  truth.demand = truth.cores / truth.local_cpu_s * draw.scale(0.3, 12);
  truth.link_in_bytes_per_s = draw.scale(1.25e8, 3e9);
  if (draw.chance(0.3)) {
    truth.source_bytes = 110e3;
    truth.source_bytes_per_s = truth.demand * truth.source_bytes * draw.scale(0.5, 4);
  }
  const double speed = draw.scale(0.6, 1.6);  // of a worker's cores
  const std::size_t cuts = 1 + draw.below(4);
  for (std::size_t cut = 1; cut <= cuts; ++cut) {
    const double part = static_cast<double>(cut) / static_cast<double>(cuts);  // of the work, before the cut
    const double receive = draw.between(0.01, 0.1);
    truth.cuts.push_back({.ops_remote = cut,
                          .host_cpu_s = truth.local_cpu_s * (1 - part + receive),
                          .worker_cpu_s = truth.local_cpu_s * (part + receive / 2) / speed,
                          .bytes_in = draw.scale(3e4, 6e5)});
  }
  return truth;
}

/// The planner's costs before anything was measured: each wrong by up to a half.
PlacementInputs random_model(const PlacementInputs& truth, Draw& draw) {
  PlacementInputs model = truth;
  model.demand = 0;
  model.link_in_bytes_per_s = model.source_bytes_per_s = 0;
  model.local_cpu_s *= draw.scale(0.67, 1.5);
  const double workers = draw.scale(0.67, 1.5), host = draw.scale(0.67, 1.5);
  for (RemoteCut& cut : model.cuts) cut.worker_cpu_s *= workers, cut.host_cpu_s *= host;
  return model;
}

Event random_event(Draw& draw, double at_s) {
  using Kind = Event::Kind;
  const Kind kind = static_cast<Kind>(draw.below(6));
  const double factor =
      kind == Kind::kLocalTime || kind == Kind::kWorkerTime ? draw.scale(1. / 2, 2) : draw.scale(1. / 3, 3);
  return {.at_s = at_s, .kind = kind, .factor = factor};
}

void apply(World& world, Event::Kind kind, double factor) {
  using Kind = Event::Kind;
  PlacementInputs& truth = world.truth();
  Prices prices = world.spec().prices;
  switch (kind) {
    case Kind::kDemand:
      truth.demand *= factor;
      break;
    case Kind::kLocalTime:
      truth.local_cpu_s *= factor;
      break;
    case Kind::kWorkerTime:
      for (RemoteCut& cut : truth.cuts) cut.worker_cpu_s *= factor;
      break;
    case Kind::kLink:
      truth.link_in_bytes_per_s *= factor;
      break;
    case Kind::kWorkerPrice:
      prices.worker_per_hour *= factor;
      world.set_prices(prices);
      break;
    case Kind::kLoseWorkers:
      world.lose_all_workers();
      break;
  }
}

/// Keeps the answers of a policy and finds those that were undone.
class Answers {
 public:
  void world_changed(double now_s) {
    world_s_ = now_s;
    first_world_ = first_world_ && now_s == 0;
    in_world_ = 0;
  }
  void add(const Running& run, double now_s, Outcome& outcome) {
    if (same(run, last_)) return;
    ++outcome.changes;
    outcome.changes_per_world = std::max(outcome.changes_per_world, ++in_world_);
    if (first_world_) outcome.settled_s = now_s;
    if (same(run, before_) && now_s - at_s_ < kOscillationS && world_s_ <= at_s_ && outcome.changes > 1)
      ++outcome.oscillations;
    before_ = last_;
    last_ = run;
    at_s_ = now_s;
  }

 private:
  static bool same(const Running& a, const Running& b) {
    return a.workers == b.workers && (a.workers == 0 || a.cut == b.cut);
  }
  Running before_, last_;
  double at_s_ = -1e300, world_s_ = 0;
  std::uint32_t in_world_ = 0;
  bool first_world_ = true;
};

}  // namespace

void Outcome::add(const Moment& moment, double each_s) {
  if (!moments.empty() && moments.back().workers == moment.workers &&
      moment.at_s - moments.back().at_s < each_s)
    return;
  moments.push_back(moment);
}

Scenario random_scenario(std::uint64_t seed, double noise_max) {
  Draw draw(seed);
  Scenario made{.horizon_s = draw.between(3600, 7200)};
  made.world = {.truth = random_truth(draw),
                .prices = {.host_per_hour = draw.scale(1, 40), .worker_per_hour = draw.scale(0.1, 1.5)},
                .fleet = {.start_s = draw.scale(2, 120),
                          .billed_s_min = draw.chance(0.5)   ? 0
                                          : draw.chance(0.5) ? 60.0
                                                             : 600.0,
                          .size = 64,
                          .fails_per_hour = draw.chance(0.3) ? draw.scale(0.01, 1) : 0},
                .noise = noise_max * draw.between(0, 1),
                .scaling_loss = draw.chance(0.5) ? draw.between(0, 0.005) : 0,
                .seed = seed};
  made.model = random_model(made.world.truth, draw);
  made.goal.workers_max = made.world.fleet.size;
  for (std::uint64_t events = draw.below(3); events > 0; --events)
    made.events.push_back(random_event(draw, draw.between(600, made.horizon_s - 600)));
  std::sort(made.events.begin(), made.events.end(),
            [](const Event& a, const Event& b) { return a.at_s < b.at_s; });
  if (draw.chance(0.3)) {
    const double from = draw.between(300, made.horizon_s / 2);
    made.drift = {.from_s = from,
                  .to_s = from + draw.between(600, 1800),
                  .kind = draw.chance(0.5) ? Event::Kind::kDemand : Event::Kind::kLocalTime,
                  .factor = draw.scale(0.67, 1.5)};
  }
  return made;
}

Outcome play(const Scenario& scenario, Policy& policy, World& world, const Watch& watch) {
  Outcome outcome;
  Answers answers;
  const Drift& drift = scenario.drift;
  const double drift_steps = std::max(1.0, (drift.to_s - drift.from_s) / scenario.step_s);
  const double drift_step = det_exp(det_log(drift.factor) / drift_steps);
  std::size_t next = 0;
  double told_s = 0, watched_s = 0;
  while (world.now_s() < scenario.horizon_s) {
    const double now = world.now_s();
    bool changed = false;
    for (; next < scenario.events.size() && scenario.events[next].at_s <= now; ++next, changed = true)
      apply(world, scenario.events[next].kind, scenario.events[next].factor);
    if (now >= drift.from_s && now < drift.to_s) {
      apply(world, drift.kind, drift_step);
      changed = changed || now - told_s >= kToldEachS;
    }
    if (changed) {
      told_s = now;
      answers.world_changed(now);
      policy.told(world);
    }
    const Running run = policy.run();
    Measurements seen = world.step(run, scenario.step_s);
    outcome.add(world.moment(run, seen.workers_ready), scenario.horizon_s / kMoments);
    seen.work_left_s = scenario.horizon_s - world.now_s();
    policy.observe(seen, world.now_s());
    if (!policy.trial()) answers.add(policy.run(), world.now_s(), outcome);
    if (watch && world.now_s() - watched_s >= kWatchedEachS) {
      watched_s = world.now_s();
      if (!watch(watched_s)) break;
    }
  }
  if (!outcome.moments.empty()) {  // the end
    outcome.moments.push_back(outcome.moments.back());
    outcome.moments.back().at_s = world.now_s();
  }
  world.close();
  outcome.bill = world.bill();
  return outcome;
}

Result<Outcome> try_ours(const Scenario& scenario, const Watch& watch) {
  World world(scenario.world);
  const Fleet& fleet = scenario.world.fleet;
  auto controller = Controller::create({.model = scenario.model,
                                        .prices = scenario.world.prices,
                                        .goal = scenario.goal,
                                        .worker_start_s = fleet.start_s,
                                        .worker_billed_s_min = fleet.billed_s_min});
  if (!controller) return std::unexpected(controller.error());
  OurPolicy policy(std::move(*controller));
  return play(scenario, policy, world, watch);
}

Outcome play_ours(const Scenario& scenario) {
  return try_ours(scenario).value();
}

Outcome play_oracle(const Scenario& scenario, const Watch& watch) {
  World world(scenario.world);
  OraclePolicy policy(world, scenario.horizon_s);
  return play(scenario, policy, world, watch);
}

Outcome play_local(const Scenario& scenario, const Watch& watch) {
  World world(scenario.world);
  FixedPolicy policy({.cores = scenario.world.truth.cores});
  return play(scenario, policy, world, watch);
}

}  // namespace carya::autotune::simulator
