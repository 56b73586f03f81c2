#include "loader/stream/slot_rows.h"

#include <cstring>
#include <numeric>
#include <utility>

namespace carya::loader {

SlotRows::SlotRows(std::shared_ptr<shm::SlotRing> ring, const transforms::Plan& plan, bool label_int32)
    : ring_(std::move(ring)) {
  const auto& specs = plan.outputs();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const bool narrow = label_int32 && specs[i].name == "label" && specs[i].dtype == DType::kInt64;
    if (narrow) label_output_ = i;
    row_bytes_.push_back(static_cast<std::uint64_t>(narrow ? specs[i].bytes() / 2 : specs[i].bytes()));
  }
}

std::uint64_t SlotRows::bytes() const {
  return std::accumulate(row_bytes_.begin(), row_bytes_.end(), std::uint64_t{0});
}

std::span<std::byte> SlotRows::rows(std::uint32_t slot, std::size_t output, std::uint64_t first,
                                    std::uint64_t count) const {
  const std::uint64_t offset = ring_->layout().tensors()[output].offset + first * row_bytes_[output];
  return {ring_->data(slot) + offset, count * row_bytes_[output]};
}

void SlotRows::begin(Row& row, std::uint32_t slot, std::uint64_t index) const {
  const auto& tensors = ring_->layout().tensors();
  std::byte* const data = ring_->data(slot);
  for (std::size_t i = 0; i < row_bytes_.size(); ++i)
    row.outputs[i] = data + tensors[i].offset + index * row_bytes_[i];
  row.narrow_label = nullptr;
  if (label_output_ >= row_bytes_.size()) return;
  row.narrow_label = std::exchange(row.outputs[label_output_], reinterpret_cast<std::byte*>(&row.wide_label));
}

void SlotRows::finish(const Row& row, std::uint32_t slot, std::uint64_t index, std::uint64_t record) const {
  if (row.narrow_label != nullptr) {
    const auto label = static_cast<std::int32_t>(row.wide_label);
    std::memcpy(row.narrow_label, &label, sizeof label);
  }
  write_facts(slot, index, static_cast<std::int64_t>(record), true);
}

void SlotRows::clear(std::uint32_t slot, std::uint64_t index, std::int64_t record) const {
  const auto& tensors = ring_->layout().tensors();
  std::byte* const data = ring_->data(slot);
  for (std::size_t i = 0; i < row_bytes_.size(); ++i)
    std::memset(data + tensors[i].offset + index * row_bytes_[i], 0, row_bytes_[i]);
  write_facts(slot, index, record, false);
}

void SlotRows::invalidate(std::uint32_t slot, std::uint64_t index) const {
  ring_->data(slot)[ring_->layout().tensors()[row_bytes_.size() + 1].offset + index] = std::byte{0};
}

void SlotRows::write_facts(std::uint32_t slot, std::uint64_t index, std::int64_t record, bool valid) const {
  const auto& tensors = ring_->layout().tensors();
  std::byte* const data = ring_->data(slot);
  std::memcpy(data + tensors[row_bytes_.size()].offset + index * 8, &record, 8);
  data[tensors[row_bytes_.size() + 1].offset + index] = std::byte{valid};
}

}  // namespace carya::loader
