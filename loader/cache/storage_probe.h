#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "loader/cache/storage_rates.h"
#include "loader/cache/write_budget.h"

namespace carya::loader {

struct StorageProbeOptions {
  std::string folder;                              ///< made if it is missing, as a tier would
  std::uint64_t small_bytes = 0, large_bytes = 0;  ///< of the samples that would be kept there
  std::shared_ptr<WriteBudget> budget{};           ///< allows what is written; null: all is
};

/// Finds out what samples in files of a folder cost, by a file of its own of at most kBytesMax, which has no name while
/// it is used: written, read by several threads at the same time through the page cache, and past it. It works in threads
/// of its own; each of its parts ends after kPartNs, with what it has by then. Where storage never answers it is never
/// over, and its threads are left behind. Threads: thread-safe; nothing here waits for storage.
class StorageProbe {
 public:
  /// Begin. May throw std::bad_alloc.
  static std::unique_ptr<StorageProbe> begin(const StorageProbeOptions& options);
  /// Ends it soon. Does not wait.
  ~StorageProbe();
  StorageProbe(const StorageProbe&) = delete;
  StorageProbe& operator=(const StorageProbe&) = delete;

  /// What it found; none: it is not over. Errors: kExhausted (the day's bytes are used, no thread); those of the folder.
  std::optional<Result<StorageRates>> result() const;

  static constexpr std::uint64_t kBytesMax = 8 << 20;
  static constexpr std::int64_t kPartNs = 500'000'000;

 private:
  struct State;
  explicit StorageProbe(std::shared_ptr<State> state);
  const std::shared_ptr<State> state_;
};

}  // namespace carya::loader
