#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loader/cache/cache_options.h"
#include "loader/cache/write_budget.h"

namespace carya::loader {

/// Where a daemon keeps the samples of its jobs, and how many ([cache] of caryad.toml).
struct CacheLimits {
  std::uint64_t memory_bytes = UINT64_MAX;  ///< of all jobs together
  /// Folders that take the place of those that jobs name. Without a path: jobs name their own, below the cache folders.
  CacheFolder disk{}, shared{};
  std::uint64_t write_bytes_per_day = WriteBudget::kNoLimit;  ///< to files, of all jobs together

  bool operator==(const CacheLimits&) const = default;
  /// What a job gets of files, of options whose folders it may have: never a folder or a size beyond these. `said` gets a
  /// line for people where that is not what it `asked` for.
  CacheOptions bound(CacheOptions options, const CacheOptions& asked, std::vector<std::string>& said) const;
};

}  // namespace carya::loader
