#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/philox.h"

namespace carya::autotune {

/// What is kept of a sample.
enum class CacheForm : std::uint8_t {
  kResults,       ///< what the first ops made of it
  kCoefficients,  ///< the record, with packed coefficients in the place of its JPEGs
  kRecords,       ///< the record as it was read
};

/// Where a sample is kept: behind so many of the ops, in the order that runs. Records are kept before all ops.
struct CachePoint {
  std::size_t ops = 0;
  CacheForm form = CacheForm::kResults;
  auto operator<=>(const CachePoint&) const = default;
};

/// What samples are kept in.
enum class CacheStorage : std::uint8_t { kMemory, kDisk, kShared };
inline constexpr std::size_t kCacheStorages = 3;

/// Memory, or files behind a disk or a network, in which samples of a place are kept. Of one sample.
struct CacheTier {
  double capacity_bytes = 0;               ///< for all samples together
  double read_cpu_s = 0, write_cpu_s = 0;  ///< CPU seconds of its own threads
  /// CPU seconds that the threads which compute have while one sample is fetched at the best rate that there is, and
  /// while one is put there. 0: in memory.
  double fetch_s = 0, put_s = 0;
  /// The rate's standard error as a share of it. Tiers of one `storage` are right or wrong by the same factor.
  double error = 0;
  CacheStorage storage = CacheStorage::kMemory;
};

/// A place where a sample can be kept. CPU seconds of the threads that compute, of one sample.
struct CachePlace {
  CachePoint at{};
  double fill_s = 0;  ///< to compute it, keep it and go on: above what it costs where nothing is kept
  double hit_s = 0;   ///< to go on from the kept bytes
  double bytes = 0;   ///< of the kept sample; above 0
  /// The share of all records whose samples are there already, whoever put them: hits from the present epoch on.
  double kept = 0;
  /// Which epochs of the run have the same samples there; for the next group all of them are made and kept anew. None: all
  /// epochs have.
  std::optional<EpochGroups> groups{};
  /// Nearest first: each keeps what those before it have no room for. None: memory, of CacheInputs::capacity_bytes.
  std::vector<CacheTier> tiers{};
  bool uses(CacheStorage storage) const {
    return std::ranges::find(tiers, storage, &CacheTier::storage) != tiers.end();
  }
};

struct CacheInputs {
  double sample_s = 0;  ///< to compute a sample for which nothing is kept, above 0
  /// To read a record from its source, which a kept one saves: CPU time outside of the threads that compute, and what it
  /// costs in money, as the CPU seconds that cost as much.
  double read_s = 0;
  /// The same in time: CPU seconds that those threads have while a record is read, at the rate that its source can give
  /// at most. Where that is more than they need, they wait, and a kept record saves the wait.
  double wait_s = 0;
  std::vector<CachePlace> places;
  double records = 0;         ///< of one epoch, above 0
  double capacity_bytes = 0;  ///< of memory, for all kept samples together
  double epoch = 0;           ///< the present one's number
  double epochs_left = 1;     ///< the present one included, at least 1; see expected_epochs()
  double ranks = 1;  ///< that deal the records out anew in each epoch, and keep apart; see filling_epochs()
};

/// What a run costs with one choice, in the mean over its records.
struct CacheCost {
  std::optional<std::size_t> place{};  ///< index in CacheInputs::places; none: nothing is kept
  double share = 0;                    ///< of the records that are kept
  double run_s = 0;    ///< CPU seconds per record, with what reading costs, over the epochs left
  double later_s = 0;  ///< of these, in one epoch after the present one; with groups, in the mean of one
  double written_bytes = 0;  ///< to files, per record, beyond what is there
  /// After so many epochs in all, or of a group, what filling cost is paid back; 0: filling costs nothing; none: never.
  std::optional<double> pays_back_epochs{};
};

/// What is kept now, and what was shortly before. Indices of CacheChoice::all: 0 is nothing, 1 the first place.
struct CacheNow {
  std::size_t present = 0;
  std::optional<std::size_t> left{};  ///< what the last change left, not long ago
};

struct CacheChoice {
  CacheCost chosen;
  std::vector<CacheCost> all;  ///< nothing kept, then each place in its order
};

/// A change of what is kept must save this share of the run's cost; one that undoes the last change the other.
inline constexpr double kCacheMargin = 0.02, kCacheUndoMargin = 0.15;
/// A change must be better wherever the rate of each storage lies, within so many standard errors: with 95 % confidence
/// where there is one storage.
inline constexpr double kCacheErrors = 1.645;

/// The epochs that a stream is expected to have left, the present one included. `epochs`: how many there are, if that is
/// known. Without it, a stream in its n-th epoch has n + 1.
double expected_epochs(std::optional<double> epochs, double epoch);

/// In how many of its epochs' samples a rank of `ranks` meets a record for the first time, when each epoch deals the
/// records out anew and each rank has a cache of its own. It is 1 for one rank.
double filling_epochs(double ranks, double epochs);

/// The epochs of the group in which the present one lies, of a place that has groups.
double group_epochs(const CacheInputs& facts, const CachePlace& place);

/// The share of the records that a place keeps: all its tiers together.
double cache_share(const CacheInputs& facts, const CachePlace& place);

/// Whether it still pays to keep more at a place than what is there already: for the rest of the run or of the group,
/// against going on with that.
bool pays_to_fill(const CacheInputs& facts, const CachePlace& place);

/// The choice with the least run_s, or the present one if that is not surely worse by the margin of a change. Pure.
/// Errors: kInvalidArgument (numbers that cannot be, with their names).
Result<CacheChoice> choose_cache(const CacheInputs& facts, const CacheNow& now = {});

}  // namespace carya::autotune
