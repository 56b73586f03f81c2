#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autotune/order/op_model.h"
#include "base/mutex.h"
#include "loader/plan/order_choice.h"
#include "loader/plan/plan_profile.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

/// A compiled plan, and what its chunks cost in this stream so far.
struct PlanInUse {
  std::shared_ptr<const transforms::Plan> plan;
  OrderProfile profile;      ///< under the engine's lock
  double earlier_cpu_s = 0;  ///< of one sample, as earlier streams measured it; 0: none did
};

struct StreamPlannerOptions {
  std::uint64_t seed = 0;
  autotune::Sense reorder = autotune::Sense::kExact;
  bool fuse = true;                            ///< PlanOptions::fuse
  std::string cache_dir;                       ///< where profiles are kept; "": nowhere
  std::int64_t look_after_ns = 2'000'000'000;  ///< of stream; then after twice as long, and so on
  std::vector<std::size_t> frozen_order{};     ///< kept, whatever is cheaper; checked under `reorder`
  /// The order to begin with; it is left for a cheaper one as any is. Empty: the cheapest by what is known.
  std::vector<std::size_t> first_order{};
};

/// Chooses the order in which a stream's ops run: at its start by the profile that earlier streams of the
/// pipeline left on this machine, and while it runs by what it measures. Its trouble never stops a stream:
/// what cannot be planned, read or kept leaves the plan that runs, and says so in a line.
///
/// Threads: thread-safe. look() and close() may wait for the cache folder; ask() is called by who computes.
class StreamPlanner {
 public:
  StreamPlanner(std::shared_ptr<const transforms::Pipeline> pipeline, StreamPlannerOptions options);

  /// The plan to begin with. Errors: those of Plan::compile() for the declared order; of a frozen order,
  /// kInvalidArgument.
  Result<std::shared_ptr<PlanInUse>> first_plan();

  /// Whether look() should be called; true once until it was. `timed_samples`: of the plan that runs.
  bool ask(std::uint64_t timed_samples);
  bool asked() const { return asked_; }
  /// Plan again, and keep the profile now and then. `measured`: the orders that ran in this stream, the
  /// present one last, and its reads. Gives the plan to turn to; null: stay. May throw std::bad_alloc.
  std::shared_ptr<PlanInUse> look(const PlanProfile& measured);
  /// What the trainer takes when it never waits, in samples/s; no number that can be is no demand.
  void note_demand(double per_s);
  /// What this stream knows of its workers by now.
  void note_overflow(OverflowProfile known);
  /// What this stream knows of the storages of its files by now.
  void note_storages(std::vector<StorageProfile> known);
  /// Keep the profile for the next stream.
  void close(const PlanProfile& measured);

  /// What this stream and those before it measured, for `explain`.
  PlanProfile profile(const PlanProfile& measured) const;
  /// Mean of a read of an earlier stream, in seconds; 0: none is known. After first_plan().
  double earlier_read_latency_s() const { return earlier_.rates.read_latency_s; }
  /// What an earlier stream knew of its workers; none of another order of ops. After first_plan().
  std::optional<autotune::EarlierRun> earlier_overflow(std::span<const std::size_t> order) const;
  /// How many samples its trainer took while a chunk was away, of whatever order; 0: not known. After
  /// first_plan().
  double earlier_samples_away() const { return earlier_.overflow ? earlier_.overflow->samples_away : 0; }
  /// Why it turned to other plans, and what troubled it: the last kLinesKept lines.
  std::vector<std::string> lines() const;
  static constexpr std::size_t kLinesKept = 8;

 private:
  bool plans() const { return options_.reorder == autotune::Sense::kExact && options_.frozen_order.empty(); }
  Result<std::shared_ptr<PlanInUse>> compile(std::vector<std::size_t> order) const;
  std::shared_ptr<PlanInUse> turn(const PlanProfile& measured, std::int64_t now_ns) REQUIRES(planning_);
  void keep(const PlanProfile& measured) REQUIRES(planning_);
  void note(std::string line);

  const std::shared_ptr<const transforms::Pipeline> pipeline_;
  const StreamPlannerOptions options_;
  std::string path_;     // of the profile; "": it is not kept
  PlanProfile earlier_;  // what other streams measured; const after first_plan()

  Mutex planning_;  // held while first_plan(), look() or close() works
  TriedOrders tried_ GUARDED_BY(planning_);
  std::uint64_t kept_samples_ GUARDED_BY(planning_) =
      0;  // timed samples of this stream when it was kept last
  double kept_demand_ GUARDED_BY(planning_) = 0;
  std::optional<OverflowProfile> kept_overflow_ GUARDED_BY(planning_);
  std::vector<StorageProfile> kept_storages_ GUARDED_BY(planning_);
  bool pruned_ GUARDED_BY(planning_) = false;  // the folder has been looked through for old profiles

  // Decide when look() is called, in monotonic_ns(); 0: nothing was computed yet.
  std::atomic<bool> asked_{false};
  std::atomic<std::int64_t> look_ns_{0}, keep_ns_{0};
  std::atomic<std::int64_t> gap_ns_;

  std::atomic<double> demand_per_s_{0};  // 0: not known

  mutable Mutex saying_;
  std::optional<OverflowProfile> overflow_ GUARDED_BY(saying_);  // of this stream
  std::vector<StorageProfile> storages_ GUARDED_BY(saying_);     // too
  std::deque<std::string> lines_ GUARDED_BY(saying_);
};

}  // namespace carya::loader
