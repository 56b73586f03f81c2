#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transforms/coefficients/entry.h"
#include "transforms/jpeg/header.h"
#include "transforms/jpeg/reconstruct.h"

namespace carya::coefficients {

/// Makes the entry of one picture after the other from its coefficients (FORMAT.md). They come as rows of MCUs in the
/// order of a scan (take(), of jpeg::Decoder::read_coefficients()) or as rows of blocks (take_blocks()).
///
/// Threads: owner only; it keeps its memory. Cost: ~0.1 us per block.
class Packer final : public jpeg::CoefficientSink {
 public:
  /// Begin the entry of a picture. `header` must stay valid until finish(). An entry of more than `bytes_max` is not
  /// finished.
  void begin(const jpeg::Header& header, const EntryFacts& facts, std::size_t bytes_max);
  void take(int mcu_y, const std::int16_t* blocks) override;
  /// Take row `block_y` of a component: block_columns() blocks without gaps, in natural order. Rows of MCUs come in
  /// order, in each of them the components one after the other, and their rows of blocks from top to bottom.
  void take_blocks(int component, int block_y, const std::int16_t* blocks);
  /// The entry, valid until the next begin(); empty if the picture has none: a coefficient has no place in the format,
  /// or it became too large.
  std::span<const std::uint8_t> finish();

 private:
  // One row of a component's blocks. In a scan the blocks of a component are `h` neighbours in each MCU.
  struct BlockRow {
    const std::int16_t* first = nullptr;
    std::size_t h = 1;           // neighbours
    std::size_t mcu_blocks = 1;  // from one group of neighbours to the next
  };
  void pack_row(int component, const BlockRow& row);

  const jpeg::Header* header_ = nullptr;
  std::vector<std::uint8_t> bytes_;
  std::size_t bytes_max_ = 0;
  bool good_ = false;
};

}  // namespace carya::coefficients
