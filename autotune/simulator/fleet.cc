#include "autotune/simulator/fleet.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "autotune/sharing/sharing.h"
#include "autotune/simulator/scenario.h"

namespace carya::autotune::simulator {
namespace {

constexpr std::uint32_t kMinuteS = 60;
constexpr std::uint32_t kJobWorkersMax = 64;

/// A job on its host, from its first second to its last.
struct Job {
  World world;
  Controller controller;
  Prices prices;
  std::uint32_t allowed = 0;

  explicit Job(const Scenario& scenario)
      : world(scenario.world),
        controller(Controller::create({.model = scenario.model,
                                       .prices = scenario.world.prices,
                                       .goal = {.workers_max = 0},
                                       .worker_start_s = scenario.world.fleet.start_s,
                                       .worker_billed_s_min = scenario.world.fleet.billed_s_min})
                       .value()),
        prices(scenario.world.prices) {}

  std::uint32_t workers() const { return std::min(allowed, controller.decision().run.workers); }
  Claim claim() const {
    return {.facts = controller.facts(), .prices = prices, .goal = {.workers_max = kJobWorkersMax}};
  }
  void allow(std::uint32_t count) {
    if (count == allowed) return;
    allowed = count;
    world.set_fleet_size(count);
    static_cast<void>(controller.set_goal({.workers_max = count}));
  }
  void second() {
    const Running run = controller.decision().run;
    controller.observe(world.step(run, 1), world.now_s());
  }
};

class FleetRun {
 public:
  explicit FleetRun(const FleetOptions& options)
      : options_(options),
        random_(op_key(options.seed, "autotune/fleet", 0), 0, 0, 0),
        seed_(options.seed * 1'000'000) {
    result_ = {.hosts = options.hosts, .workers = options.workers};
    for (std::uint32_t i = 0; i < options.hosts; ++i) jobs_.push_back(next_job());
  }

  FleetResult run(const std::function<bool(std::uint32_t)>& watch) {
    std::uint32_t minute = 0;
    for (; minute < options_.minutes && (!watch || watch(minute)); ++minute) {
      for (auto& job : jobs_)
        if (minute > 0 && random_.next_double() < options_.ends_per_minute) end(*job), job = next_job();
      share();
      for (std::uint32_t second = 0; second < kMinuteS; ++second) go();
    }
    for (const auto& job : jobs_) end(*job);
    const double seconds = std::max(1U, minute) * kMinuteS;
    result_.workers_used /= seconds;
    result_.stall = stall_s_ / (seconds * static_cast<double>(options_.hosts));
    return result_;
  }

 private:
  std::unique_ptr<Job> next_job() {
    ++result_.jobs;
    Scenario scenario = random_scenario(seed_++, options_.noise_max);
    scenario.world.fleet.size = 0;
    scenario.world.fleet.fails_per_hour =
        std::max(scenario.world.fleet.fails_per_hour, options_.preempted_per_hour);
    return std::make_unique<Job>(scenario);
  }

  /// What nobody needs is left with all in equal parts, so that a job that needs one more need not wait. A
  /// limit that binds nobody stays as it is.
  void share() {
    std::vector<Claim> claims;
    for (const auto& job : jobs_) claims.push_back(job->claim());
    std::vector<std::uint32_t> given = share_workers(claims, options_.workers).value();
    std::uint32_t left = options_.workers;
    for (const std::uint32_t count : given) left -= count;
    const std::uint32_t spare = left / options_.hosts;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      result_.starved += given[i] + spare == 0 && gains(claims[i]) ? 1 : 0;
      jobs_[i]->allow(std::min(kJobWorkersMax, given[i] + spare));
    }
  }

  static bool gains(const Claim& claim) {
    const auto best = place(claim.facts, claim.prices, claim.goal);
    return best && best->choice.workers > 0;
  }

  void go() {
    std::uint32_t used = 0;
    for (const auto& job : jobs_) {
      used += job->workers();
      job->second();
    }
    result_.workers_used += used;
    result_.workers_most = std::max(result_.workers_most, used);
  }

  void end(Job& job) {
    job.world.close();
    const Bill& bill = job.world.bill();
    const PlacementInputs& truth = job.world.spec().truth;
    const auto best = place(truth, job.prices, {.workers_max = kJobWorkersMax});
    result_.cost += bill.total();
    result_.cost_local += bill.samples * predict(truth, job.prices, {}, std::nullopt, 0).cost_per_sample;
    result_.cost_best += bill.samples * best->choice.cost_per_sample;
    stall_s_ += bill.stall_s;
  }

  FleetOptions options_;
  SampleRng random_;
  std::uint64_t seed_;
  FleetResult result_;
  double stall_s_ = 0;
  std::vector<std::unique_ptr<Job>> jobs_;
};

}  // namespace

FleetResult run_fleet(const FleetOptions& options, const std::function<bool(std::uint32_t)>& watch) {
  return FleetRun(options).run(watch);
}

}  // namespace carya::autotune::simulator
