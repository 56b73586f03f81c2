#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "autotune/controller/series.h"
#include "loader/cache/file_tier.h"
#include "loader/cache/storage_rates.h"

namespace carya::loader {

/// What is known of the storage of one folder: what a probe or earlier streams found, corrected by what its tier measures
/// while it works. A cost keeps its shape, and is scaled by one factor. Threads: owner only.
class StorageMeter {
 public:
  /// `earlier`: what earlier streams left, which must be possible.
  explicit StorageMeter(const std::optional<StorageRates>& earlier);

  /// A probe has found this: it takes the place of what was known.
  void set(const StorageRates& rates);
  /// What the tier did since the last look at it, if that was enough to tell. True: the storage is another one since
  /// then (Series), and what was measured before is forgotten.
  /// `read`: how its samples are read.
  bool look(const FileTierStats& stats, StorageWork read, std::int64_t now_s);
  /// The tier is not used any more; another one begins at 0.
  void forget_tier() { last_.reset(); }

  /// None: nothing is known.
  std::optional<StorageRates> rates() const;
  /// The standard error of the time of this work, as a share of it.
  double error(StorageWork work) const;

  /// A probe of a few megabytes, and the word of an earlier stream, are believed to so much.
  static constexpr double kProbeError = 0.2, kEarlierError = 0.1;
  /// A look needs so many reads, or writes.
  static constexpr std::uint64_t kEnough = 8;

 private:
  bool add(StorageWork work, double seconds, std::uint64_t count, std::uint64_t bytes);

  std::optional<StorageRates> known_;
  double known_error_ = kEarlierError;
  std::array<autotune::Series, kStorageWorks> factors_{};  // of what is known
  std::optional<FileTierStats> last_;
  std::int64_t measured_at_s_ = 0;  // 0: only what is known
};

}  // namespace carya::loader
