#pragma once

#include <cstddef>
#include <vector>

#include "loader/data/dataset.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

/// Compute one record by index, reading it here and now: what `train[i]` shows. Same bits as the stream's row
/// for the same seed, epoch and record. Not for speed. Errors: kInvalidArgument (index outside), kCorrupt
/// (bad data), kIo, kNotFound, kPermission. Threads: thread-safe.
Result<std::vector<transforms::OwnedTensor>> compute_sample(const transforms::Plan& plan,
                                                            const Dataset& dataset, std::uint64_t record,
                                                            std::uint64_t epoch);

/// The bytes of one record, read here and now, and 64 more behind them. Errors: kIo and those of open().
Result<std::vector<std::byte>> read_record(const io::Manifest& manifest, std::uint64_t index);

}  // namespace carya::loader
