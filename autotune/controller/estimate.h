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

/// What a stream did since it was last looked at. Only `seconds` must be known; every other number that is 0,
/// or cannot be, counts as not measured.
struct Measurements {
  double seconds = 0;         ///< of the interval
  double samples = 0;         ///< that the trainer took
  double stall_s = 0;         ///< that it waited
  double demand = 0;          ///< samples/s that it would take if it never waited
  double local_samples = 0;   ///< made on the host alone
  double local_thread_s = 0;  ///< thread time of those, waiting for a core included: pressure shows here
  double remote_samples = 0;  ///< that came from workers
  double remote_host_s = 0;  ///< thread time of the host for those: receiving, unpacking, the rest of the ops
  double worker_thread_s = 0;       ///< thread time of the workers for those, as one of speed 1 would need
  double link_in_bytes_per_s = 0;   ///< while bytes were under way
  double link_out_bytes_per_s = 0;  ///< while bytes were under way
  double source_bytes_per_s = 0;    ///< while a read was under way, of all readers together
  double work_left_s = 0;           ///< at the present rate; 0: unknown
  std::uint32_t workers_ready = 0;  ///< that are up and healthy
  std::vector<double> worker_speeds{};  ///< as PlacementFacts has them; none: they are what they were
};

/// How a stream is run.
struct Running {
  std::optional<std::size_t> cut;
  std::uint32_t workers = 0;
  double cores = 0;
};

/// The facts of a placement as the cost function has them, corrected by what is measured: a mean for each
/// quantity with its standard error. Threads: owner only.
class Estimate {
 public:
  /// `model`: checked facts.
  explicit Estimate(const PlacementFacts& model) : model_(model) {}

  /// What an earlier run measured counts as one measurement of each, of kEarlierError, until the present ones
  /// say otherwise; `earlier` is checked.
  void begin_with(const EarlierRun& earlier);
  static constexpr double kEarlierError = 0.1;
  /// What is known by now, of samples that go at `cut`.
  EarlierRun learned(std::size_t cut) const;

  /// Takes in an interval during which the stream ran as said. Returns what does not belong to its past any
  /// more ("the trainer's demand", ...), and then starts anew with what does; empty: nothing.
  std::string_view add(const Measurements& measured, const Running& running);
  /// The whole against the sum of its parts, of an interval in which nothing changed; only where the trainer
  /// waited, or should have by the model.
  void add_whole(const Measurements& measured, const Running& running, const PlacementGoal& goal);
  void set_cores(double cores) { model_.cores = cores; }
  /// Workers are measured anew, and what an earlier run said of their links counts no more.
  void forget_workers() {
    for (const Quantity quantity : {kHost, kWorker}) series_[quantity].clear();
    for (const Quantity quantity : {kHost, kWorker, kLinkIn, kLinkOut}) earlier_[quantity] = 0;
  }
  /// What was measured of the whole belongs to the way it ran.
  void forget_whole() { series_[kWhole].clear(); }

  /// The facts by the means.
  PlacementFacts facts() const;
  /// Without what only the earlier run says.
  PlacementFacts facts_of_this_run() const;
  /// One of kDraws equally likely facts, given what was measured. The same every time.
  PlacementFacts drawn(std::size_t draw) const;
  static constexpr std::size_t kDraws = 100;

  std::size_t local_count() const { return series_[kLocal].count(); }
  std::size_t worker_count() const { return series_[kWorker].count(); }
  /// Workers were measured, in this run or the one before.
  bool workers_measured() const { return worker_count() > 0 || earlier_[kWorker] > 0; }
  /// Where workers were measured last.
  std::size_t cut() const { return cut_; }
  /// Standard error of a worker's speed, as a share of it.
  double worker_error() const { return series_[kWorker].relative_error(); }
  /// Standard error of the cores needed, as a share of them.
  double cores_error() const;
  /// The whole against the sum of its parts, where the difference is more than noise with 95 % confidence; 1.
  double whole() const;

 private:
  enum Quantity : std::size_t { kDemand, kLocal, kHost, kWorker, kLinkIn, kLinkOut, kSource, kWhole, kCount };
  PlacementFacts facts(const std::array<double, kCount>& factors) const;
  /// The mean of a quantity, 0 where nothing is known, and its standard error as a share.
  struct Known {
    double mean = 0, error = 0;
  };
  Known known(Quantity quantity) const;
  bool contradicts_earlier(Quantity quantity) const;
  std::array<double, kCount> means() const;

  PlacementFacts model_;
  std::array<double, kCount> earlier_{};  // by an earlier run, as series_ has them; 0: nothing
  std::size_t cut_ = 0;
  // Demand, links and source in their units; local, host and worker as factors of the model's cost.
  std::array<Series, kCount> series_;
};

}  // namespace carya::autotune
