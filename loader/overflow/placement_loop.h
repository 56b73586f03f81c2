#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "autotune/controller/controller.h"
#include "autotune/sharing/sharing.h"
#include "base/error.h"
#include "base/mutex.h"
#include "loader/overflow/placement_report.h"
#include "loader/overflow/remote_executor.h"
#include "loader/overflow/remote_options.h"
#include "loader/overflow/stream_control.h"
#include "loader/plan/stream_planner.h"
#include "remote/fleet/fleet.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// The stream whose chunks may go to workers.
struct OverflowStream {
  std::shared_ptr<const transforms::Pipeline> pipeline;
  std::uint64_t seed = 0;
  std::shared_ptr<StreamPlanner> planner;
  std::uint32_t threads = 1;  ///< threads of this machine that compute the stream
  /// The workers are those of [remote] in caryad.toml: errors say so, and a name that nobody knows now is looked up later.
  bool workers_of_host = false;
};

/// The placement of one stream: its workers, what was measured of them, the decision and what follows from it.
/// A thread of its own looks about once a second; autotune makes the decisions.
/// Threads: create(), start() and end() by the owner; all else thread-safe.
class PlacementLoop {
 public:
  /// Make a loop that connects to nobody before start(). Errors: those of RemoteExecutor::create(); kInvalidArgument
  /// (prices, goal).
  static Result<std::unique_ptr<PlacementLoop>> create(const RemoteOptions& options, OverflowStream stream);
  ~PlacementLoop();

  const std::shared_ptr<RemoteExecutor>& executor() const { return executor_; }
  /// Begin to decide: the stream runs, on at most `cores` of this machine. `control` outlives end(). Errors: kExhausted
  /// (threads).
  Status start(StreamControl& control, std::uint32_t cores);
  /// The stream may use at most `cores` of this machine from now on.
  void set_cores(std::uint32_t cores);
  /// What the stream does with cores and workers; empty before anything is known.
  std::optional<autotune::Claim> claim() const;
  /// The number of workers that the loop knows, if they are those that `host` names for all its streams; else 0.
  std::uint32_t workers_of(const RemoteOptions& host) const;
  /// Use at most `workers`, since other streams have the rest; UINT32_MAX: all.
  void set_workers_share(std::uint32_t workers);
  /// Never use more than `workers`, whatever the share; UINT32_MAX: no limit.
  void set_workers_allowed(std::uint32_t workers);
  /// What the stream weighs at workers that other users share, above 0; at first 1.
  void set_weight(double weight) { executor_->set_weight(weight); }
  /// Decide nothing any more. The caller calls it before the stream leaves its engine.
  void end();

  /// The decision, and the numbers that it was made from.
  PlacementReport report() const;

 private:
  /// What had happened at one look.
  struct Seen {
    std::int64_t at_ns = 0;
    StreamSnapshot stream;
    RemoteTotals remote;
  };

  PlacementLoop(const RemoteOptions& options, OverflowStream stream)
      : options_(options), stream_(std::move(stream)) {}
  Status open_fleet();
  void follow_fleet(std::optional<std::uint32_t> wanted);
  static std::optional<std::string> why_none(const std::vector<remote::WorkerStats>& workers);
  void note_none(const std::string& why);
  std::uint32_t workers_there() const;
  autotune::PlacementGoal goal() const REQUIRES(mutex_);
  void loop();
  void look();
  Seen see() const;
  Status renew_model(const Seen& seen) REQUIRES(mutex_);
  autotune::Measurements measure(const Seen& before, const Seen& now) const REQUIRES(mutex_);
  void learn() REQUIRES(mutex_);
  void follow();
  void set_cut(std::size_t ops);
  std::optional<std::size_t> fixed_cut() const REQUIRES(mutex_);
  void pay(double seconds, double samples) REQUIRES(mutex_);
  void note_trouble(const Error& error) REQUIRES(mutex_);
  void note_event(const std::string& line);

  RemoteOptions options_;
  const OverflowStream stream_;
  std::shared_ptr<RemoteExecutor> executor_;
  std::unique_ptr<remote::Fleet> fleet_;  // null: the workers are those of the options
  struct FleetMember {
    std::uint64_t member = 0;     // the executor's number
    std::int64_t gone_at_ns = 0;  // when the fleet gave it up; 0: it did not
  };
  std::map<std::string, FleetMember> fleet_members_;  // workers that the executor knows, by address
  std::thread fleet_thread_;
  StreamControl* control_ = nullptr;
  std::uint64_t plans_ = 0;  // plans sent so far; the next number

  Condition changed_;
  std::thread thread_;

  mutable Mutex mutex_;  // guards what follows; never held while the engine's lock is asked for
  bool ending_ GUARDED_BY(mutex_) = false;
  std::uint32_t cores_ GUARDED_BY(mutex_) = 1;  // cores that the stream may use
  std::uint32_t workers_share_ GUARDED_BY(mutex_) = UINT32_MAX;
  std::uint32_t workers_allowed_ GUARDED_BY(mutex_) = UINT32_MAX;
  std::uint32_t cores_used_ GUARDED_BY(mutex_) = 0;    // that it was told to use; 0: nothing yet
  double worker_cores_ GUARDED_BY(mutex_) = 0;         // of the model
  std::vector<std::size_t> order_ GUARDED_BY(mutex_);  // of the model
  std::optional<autotune::Controller> controller_ GUARDED_BY(mutex_);
  std::optional<autotune::EarlierRun> earlier_ GUARDED_BY(mutex_);  // that it began with
  autotune::PlacementGoal goal_ GUARDED_BY(mutex_);                 // that it was told
  autotune::Running running_ GUARDED_BY(mutex_);                    // as it was last told
  std::uint64_t cut_ops_ GUARDED_BY(mutex_) = 0;                    // that workers run; 0: no plan was sent
  Seen seen_ GUARDED_BY(mutex_);
  autotune::Measurements last_ GUARDED_BY(mutex_);
  Bill bill_ GUARDED_BY(mutex_);
  double now_s_ GUARDED_BY(mutex_) = 0;  // since start()
  std::string trouble_ GUARDED_BY(mutex_);

  mutable Mutex saying_;  // guards what follows; nothing is asked for under it
  std::deque<std::string> events_ GUARDED_BY(saying_);
  std::string none_ GUARDED_BY(saying_);  // why no worker is there; "": some are, or nobody knows
};

}  // namespace carya::loader
