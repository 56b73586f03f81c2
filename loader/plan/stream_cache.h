#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "autotune/cache/cache_choice.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "loader/cache/cache_options.h"
#include "loader/cache/folder_census.h"
#include "loader/cache/kept_files.h"
#include "loader/cache/sample_cache.h"
#include "loader/cache/shared_samples.h"
#include "loader/data/record_identities.h"
#include "loader/data/store_sources.h"
#include "loader/plan/cache_places.h"
#include "loader/plan/cache_storages.h"
#include "loader/plan/kept_place.h"
#include "loader/plan/place_names.h"
#include "loader/plan/plan_profile.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

struct StreamCacheOptions {
  CacheOptions cache;
  std::shared_ptr<const void> dataset;  ///< its records, for streams that share what they keep
  std::uint64_t capacity_bytes = 0;     ///< the most that is kept in memory
  std::shared_ptr<const RecordIdentities> identities{};  ///< of its records, for files; null: there are none
  std::shared_ptr<SharedBudget> budget{};                ///< pays for it; null: nothing does
  std::shared_ptr<WriteBudget> write_budget{};           ///< allows what is written to files; null: all is
  std::vector<std::string> bounded{};  ///< what was asked for and is not given, a line each, for people
  std::uint64_t seed = 0;
  bool fuse = true;           ///< PlanOptions::fuse
  std::uint64_t records = 1;  ///< of an epoch, over all ranks
  std::uint64_t ranks = 1;    ///< among which each epoch deals the records out anew; 1: they are not
  std::optional<std::uint64_t> epochs;  ///< none: without end
  std::uint64_t epoch = 0;              ///< in which the stream begins
  double record_bytes = 110'000;        ///< mean of a record as it is read
  std::vector<StoreFigures>
      stores{};              ///< from which records are read, with prices; empty: none is behind a URL
  double threads = 1;        ///< that compute
  double core_price = 1e-5;  ///< $ of a CPU second, to compare with what stores charge
};

/// What one stream keeps of its samples for later epochs, and where: decided from what was measured, while it runs. Its
/// trouble never stops a stream, and it changes no bit: what is kept are the results of ops that give the same in every
/// epoch.
///
/// Threads: thread-safe. look() is called by one thread at a time.
class StreamCache {
 public:
  /// Ops run in `order`; `profile` is what is known of them so far. Errors: kInvalidArgument (samples cannot be kept
  /// behind the op that the options name; the message says why and where they can).
  static Result<std::shared_ptr<StreamCache>> create(std::shared_ptr<const transforms::Pipeline> pipeline,
                                                     const StreamCacheOptions& options,
                                                     std::vector<std::size_t> order,
                                                     const PlanProfile& profile);

  /// Where samples are kept now; null: nowhere.
  std::shared_ptr<KeptPlace> place() const;
  /// The same for rows of an epoch: null too if what is kept there now is of other epochs.
  std::shared_ptr<KeptPlace> place_of(std::uint64_t epoch) const;
  /// Rows of this epoch are listed next: the place keeps those that belong to it. Called by one thread at a time.
  void enter(std::uint64_t epoch);
  /// What rings when samples have come from files: watch it, and pump the stream. Null: there are no files.
  const std::shared_ptr<const FetchBell>& bell() const { return bell_; }
  /// Whether samples of this epoch are worth keeping in memory: there is a later one.
  bool fills(std::uint64_t epoch) const { return !options_.epochs || epoch + 1 < *options_.epochs; }

  /// Whether look() should be called; true once until it was. That is soon at first and after a change, whose real costs
  /// show with the next samples, and then once a second.
  bool ask();
  /// Whether the look that was asked for is one of those that come soon.
  bool is_urgent() const { return asked_ && gap_ns_ < kLookEveryNs; }
  /// Whether ask() was true since the last look(), or samples are kept, whose memory others may need.
  bool is_due() const {
    if (asked_) return true;
    const MutexLock lock(placing_);
    return place_ != nullptr;
  }
  /// What a look is told of its stream.
  struct Seen {
    std::uint64_t epoch = 0;             ///< which is computed
    bool has_jpegs = false;              ///< whether JPEGs were decoded
    std::vector<StoreFigures> stores{};  ///< what was asked of them
  };
  /// Give back memory that others need, and decide anew. `known`: what this stream and earlier ones measured; `order`:
  /// in which the ops run now.
  void look(const PlanProfile& known, const std::vector<std::size_t>& order, const Seen& seen);

  /// The stream has ended: let go of what it kept, whose memory and files others may want, and decide nothing more.
  /// report() says from now on what was so before.
  void close();

  /// What is known of the storages of its files, for the next stream.
  std::vector<StorageProfile> storages() const;

  /// The place, what the others would cost, and what came of it, as a JSON object (docs/cache.md).
  std::string report() const;

 private:
  /// How often it looks: soon at first and after a change, then less and less often.
  static constexpr std::int64_t kLookSoonNs = 100'000'000, kLookEveryNs = 1'000'000'000;

