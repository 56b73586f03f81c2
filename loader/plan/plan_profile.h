#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autotune/controller/earlier_run.h"
#include "loader/cache/storage_rates.h"
#include "loader/plan/planner_input.h"
#include "loader/plan/trainer_stats.h"
#include "transforms/pipeline/pipeline.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

/// What one order of a pipeline's ops was measured to cost, stage by stage.
struct OrderProfile {
  std::vector<std::size_t> order;               ///< the order of all ops, by index
  std::vector<transforms::OpProfile> stages{};  ///< sums over the samples, stage by stage
  std::int64_t measured_at_s = 0;               ///< Unix time of the last sample

  std::uint64_t timed_samples() const { return stages.empty() ? 0 : stages.front().timed_samples; }
  /// CPU nanoseconds of one sample; 0 when nothing was measured.
  double cpu_ns() const;
};

/// What the last stream that had workers knew of them at its end.
struct OverflowProfile {
  std::vector<std::size_t> order;  ///< the order of the ops at that time
  autotune::EarlierRun run;
  double samples_away =
      0;  ///< samples that the trainer takes while a chunk is away, for 99 in 100; 0: not known

  bool operator==(const OverflowProfile&) const = default;
};

/// What samples in files of a folder cost there.
struct StorageProfile {
  std::string folder;
  StorageRates rates;
  bool operator==(const StorageProfile&) const = default;
};
inline constexpr std::size_t kStoragesKept = 8, kFolderBytesMax = 4096;

/// What was measured of a pipeline over all orders in which its ops ran, and of its last stream. A plain value.
struct PlanProfile {
  std::vector<OrderProfile> orders;  ///< each order once; the one measured last stands at the end
  StreamRates rates{};
  std::optional<OverflowProfile> overflow{};
  std::vector<StorageProfile> storages{};  ///< each folder once; those measured last stand at the end

  const OrderProfile* find(std::span<const std::size_t> order) const;
  /// Add the cost of an order's stages since the last call for it. Keeps kOrdersKept orders.
  void add(std::span<const std::size_t> order, std::span<const transforms::OpProfile> stages,
           std::int64_t now_s);
  /// Put what is known of storages in the place of what was known of them. Keeps kStoragesKept.
  void add(std::span<const StorageProfile> newer);
  /// Scale each order down to `timed_max` timed samples, so that newer samples soon weigh more.
  void keep_samples(std::uint64_t timed_max);
};
inline constexpr std::size_t kOrdersKept = 16;

/// The part of a profile that can belong to this pipeline: orders that have each op once, stages of its ops, numbers
/// that can be added up. For a profile that comes from a file or a socket.
PlanProfile checked(const transforms::Pipeline& pipeline, const PlanProfile& profile);

/// The planner's inputs from what was measured: mean sizes of records and pictures, and a cost for each op that ran.
///
/// A stage gives a mean, which is one point of a cost. Assumed costs therefore keep their shape and are scaled
/// (autotune/order/fit.h); a stage of several ops scales them together. The cost of an op that nobody measured is its
/// assumed cost, times the machine's mean ratio of measured to assumed costs. Impossible numbers are left out.
PipelineInfo facts_of(const transforms::Pipeline& pipeline, const PlanProfile& profile);

/// The planner's inputs and the measurements behind them, as a JSON object:
///   record_bytes, height, width, pictures   mean sizes, and of how many pictures they are (0: assumed)
///   machine        CPU time here as a share of what is assumed for ops that nobody measured
///   ops            by declared place: op (label), source ("measured": timed by itself; "shared": with others
///                  of its stage; "assumed"), samples (timed), age_s (null when assumed), fixed_ns,
///                  per_byte_in_ns, per_element_in_ns, per_byte_out_ns, per_element_out_ns
///   orders         that ran, the present one last: order (labels), us (CPU time of a sample), samples,
///   age_s,
///                  stages (name, ops (labels), us, bytes_in, bytes_out, samples; means per timed sample)
std::string facts_json(const transforms::Pipeline& pipeline, const PlanProfile& profile, std::int64_t now_s);

/// Add the sums of one stage to those of another.
void add_to(transforms::OpProfile& total, const transforms::OpProfile& more);

}  // namespace carya::loader
