#pragma once

#include <cstdint>
#include <functional>

namespace carya::autotune::simulator {

/// Hosts whose jobs come and go, each with its own controller, and one fleet of workers that they share.
struct FleetOptions {
  std::uint32_t hosts = 1000;
  std::uint32_t workers = 10'000;
  std::uint32_t minutes = 60;     ///< workers are shared anew each minute
  double ends_per_minute = 0.02;  ///< share of the jobs that are followed by another
  double noise_max = 0.1;         ///< of the measurements
  double preempted_per_hour =
      0;  ///< times that each worker is taken away at least; another one starts in its place
  std::uint64_t seed = 1;
};

struct FleetResult {
  std::uint32_t hosts = 0, workers = 0;
  std::uint32_t jobs = 0;          ///< that ran
  std::uint32_t starved = 0;       ///< times that a host which gains by a worker was allowed none
  std::uint32_t workers_most = 0;  ///< at any time
  double workers_used = 0;         ///< mean
  double stall = 0;                ///< share of the trainers' time
  // $, of the same samples.
  double cost = 0;        ///< hosts and workers, start-up and minimum included
  double cost_local = 0;  ///< without workers
  double cost_best =
      0;  ///< each job alone with as many workers as it wants, chosen by who knows all, at once
};

/// `watch` is told of each minute that has gone by; false ends the run there.
FleetResult run_fleet(const FleetOptions& options,
                      const std::function<bool(std::uint32_t minutes)>& watch = {});

}  // namespace carya::autotune::simulator
