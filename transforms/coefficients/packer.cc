#include "transforms/coefficients/packer.h"

#include <algorithm>
#include <array>

#include "transforms/coefficients/segment.h"

namespace carya::coefficients {

void Packer::begin(const jpeg::Header& header, const EntryFacts& facts, std::size_t bytes_max) {
  header_ = &header;
  bytes_.clear();
  // The head has four bytes for each place in the entry.
  bytes_max_ = std::min<std::size_t>(bytes_max, UINT32_MAX - kSegmentBytesMax);
  good_ = write_head(header, facts, bytes_);
}

void Packer::pack_row(int component, const BlockRow& row) {
  const auto columns = static_cast<std::size_t>(block_columns(header_->components[component]));
  for (std::size_t x = 0; x < columns && good_; x += kSegmentBlocks) {
    std::array<const std::int16_t*, kSegmentBlocks> blocks;
    const std::size_t count = std::min<std::size_t>(kSegmentBlocks, columns - x);
    for (std::size_t i = 0; i < count; ++i)
      blocks[i] = row.first + 64 * ((x + i) / row.h * row.mcu_blocks + (x + i) % row.h);
    good_ = pack_segment(blocks.data(), static_cast<int>(count), bytes_) && bytes_.size() <= bytes_max_;
  }
}

void Packer::take(int mcu_y, const std::int16_t* blocks) {
  if (!good_) return;
  patch_row(mcu_y, bytes_);
  std::size_t mcu_blocks = 0;
  for (int c = 0; c < header_->component_count; ++c)
    mcu_blocks += std::size_t{header_->components[c].h} * header_->components[c].v;
  for (int c = 0; c < header_->component_count; ++c) {
    const jpeg::Component& component = header_->components[c];
    for (int v = 0; v < component.v; ++v, blocks += 64 * std::size_t{component.h})
      if (mcu_y * component.v + v < block_rows(component)) pack_row(c, {blocks, component.h, mcu_blocks});
  }
}

void Packer::take_blocks(int component, int block_y, const std::int16_t* blocks) {
  if (!good_) return;
  const int v = header_->components[component].v;
  if (component == 0 && block_y % v == 0) patch_row(block_y / v, bytes_);
  pack_row(component, {.first = blocks});
}

std::span<const std::uint8_t> Packer::finish() {
  if (!good_) return {};
  good_ = false;
  finish_entry(bytes_);
  if (bytes_.size() > bytes_max_) return {};
  return bytes_;
}

}  // namespace carya::coefficients
