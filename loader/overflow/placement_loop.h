#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "autotune/controller/controller.h"
#include "autotune/sharing/sharing.h"
#include "base/error.h"
#include "loader/overflow/remote_executor.h"
#include "loader/overflow/remote_options.h"
#include "loader/plan/stream_planner.h"
#include "remote/fleet/fleet.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

class Engine;

/// The stream that overflows.
struct OverflowStream {
  std::shared_ptr<const transforms::Pipeline> pipeline;
  std::uint64_t seed = 0;
  std::shared_ptr<StreamPlanner> planner;
  std::uint32_t threads = 1;  ///< of this machine, that compute it
};

/// Dollars so far, and what the same samples would have cost.
struct Bill {
  double host = 0;
  double workers = 0;
  double all_local = 0;
  double all_remote = 0;
};

/// One stream's overflow: its workers, what was measured of them, the decision and what follows from it.
/// A thread of its own looks about once a second; the decisions are autotune's.
/// Threads: create(), start() and end() by the owner; all else thread-safe.
class Overflow {
 public:
  /// Connects to nobody yet. Errors: those of PoolCrew::create(); kInvalidArgument (prices, goal).
  static Result<std::unique_ptr<Overflow>> create(const RemoteOptions& options, OverflowStream stream);
  ~Overflow();

  const std::shared_ptr<PoolCrew>& crew() const { return crew_; }
  /// The stream runs on `engine`, on `cores` of this machine at most. Errors: kExhausted (threads).
  Status start(Engine& engine, Production& production, std::uint32_t cores);
  /// The machine has got more or fewer for the stream.
  void set_cores(std::uint32_t cores);
  /// What the stream does with cores and workers; none before anything is known.
  std::optional<autotune::Claim> claim() const;
  /// How many workers it knows, if they are those that `host` names, for all its streams; else 0.
  std::uint32_t workers_of(const RemoteOptions& host) const;
  /// Beside other streams no more than so many; UINT32_MAX: all.
  void set_workers_share(std::uint32_t workers);
  /// Decides nothing any more. Before the production leaves its engine.
  void end();

  /// The decision in words and numbers, as a JSON object (docs/remote.md).
  std::string report() const;

 private:
  /// What had happened when it was last looked.
  struct Seen {
    std::int64_t at_ns = 0;
    std::int64_t taken_at_ns = 0;  // when the trainer gave its last batch back, with what is taken and waited
    double taken_samples = 0, waited_s = 0;
    std::uint64_t local_samples = 0, rest_samples = 0;
    std::int64_t local_ns = 0, rest_ns = 0, cpu_ns = 0, reading_ns = 0;
    std::uint64_t bytes_read = 0;
    double samples_left = 0;
    std::vector<std::size_t> order;
    PlanProfile profile;
    CrewTotals crew;
  };

  Overflow(const RemoteOptions& options, OverflowStream stream)
      : options_(options), stream_(std::move(stream)) {}
  Status open_fleet();
  void follow_fleet(std::optional<std::uint32_t> wanted);
  static std::optional<std::string> why_none(const std::vector<remote::WorkerFigures>& workers);
  void note_none(const std::string& why);
  std::uint32_t workers_there() const;
  autotune::PlacementGoal goal() const;
  void loop();
  void look();
  Seen see() const;
  Status renew_model(const Seen& seen);
  autotune::Measurements measure(const Seen& before, const Seen& now) const;
  void learn();
  void follow();
  void set_cut(std::size_t ops);
  std::optional<std::size_t> fixed_cut() const;
  void pay(double seconds, double samples);
  void note_trouble(const Error& error);
  void note_event(const std::string& line);

  RemoteOptions options_;
  const OverflowStream stream_;
  std::shared_ptr<PoolCrew> crew_;
  std::unique_ptr<remote::Fleet> fleet_;                // null: the workers are those of the options
  std::map<std::string, std::uint64_t> fleet_members_;  // that the crew knows, by address
  std::thread fleet_thread_;
  Engine* engine_ = nullptr;
  Production* production_ = nullptr;
  std::uint64_t plans_ = 0;  // numbers given so far

  std::condition_variable changed_;
  std::thread thread_;

  mutable std::mutex mutex_;  // guards what follows; never held while the engine's lock is asked for
  bool ending_ = false;
  std::uint32_t cores_ = 1;  // that the stream may use
  std::uint32_t workers_share_ = UINT32_MAX;
  std::uint32_t cores_used_ = 0;    // that it was told to use; 0: nothing yet
  double worker_cores_ = 0;         // of the model
  std::vector<std::size_t> order_;  // of the model
  std::optional<autotune::Controller> controller_;
  std::optional<autotune::EarlierRun> earlier_;  // that it began with
  autotune::PlacementGoal goal_;                 // that it was told
  autotune::Running running_;                    // as it was last told
  std::uint64_t cut_ops_ = 0;                    // that workers run; 0: no plan was sent
  Seen seen_;
  autotune::Measurements last_;
  Bill bill_;
  double now_s_ = 0;  // since start()
  std::string trouble_;

  mutable std::mutex saying_;  // guards what follows; nothing is asked for under it
  std::deque<std::string> events_;
  std::string none_;  // why no worker is there; "": some are, or nobody knows
};

}  // namespace carya::loader
