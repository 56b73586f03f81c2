#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shm/slot_ring.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

/// Rows of a ring's slots as a plan fills them: its outputs, then `carya.records` and `carya.valid`.
/// Threads: const is thread-safe; a row is written by one thread at a time.
class SlotRows {
 public:
  SlotRows(std::shared_ptr<shm::SlotRing> ring, const transforms::Plan& plan, bool label_int32);

  /// Where the plan writes one row; finish() brings what lay aside into the slot.
  struct Row {
    std::array<std::byte*, shm::SlotLayout::kTensorsMax> outputs;
    std::byte* narrow_label = nullptr;
    std::int64_t wide_label = 0;
  };
  void begin(Row& row, std::uint32_t slot, std::uint64_t index) const;
  void finish(const Row& row, std::uint32_t slot, std::uint64_t index, std::uint64_t record) const;
  /// All zeros, not valid; `record` as it is to be shown.
  void clear(std::uint32_t slot, std::uint64_t index, std::int64_t record) const;
  /// Not valid, whatever it holds.
  void invalidate(std::uint32_t slot, std::uint64_t index) const;

  /// So many rows of one output, one behind the other.
  std::span<std::byte> rows(std::uint32_t slot, std::size_t output, std::uint64_t first,
                            std::uint64_t count) const;
  std::uint64_t row_bytes(std::size_t output) const { return row_bytes_[output]; }

  std::size_t outputs() const { return row_bytes_.size(); }
  /// Of the outputs in the slot.
  std::uint64_t bytes() const;

 private:
  void write_facts(std::uint32_t slot, std::uint64_t index, std::int64_t record, bool valid) const;

  std::shared_ptr<shm::SlotRing> ring_;
  std::vector<std::uint64_t> row_bytes_;  // of each output in the slot
  std::size_t label_output_ = SIZE_MAX;   // the output narrowed to int32, if any
};

}  // namespace carya::loader
