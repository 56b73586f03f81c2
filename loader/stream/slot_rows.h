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

/// Access to the rows of a ring's slots: the outputs of a plan, then `carya.records` and `carya.valid`. Threads: const
/// is thread-safe; one thread at a time writes a row.
class SlotRows {
 public:
  SlotRows(std::shared_ptr<shm::SlotRing> ring, const transforms::Plan& plan, bool label_int32);

  /// The addresses to which a plan writes one row. finish() moves into the slot what the row holds itself.
  struct Row {
    std::array<std::byte*, shm::SlotLayout::kTensorsMax> outputs;
    std::byte* narrow_label = nullptr;
    std::int64_t wide_label = 0;
  };
  void begin(Row& row, std::uint32_t slot, std::uint64_t index) const;
  void finish(const Row& row, std::uint32_t slot, std::uint64_t index, std::uint64_t record) const;
  /// Fill the row with zeros and mark it as not valid. Readers see `record` as its record.
  void clear(std::uint32_t slot, std::uint64_t index, std::int64_t record) const;
  /// Mark the row as not valid; its bytes stay.
  void invalidate(std::uint32_t slot, std::uint64_t index) const;

  /// The memory of `count` rows of one output, from row `first`.
  std::span<std::byte> rows(std::uint32_t slot, std::size_t output, std::uint64_t first,
                            std::uint64_t count) const;
  std::uint64_t row_bytes(std::size_t output) const { return row_bytes_[output]; }

  std::size_t outputs() const { return row_bytes_.size(); }
  /// The bytes of one row of all outputs in the slot.
  std::uint64_t bytes() const;

 private:
  void write_facts(std::uint32_t slot, std::uint64_t index, std::int64_t record, bool valid) const;

  std::shared_ptr<shm::SlotRing> ring_;
  std::vector<std::uint64_t> row_bytes_;  // bytes of one row of each output in the slot
  std::size_t label_output_ = SIZE_MAX;   // the output narrowed to int32, if any
};

}  // namespace carya::loader
