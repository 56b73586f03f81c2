#include "autotune/simulator/fleet.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "autotune/sharing.h"
#include "autotune/simulator/scenario.h"

namespace carya::autotune::simulator {
namespace {

constexpr double kMinute = 60;
constexpr double kHour = 3600;
constexpr std::uint32_t kJobWorkersMax = 64;

Claim next_job(std::uint64_t& seed) {
  const Scenario scenario = random_scenario(seed++, 0);
  return {.facts = scenario.world.truth,
          .prices = scenario.world.prices,
          .goal = {.workers_max = kJobWorkersMax}};
}

/// $ of the work that the trainer would do in a minute, with so many workers at their best cut, as the world
/// runs it.
double cost_of(const Claim& job, std::uint32_t workers) {
  const World world({.truth = job.facts, .prices = job.prices});
  double rate = world.rate({.cores = job.facts.cores}, 0);
  for (std::size_t cut = 0; cut < job.facts.cuts.size(); ++cut)
    rate = std::max(rate, world.rate({.cut = cut, .workers = workers, .cores = job.facts.cores}, workers));
  const double per_hour = job.prices.host_per_hour + workers * job.prices.worker_per_hour;
  return per_hour / kHour * job.facts.demand * kMinute / rate;
}

bool gains(const Claim& job) {
  return cost_of(job, 1) < cost_of(job, 0) * (1 - 1e-6);
}

}  // namespace

FleetResult run_fleet(const FleetOptions& options) {
  FleetResult result{.hosts = options.hosts, .workers = options.workers, .jobs = options.hosts};
  std::uint64_t seed = options.seed * 1'000'000;
  std::vector<Claim> jobs;
  for (std::uint32_t i = 0; i < options.hosts; ++i) jobs.push_back(next_job(seed));
  SampleRng random(op_key(options.seed, "autotune/fleet", 0), 0, 0, 0);
  const std::uint32_t equal = options.workers / std::max(1U, options.hosts);
  for (std::uint32_t minute = 0; minute < options.minutes; ++minute) {
    for (Claim& job : jobs)
      if (minute > 0 && random.next_double() < options.ends_per_minute) job = next_job(seed), ++result.jobs;
    const std::vector<std::uint32_t> given = share_workers(jobs, options.workers).value();
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      result.cost += cost_of(jobs[i], given[i]);
      result.cost_local += cost_of(jobs[i], 0);
      double least = cost_of(jobs[i], 0);
      for (std::uint32_t workers = 1; workers <= equal; ++workers)
        least = std::min(least, cost_of(jobs[i], workers));
      result.cost_equal += least;
      result.starved += given[i] == 0 && gains(jobs[i]) ? 1 : 0;
    }
    result.workers_used += std::accumulate(given.begin(), given.end(), 0.0) / options.minutes;
  }
  return result;
}

}  // namespace carya::autotune::simulator
