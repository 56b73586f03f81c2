#pragma once

#include <cstdint>

namespace carya::autotune::simulator {

/// Hosts whose jobs come and go, and one fleet of workers that they share.
struct FleetOptions {
  std::uint32_t hosts = 1000;
  std::uint32_t workers = 10'000;
  std::uint32_t minutes = 60;     ///< workers are shared anew each minute
  double ends_per_minute = 0.02;  ///< share of the jobs that are followed by another
  std::uint64_t seed = 1;
};

struct FleetResult {
  std::uint32_t hosts = 0, workers = 0;
  std::uint32_t jobs = 0;     ///< that ran
  std::uint32_t starved = 0;  ///< times that a host which gains by a worker got none
  double workers_used = 0;    ///< mean over the minutes
  // $, of the same work: hosts and workers for as long as it takes.
  double cost = 0;        ///< shared by share_workers
  double cost_local = 0;  ///< without workers
  double cost_equal = 0;  ///< every host the same number, as many of them as help it
};

FleetResult run_fleet(const FleetOptions& options);

}  // namespace carya::autotune::simulator
