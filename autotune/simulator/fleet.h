#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace carya::autotune::simulator {

/// Hosts with jobs of several users that come and go, each job with its own controller, and one fleet of workers that all
/// share. README, "The fleet", says what is drawn.
struct FleetOptions {
  std::uint32_t hosts = 1000;
  std::uint32_t workers = 10'000;
  std::uint32_t minutes = 60;           ///< cores are shared anew each minute, workers each second
  std::uint32_t users = 20;             ///< of weights 1, 2, 3, 4, 1 and so on
  std::uint32_t jobs_per_host_max = 2;  ///< at least 1; cores are shared between them
  double ends_per_minute = 0.02;        ///< share of the jobs that are followed by another
  double noise_max = 0.1;               ///< of the measurements
  double preempted_per_hour = 0;        ///< times that each worker is taken away; another starts in its place
  bool by_weight = true;                ///< false: all jobs are one user's, so that workers go by money
  std::uint64_t seed = 1;
};

/// What a job says of itself to the workers that it uses.
struct FleetClaim {
  std::string_view user;
  double weight = 1, worth = 0;
  bool asks = false;
};
/// By which workers share themselves: the part of all of them that each job may have, those that ask 1 together.
using ShareRule = std::function<std::vector<double>(std::span<const FleetClaim>)>;

/// That of the product, whose claims have the same fields (`remote::client_shares`, which this level may not include).
template <class Claim>
ShareRule share_rule(std::vector<double> (*rule)(std::span<const Claim>)) {
  return [rule](std::span<const FleetClaim> jobs) {
    std::vector<Claim> claims;
    for (const FleetClaim& job : jobs)
      claims.push_back({.user = job.user, .weight = job.weight, .worth = job.worth, .asks = job.asks});
    return rule(claims);
  };
}

/// What a user had.
struct FleetUser {
  double weight = 1;
  std::uint32_t jobs = 0;   ///< that ran
  double worker_hours = 0;  ///< paid for
  /// Of who knows all: what its jobs want, as far as the weights of those that gain give it.
  double part_hours = 0;
  bool limited = true;  ///< its jobs wanted more than its part in every minute
  double cost = 0, cost_best = 0;
  std::vector<double> workers, part;  ///< of each minute
};

struct FleetResult {
  std::uint32_t hosts = 0, workers = 0;
  std::uint32_t jobs = 0;       ///< that ran
  std::uint32_t jobs_kept = 0;  ///< of these keep samples
  double workers_most = 0;      ///< in use at any time
  double workers_used = 0;      ///< mean
  double stall = 0;             ///< share of the trainers' time
  /// The longest time that a job had less than a tenth of a worker, although it asked and gains by one, by what is true.
  double starved_s = 0;
  /// Jain's index of the users' worker-hours, each divided by its part; of those that are limited, by its weight.
  double jain = 1, jain_limited = 1;
  // $, of the same samples.
  double cost = 0;             ///< hosts and workers, start-up and minimum included
  double cost_local = 0;       ///< without workers
  double cost_best = 0;        ///< at least what who knows all pays if each user has its part: knows_all.h
  double cost_best_money = 0;  ///< the same of whoever owes users nothing
  /// The same if each job has the worker-hours that it had: what is above cost_best comes of sharing, what the cost is
  /// above this of each job by itself.
  double cost_best_jobs = 0;
  std::vector<FleetUser> users;
};

/// `watch` is told of each minute that has gone by; false ends the run there.
FleetResult run_fleet(const FleetOptions& options, const ShareRule& shares,
                      const std::function<bool(std::uint32_t minutes)>& watch = {});

}  // namespace carya::autotune::simulator