  StreamCache(std::shared_ptr<const transforms::Pipeline> pipeline, const StreamCacheOptions& options);
  Status check_place() const REQUIRES(deciding_);
  std::string report_now() const REQUIRES(deciding_);
  /// Where samples are kept: behind which ops, in which form, and in which files beside memory.
  struct Held {
    autotune::CachePoint at{};
    bool disk = false, shared = false;
    bool operator==(const Held&) const = default;
  };
  static Held held_by(const autotune::CachePlace& place);
  std::optional<Held> held_now() const;
  std::vector<autotune::CachePoint> places_now() const REQUIRES(deciding_);
  Result<std::size_t> named_place(const std::vector<std::size_t>& places) const REQUIRES(deciding_);
  void decide(const PlanProfile& known, std::uint64_t epoch) REQUIRES(deciding_);
  void correct(autotune::CacheInputs& facts, const PlanProfile& known) REQUIRES(deciding_);
  void find_kept(autotune::CacheInputs& facts) const REQUIRES(deciding_);
  void count_files(const autotune::CacheInputs& facts) REQUIRES(deciding_);
  void add_tiers(autotune::CacheInputs& facts) const REQUIRES(deciding_);
  bool pays_more(const autotune::CacheInputs& facts, const autotune::CachePlace& place) const;
  void pay_filled(autotune::CacheInputs& facts) REQUIRES(deciding_);
  void measure_storages(const autotune::CacheInputs& facts) REQUIRES(deciding_);
  void turn_to(const std::optional<Held>& held) REQUIRES(deciding_);
  void look_after(std::int64_t gap_ns) {
    gap_ns_ = gap_ns;
    look_ns_ = monotonic_ns() + gap_ns;
  }
  void drop_retired();
  SharedSamplesKey key_of(const std::string& ops_name, std::span<const std::size_t> order,
                          const autotune::CachePoint& at, std::uint64_t epoch) const;
  std::string label_of(std::size_t ops) const REQUIRES(deciding_);
  const PlaceNames& names_of(const autotune::CachePoint& at) const REQUIRES(deciding_);
  std::size_t choice_of(const autotune::CacheInputs& facts, const std::optional<Held>& held) const;
  bool may_be_in_files(const autotune::CachePoint& at) const REQUIRES(deciding_);
  std::uint64_t room() const;
  std::shared_ptr<const KeptFiles> open_files(const Held& held, const PlaceNames& names) const
      REQUIRES(deciding_);

  const std::shared_ptr<const transforms::Pipeline> pipeline_;
  const StreamCacheOptions options_;
  std::shared_ptr<const FetchBell> bell_;  // set by create()

  mutable Mutex deciding_;  // held while look() or report() works
  std::vector<std::size_t> order_ GUARDED_BY(deciding_);
  mutable std::map<autotune::CachePoint, PlaceNames> names_ GUARDED_BY(deciding_);  // in that order
  autotune::CacheInputs facts_ GUARDED_BY(deciding_);                               // of the last decision
  autotune::CacheChoice choice_ GUARDED_BY(deciding_);                              // the last one
  std::string why_ GUARDED_BY(deciding_);                                           // in a line
  int changes_ GUARDED_BY(deciding_) = 0;                          // since the storages are what they are
  std::optional<std::optional<Held>> left_ GUARDED_BY(deciding_);  // by the last change
  std::int64_t left_ns_ GUARDED_BY(deciding_) = 0;
  std::optional<CacheStorages> storages_ GUARDED_BY(deciding_);  // set by create()
  bool has_jpegs_ GUARDED_BY(deciding_) = false;                 // JPEGs were decoded by this stream
  std::map<autotune::CachePoint, autotune::CachePlace> measured_ GUARDED_BY(deciding_);  // places that ran
  double found_share_ GUARDED_BY(deciding_) = 0;  // was at the place already when it was turned to
  std::map<std::string, std::shared_ptr<const FolderCensus>> censuses_ GUARDED_BY(deciding_);  // by folder
  std::int64_t count_ns_ GUARDED_BY(deciding_) = 0;  // when files are counted next
  ReadCost read_ GUARDED_BY(deciding_);              // of a record

  bool ended_ GUARDED_BY(deciding_) = false;
  std::string last_report_ GUARDED_BY(deciding_);  // made as the stream ended

  mutable Mutex placing_;  // held for moments
  std::shared_ptr<KeptPlace> place_ GUARDED_BY(placing_);
  std::vector<std::shared_ptr<KeptPlace>> retired_
      GUARDED_BY(placing_);                  // their samples are of earlier epochs
  bool waits_ GUARDED_BY(placing_) = false;  // the place has no samples yet, for want of memory
  std::weak_ptr<const SampleCache> leaving_ GUARDED_BY(placing_);  // which has it still
  SharedSamplesKey period_key_ GUARDED_BY(placing_);               // of the period that began last

  std::atomic<std::uint64_t> epoch_{0};  // of which rows were listed last
  std::atomic<bool> asked_{false};
  std::atomic<std::int64_t> look_ns_{0};
  /// Before the next look; the first one is too early to decide.
  std::atomic<std::int64_t> gap_ns_{kLookSoonNs / 2};
};

}  // namespace carya::loader
