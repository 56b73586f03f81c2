#pragma once

#include <cstdint>
#include <optional>

#include "loader/stream/chunk.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// The inputs of a decision about a row that could not be computed.
struct BrokenRowRules {
  const Dataset& dataset;
  transforms::OnError on_error;
  std::uint64_t seed;
  bool shuffled;
};

/// The decision about a broken row.
struct RowVerdict {
  enum class Fate : std::uint8_t {
    kStop,     ///< the stream fails here, with `error`
    kMask,     ///< the row stays empty
    kReplace,  ///< the task names a substitute now, which is to be read and computed
  };
  Fate fate;
  Error error;                       ///< of kStop
  std::optional<RecordError> entry;  ///< for the quarantine
};

/// Apply the policy to the row of `task`, which `error` broke. Only bad data (kCorrupt) is masked or replaced. At most
/// 16 substitutes are drawn for a position, from the position's own random numbers: no other row changes, and every
/// machine draws the same ones.
RowVerdict judge_broken_row(const BrokenRowRules& rules, std::uint64_t epoch, RowTask& task, Error error);

}  // namespace carya::loader
