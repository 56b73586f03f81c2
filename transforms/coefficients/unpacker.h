#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transforms/coefficients/entry.h"
#include "transforms/coefficients/segment.h"
#include "transforms/jpeg/decoder.h"
#include "transforms/jpeg/reconstruct.h"

namespace carya {
class Patience;
}

namespace carya::coefficients {

/// Decodes entries, whole or in part, with the pixels of the JPEG that each was made from. Nothing in an entry is
/// trusted: wrong bytes can end a decode, and if their checksum was forged too they can give wrong pixels, but nothing
/// outside is read or written.
///
/// Threads: owner only; it keeps its scratch memory.
class Unpacker {
 public:
  /// Read the head of an entry, which must stay valid until the last decode(). Returns false if the bytes are none. The
  /// checksum is not looked at (has_right_checksum()).
  bool open(std::span<const std::uint8_t> entry);
  const jpeg::Header& header() const { return blocks_.head.header; }
  const EntryFacts& facts() const { return blocks_.head.facts; }

  /// Decode `region` of the opened entry into `out`.
  ///
  /// Shape:   out is (region.height, region.width, channels(mode)), row-major; nothing else is written.
  /// Units:   stride in bytes, >= region.width * channels(mode); values 0..255.
  /// Errors:  an Outcome other than kDone: the entry is damaged, or the decode was given up; then `out` is unspecified.
  ///          A region that is empty or outside the picture is a bug.
  /// Cost:    no allocation in steady state; ~3 ns per block for unpacking + ~0.9 ns per pixel (bench/coefficients.cc).
  /// Source:  same pixels as jpeg::Decoder and libjpeg-turbo (tests/coefficients/entry_test.cc).
  jpeg::Outcome decode(const jpeg::Region& region, jpeg::Mode mode, std::uint8_t* out, std::size_t stride);

  /// Asked after each row of MCUs from now on; null: nobody. It must outlive the decodes.
  void set_patience(Patience* patience) { reconstructor_.set_patience(patience); }

 private:
  // The coefficients of the opened entry. Rows of blocks are asked for in the order in which they stand there.
  class Blocks final : public jpeg::BlockSource {
   public:
    bool give(int component, int block_y, int x0, int x1, std::int16_t* blocks, std::uint8_t* last) override;

    std::span<const std::uint8_t> entry;
    EntryHead head;
    int mcu_y = -1;  // the row of MCUs that `rest` is in; -1: none

   private:
    int rows_in(int component, int row_of_mcus) const;
    bool go_to(int component, int block_y);
    bool next_segment(int component, int x, Segment& segment);

    std::span<const std::uint8_t> rest_;  // of the row of MCUs, from row_ on
    int row_ = 0;                         // rows of blocks that were passed in it
    std::array<std::uint8_t, kSegmentBytesMax + kStreamReach> tail_{};
  };

  Blocks blocks_;
  jpeg::Reconstructor reconstructor_;
};

}  // namespace carya::coefficients
