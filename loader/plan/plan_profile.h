#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autotune/controller/earlier_run.h"
#include "loader/plan/planner_input.h"
#include "loader/plan/trainer_stats.h"
#include "transforms/pipeline/pipeline.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

/// What one order of a pipeline's ops was measured to cost, stage by stage.
struct OrderProfile {
  std::vector<std::size_t> order;               ///< of all ops, by index
  std::vector<transforms::OpProfile> stages{};  ///< sums
  std::int64_t measured_at_s = 0;               ///< Unix time of the last sample

  std::uint64_t timed_samples() const { return stages.empty() ? 0 : stages.front().timed_samples; }
  /// CPU nanoseconds of one sample; 0 when nothing was measured.
  double cpu_ns() const;
};

/// What the last stream that had workers knew of them in the end.
struct OverflowProfile {
  std::vector<std::size_t> order;  ///< of the ops, then
  autotune::EarlierRun run;
  double samples_away = 0;  ///< that its trainer took while a chunk was away, 99 of 100; 0: not known

  bool operator==(const OverflowProfile&) const = default;
};

/// What was measured of a pipeline, over all orders in which its ops ran, and of its last stream. A plain
/// value.
struct PlanProfile {
  std::vector<OrderProfile> orders;  ///< each once; the one measured last at the end
  StreamRates rates{};
  std::optional<OverflowProfile> overflow{};

  const OrderProfile* find(std::span<const std::size_t> order) const;
  /// Add what an order's stages cost since they were added last. Keeps kOrdersKept orders.
  void add(std::span<const std::size_t> order, std::span<const transforms::OpProfile> stages,
           std::int64_t now_s);
  /// Count at most so many timed samples of each order from now on, so that newer ones soon weigh more.
  void keep_samples(std::uint64_t timed_max);
};
inline constexpr std::size_t kOrdersKept = 16;

/// What of a profile can be one of this pipeline: orders that have each op once, stages of its ops, numbers
/// that can be added up. For what comes from a file or a socket.
PlanProfile checked(const transforms::Pipeline& pipeline, const PlanProfile& profile);

/// What the planner goes by, from what was measured: mean sizes of records and pictures, and a cost for each
/// op that ran. A stage gives a mean, one point of a cost, so assumed costs keep their shape and are scaled
/// (autotune/order/fit.h); a stage of several ops scales them together. What nobody measured is assumed,
/// times what the machine takes of assumed costs in the mean. Numbers that cannot be are left out.
PipelineFacts facts_of(const transforms::Pipeline& pipeline, const PlanProfile& profile);

/// The facts and what is behind them, as a JSON object:
///   record_bytes, height, width, pictures   mean sizes, and of how many pictures they are (0: assumed)
///   machine        CPU time here as a share of what is assumed for ops that nobody measured
///   ops            by declared place: op (label), source ("measured": timed by itself; "shared": with others
///                  of its stage; "assumed"), samples (timed), age_s (null when assumed), fixed_ns,
///                  per_byte_in_ns, per_element_in_ns, per_byte_out_ns, per_element_out_ns
///   orders         that ran, the present one last: order (labels), us (CPU time of a sample), samples,
///   age_s,
///                  stages (name, ops (labels), us, bytes_in, bytes_out, samples; means per timed sample)
std::string facts_json(const transforms::Pipeline& pipeline, const PlanProfile& profile, std::int64_t now_s);

/// Add a stage's sums to another's.
void add_to(transforms::OpProfile& total, const transforms::OpProfile& more);

/// Unix time.
std::int64_t unix_s();

}  // namespace carya::loader
