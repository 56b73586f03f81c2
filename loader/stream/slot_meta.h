#pragma once

#include <cstddef>
#include <cstdint>

#include "loader/stream/chunk.h"
#include "shm/slot_ring.h"

namespace carya::loader {

/// The meaning of a published slot's meta words.
enum MetaWord : std::size_t {
  kMetaSession,
  kMetaKind,
  kMetaEpoch,
  kMetaStep,
  kMetaPosition,
  kMetaRows,
  kMetaLast,
  kMetaFound,  ///< not 0: the step has entries; Stream::take_errors() returns them
};
enum class SlotKind : std::uint64_t { kBatch = 1, kFailure = 2 };

inline shm::Meta meta_of(const Step& step, std::uint64_t session, bool found) {
  shm::Meta meta{};
  meta[kMetaSession] = session;
  meta[kMetaKind] = static_cast<std::uint64_t>(step.failure ? SlotKind::kFailure : SlotKind::kBatch);
  meta[kMetaEpoch] = step.epoch;
  meta[kMetaStep] = step.index;
  meta[kMetaPosition] = step.position_after;
  meta[kMetaRows] = step.part.rows;
  meta[kMetaLast] = step.last;
  meta[kMetaFound] = step.failure || found;
  return meta;
}

}  // namespace carya::loader
