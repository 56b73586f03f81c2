#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autotune/cache/cache_choice.h"
#include "base/mutex.h"
#include "base/philox.h"
#include "loader/cache/kept_files.h"
#include "loader/cache/sample_cache.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

/// The time that samples of one kind took, of those that were timed.
class TimedSamples {
 public:
  /// Whether to time the next sample: one in 16, since a look at the clock of a thread is a system call.
  bool due() { return (count_.fetch_add(1, std::memory_order_relaxed) & 15) == 0; }
  void add(std::int64_t ns) {
    timed_.fetch_add(1, std::memory_order_relaxed);
    ns_.fetch_add(ns, std::memory_order_relaxed);
  }
  std::uint64_t count() const { return count_; }
  std::uint64_t timed() const { return timed_; }
  /// Mean CPU seconds; 0 if none was timed.
  double mean_s() const {
    return timed_ == 0 ? 0 : static_cast<double>(ns_) * 1e-9 / static_cast<double>(timed_);
  }

 private:
  std::atomic<std::uint64_t> count_{0}, timed_{0};
  std::atomic<std::int64_t> ns_{0};
};

/// Where the files of such a tier are.
inline autotune::CacheStorage storage_of(TierKind kind) {
  return kind == TierKind::kDisk ? autotune::CacheStorage::kDisk : autotune::CacheStorage::kShared;
}

/// What came of the samples that are kept at a place.
struct KeptFigures {
  std::atomic<std::uint64_t> looked{0};     ///< rows of the stream that were looked up
  TimedSamples fills{}, hits{};             ///< its whole samples that were put in, that were found in memory
  std::array<TimedSamples, 2> file_hits{};  ///< that were found in each tier of files
};

/// A place where samples are kept: the parts of the plan before and behind it, and the samples. Constant but for the
/// samples and figures. Threads: thread-safe.
struct KeptPlace {
  std::vector<std::size_t> order;   ///< the order of the ops that was cut
  autotune::CachePoint at{};        ///< behind so many of them; in which form
  std::vector<std::size_t> packed;  ///< the fields that packed coefficients stand for
  std::string name;                 ///< of the ops before it, for streams that share samples (place_names.h)
  /// Which epochs have the same samples, as the pipeline of `before` says it, and those that these are of; null: all have.
  const EpochGroups* groups = nullptr;
  std::uint64_t first_epoch = 0, end_epoch = EpochGroups::kNoEnd;
  std::shared_ptr<const transforms::Plan> before, behind;
  std::shared_ptr<SampleCache> samples;
  std::shared_ptr<const KeptFiles> files = std::make_shared<KeptFiles>();  ///< in files too; may be none
  std::shared_ptr<const FetchBell> bell{};  ///< rings when samples have come from files
  /// Whether more is put there: it pays before the run ends.
  std::atomic<bool> fills_more{true};
  std::shared_ptr<KeptFigures> figures = std::make_shared<KeptFigures>();  ///< of this place in all periods

  /// Take the epochs that share their samples with this one.
  void begin(const EpochGroups* shared, std::uint64_t epoch) {
    groups = shared;
    first_epoch = groups ? groups->first(epoch) : 0;
    end_epoch = groups ? groups->end(epoch) : EpochGroups::kNoEnd;
  }
  /// So many epochs have the same samples; 0: all.
  std::uint64_t period() const { return groups ? end_epoch - first_epoch : 0; }
  /// Whether its samples are those of an epoch.
  bool holds(std::uint64_t epoch) const { return epoch >= first_epoch && epoch < end_epoch; }
  /// Whether a later epoch has the same samples, if there is a next one.
  bool outlives(std::uint64_t epoch) const { return epoch + 1 < end_epoch; }
  /// What a row's sample is kept as: its record before the views, `source`. What is random is of a record behind them,
  /// and differs for a record that comes again in the same epoch, or for another: such a sample is not kept.
  std::optional<std::uint64_t> name_of(std::uint64_t record, std::uint64_t source,
                                       std::uint64_t occurrence) const {
    if (!groups) return source;
    return occurrence == 0 ? std::optional(record) : std::nullopt;
  }
  /// Whether it has files there, with `samples` in front of them.
  bool uses(autotune::CacheStorage storage) const;
  /// What was kept of a sample, in the mean; 0: nothing was yet.
  double mean_bytes() const;
  /// CPU seconds to go on from a kept sample, in the mean of those that were timed; 0: too few were.
  double hit_s() const;
  /// Whether what is kept are records as they were read: the whole plan goes on from there.
  bool keeps_records() const { return at.form == autotune::CacheForm::kRecords; }
  /// Whether what is kept as `sample` is not to be taken, since it was damaged once.
  bool distrusts(std::uint64_t sample) const;
  /// A sample that was kept is not whole: its record is computed from its source from now on, or is met again where
  /// memory is short.
  void distrust(std::uint64_t sample);
  std::atomic<std::uint64_t> damaged{0};  ///< records whose samples were not whole
  mutable Mutex distrusting;
  std::set<std::uint64_t> distrusted GUARDED_BY(distrusting);
};

/// Take the plan of `whole`, which has the place's order, apart there. Returns false if it cannot be.
bool part_plan(KeptPlace& place, const std::shared_ptr<const transforms::Pipeline>& pipeline,
               const transforms::PlanOptions& whole);

/// The same place, with the samples of the period in which an epoch lies.
std::shared_ptr<KeptPlace> of_period(const KeptPlace& place, std::uint64_t epoch,
                                     std::shared_ptr<SampleCache> samples);

}  // namespace carya::loader
