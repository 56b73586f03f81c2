#pragma once

#include <cstdint>
#include <functional>

#include "base/error.h"
#include "loader/data/dataset.h"
#include "loader/data/decode_index.h"

namespace carya::loader {

struct IndexCompletionOptions {
  DecodeIndexOptions index;
  std::uint32_t threads = 0;  ///< 0: the allowed cores
  /// The caller's thread calls it about ten times a second with the number of records that are done. False ends the
  /// call with kClosed; entries that were made until then are kept.
  std::function<bool(std::uint64_t done)> progress{};
};

struct IndexCompletionReport {
  std::uint64_t files = 0;       ///< records x encoded fields
  std::uint64_t complete = 0;    ///< files that had all their points already
  std::uint64_t made = 0;        ///< files that got their points now
  std::uint64_t unsuited = 0;    ///< files without an entry: no ordinary JPEG, restart intervals, or damaged
  std::uint64_t unreadable = 0;  ///< files that storage did not give, or that changed
  DecodeIndexStats index;
};

/// Complete the decode index of a whole source (before its views) ahead of training.
/// Errors: kUnsupported (the index is off; the message says why), kClosed.
/// Cost: one read and ~3 ns per byte of each file that is not complete; no pixels are made.
Result<IndexCompletionReport> complete_index(const Dataset& dataset, const IndexCompletionOptions& options);

}  // namespace carya::loader
