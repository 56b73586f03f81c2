#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "autotune/controller/earlier_run.h"
#include "autotune/controller/series.h"
#include "autotune/placement/placement.h"

namespace carya::autotune {

/// What a stream did in an interval. Only `seconds` must be known. Every other number that is 0, or impossible, counts
/// as not measured.
struct Measurements {
  double seconds = 0;          ///< length of the interval
  double samples = 0;          ///< samples that the trainer took
  double stall_s = 0;          ///< seconds that the trainer waited
  double demand = 0;           ///< samples/s that the trainer would take if it never waited
  double local_samples = 0;    ///< samples that the host alone made
  double local_thread_s = 0;   ///< thread time for those, with waits for a core, so that it shows pressure
  double remote_samples = 0;   ///< samples that came from workers
  double remote_host_s = 0;    ///< the host's thread time for those: receive, unpack, run the rest of the ops
  double worker_thread_s = 0;  ///< the workers' thread time for those, scaled to a worker of speed 1
  double link_in_bytes_per_s = 0;       ///< rate while bytes were under way
  double link_out_bytes_per_s = 0;      ///< rate while bytes were under way
  double source_bytes_per_s = 0;        ///< rate of all readers together while a read was under way
  double work_left_s = 0;               ///< time of the work that is left, at the present rate; 0: unknown
  std::uint32_t workers_ready = 0;      ///< workers that are up and healthy
  std::vector<double> worker_speeds{};  ///< as in PlacementInputs; empty: the speeds are unchanged
};

/// How a stream is run.
struct Running {
  std::optional<std::size_t> cut;
  std::uint32_t workers = 0;
  double cores = 0;
};

/// The inputs of a placement, as the cost function gives them, corrected by measurements. Each quantity has a mean and
/// a standard error. Threads: owner only.
class Estimate {
 public:
  /// `model` is checked already.
  explicit Estimate(const PlacementInputs& model) : model_(model) {}

  /// Count the numbers of an earlier run as one measurement each, with an error of kEarlierError, until present
  /// measurements say otherwise. `earlier` is checked already.
  void begin_with(const EarlierRun& earlier);
  static constexpr double kEarlierError = 0.1;
  /// What is known by now of samples that go to workers at `cut`.
  EarlierRun learned(std::size_t cut) const;

  /// Add an interval in which the stream ran as `running` says. Returns the quantity that no longer fits its past ("the
  /// trainer's demand", ...), whose estimate begins anew; empty: all fit.
  std::string_view add(const Measurements& measured, const Running& running);
  static constexpr std::string_view kSpeedOfAWorker = "the speed of a worker";
  /// Compare the whole stream with the sum of its parts, over an interval in which nothing changed. It counts only if
  /// the trainer waited, or should have waited by the model.
  void add_whole(const Measurements& measured, const Running& running, const PlacementGoal& goal);
  void set_cores(double cores) { model_.cores = cores; }
  /// Measure workers anew. What an earlier run said of their links counts no more.
  void forget_workers() {
    for (const Quantity quantity : {kHost, kWorker}) series_[quantity].clear();
    for (const Quantity quantity : {kHost, kWorker, kLinkIn, kLinkOut}) earlier_[quantity] = 0;
  }
  /// Forget the measurements of the whole, since the stream runs in another way.
  void forget_whole() { series_[kWhole].clear(); }

  /// The inputs by the means.
  PlacementInputs facts() const;
  /// The inputs without the numbers that only the earlier run gives.
  PlacementInputs facts_of_this_run() const;
  /// One of kDraws equally likely inputs, given the measurements. A draw is the same every time.
  PlacementInputs drawn(std::size_t draw) const;
  static constexpr std::size_t kDraws = 100;

  std::size_t local_count() const { return series_[kLocal].count(); }
  std::size_t worker_count() const { return series_[kWorker].count(); }
  /// Whether workers were measured, in this run or the one before.
  bool workers_measured() const { return worker_count() > 0 || earlier_[kWorker] > 0; }
  /// The cut at which workers were measured last.
  std::size_t cut() const { return cut_; }
  /// The standard error of a worker's speed, as a share of the speed.
  double worker_error() const { return series_[kWorker].relative_error(); }
  /// The standard error of the cores needed, as a share of their number.
  double cores_error() const;
  /// The whole against the sum of its parts, where the difference is more than noise with 95 % confidence; 1.
  double whole() const;

 private:
  enum Quantity : std::size_t { kDemand, kLocal, kHost, kWorker, kLinkIn, kLinkOut, kSource, kWhole, kCount };
  PlacementInputs facts(const std::array<double, kCount>& factors) const;
  /// The mean of a quantity, 0 where nothing is known, and its standard error as a share.
  struct Known {
    double mean = 0, error = 0;
  };
  Known known(Quantity quantity) const;
  bool contradicts_earlier(Quantity quantity) const;
  std::array<double, kCount> means() const;

  PlacementInputs model_;
  std::array<double, kCount> earlier_{};  // by an earlier run, as series_ has them; 0: nothing
  std::size_t cut_ = 0;
  // Demand, links and source in their units; local, host and worker as factors of the model's cost.
  std::array<Series, kCount> series_;
};

}  // namespace carya::autotune
