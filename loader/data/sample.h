#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "loader/data/dataset.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

/// The inputs of one record, as Plan::run() takes them. `spans` points into the other two members, or into the memory
/// of an `arrays` source; a move keeps the pointers valid.
struct SampleInputs {
  std::deque<std::vector<std::byte>> files;
  std::deque<std::int64_t> labels;
  std::vector<std::span<const std::byte>> spans;
};

/// Read the inputs of one record, and wait for them. Errors: kInvalidArgument (the index is out of range), kCorrupt
/// (the record is broken whatever its bytes are), kIo, kNotFound, kPermission. Threads: thread-safe.
Result<SampleInputs> read_inputs(const Dataset& dataset, std::uint64_t record);

/// Read and compute one record by index, as `train[i]` shows it. The bits are those of the stream's row for the same
/// seed, epoch and record. Not for speed. Errors: kInvalidArgument (the index is out of range), kCorrupt (bad data),
/// kIo, kNotFound, kPermission. Threads: thread-safe.
Result<std::vector<transforms::OwnedTensor>> compute_sample(const transforms::Plan& plan,
                                                            const Dataset& dataset, std::uint64_t record,
                                                            std::uint64_t epoch);

/// Read the bytes of one record, with 64 more behind them. Errors: kIo and those of open().
Result<std::vector<std::byte>> read_record(const io::Manifest& manifest, std::uint64_t index);

}  // namespace carya::loader
