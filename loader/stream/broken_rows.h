#pragma once

#include <cstdint>
#include <optional>

#include "loader/stream/chunk.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// What decides about a row that could not be computed.
struct BrokenRowRules {
  const Dataset& dataset;
  transforms::OnError on_error;
  std::uint64_t seed;
};

/// What becomes of such a row.
struct RowVerdict {
  enum class Fate : std::uint8_t {
    kStop,     ///< the stream fails here, with `error`
    kMask,     ///< the row stays empty
    kReplace,  ///< the task names a substitute now, which is to be read and computed
  };
  Fate fate;
  Error error;                   ///< of kStop
  std::optional<Failure> entry;  ///< for the quarantine
};

/// Apply the policy to one broken row. Only bad data is masked or replaced; a substitute comes from the
/// position's own random numbers, so that no other row moves and any machine draws the same ones. At most 16
/// are drawn for a position.
RowVerdict judge_broken_row(const BrokenRowRules& rules, std::uint64_t epoch, RowTask& task, Error error);

}  // namespace carya::loader
