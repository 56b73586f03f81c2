#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "autotune/simulator/policy.h"
#include "autotune/simulator/world.h"

namespace carya::autotune::simulator {

/// One of the workloads that Pecan was evaluated on, as rates (samples/s). Each is derived from published
/// prices, epoch times and worker counts; README says how. "plain": without AutoOrder.
struct Workload {
  std::string_view name;
  double samples_per_epoch;
  double demand, demand_plain;  ///< of the trainer
  double worker, worker_plain;  ///< of one remote worker
  double local, local_plain;    ///< of ten local workers together
  double collocated;            ///< of one tf.data pipeline on the host
  Prices prices;
  double element_samples;  ///< of one tf.data service element
  std::uint32_t pool;      ///< workers there are
  // What was published of Pecan; 0: not published.
  double pecan_workers;
  double pecan_converged_s;
  double pecan_epoch_cost;  ///< $
  double pecan_epoch_s;
  double fastflow_epoch_s;  ///< published of FastFlow
};

std::span<const Workload> workloads();

enum class Baseline : std::uint8_t {
  kCollocated,
  kCachew,
  kFastFlow,
  kAutoPlacement,
  kAutoOrder,
  kPecan,
  kOracle,
  kOurs
};
std::string_view baseline_name(Baseline baseline);

/// What a baseline did with a workload in a job of some epochs.
struct WorkloadResult {
  Running last;            ///< how it ran in the end
  double converged_s = 0;  ///< of its last change
  std::uint32_t changes = 0;
  double epoch_s = 0;           ///< in the end
  double epoch_cost = 0;        ///< $, in the end
  double job_cost = 0;          ///< $ per epoch, the way to it included
  std::vector<Moment> moments;  ///< each change, and the end
};
WorkloadResult run_workload(const Workload& workload, Baseline baseline, double epochs, std::uint64_t seed);

}  // namespace carya::autotune::simulator
