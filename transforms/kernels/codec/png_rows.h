#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transforms/kernels/codec/inflate.h"
#include "transforms/kernels/image/row_buffer.h"

namespace carya::transforms {

/// The rows of a PNG file without interlacing, by our own unpacking.
///
/// What it reads to the last row, libspng reads to the same rows. Whatever it finds odd it refuses, also what libspng
/// may read, and libspng's is the verdict then.
///
/// Threads: owner only.
class PngRows {
 public:
  static constexpr std::size_t kRowBytesMax = std::size_t{1} << 20;

  /// Begin to read row by row: the picture whose rows have `row_bytes` in pixels of `pixel_bytes` (1 for those below
  /// 8 bits). `file` is one whose chunks before the image data libspng has found good. Returns false for what it does
  /// not read.
  bool begin(std::span<const std::byte> file, std::size_t row_bytes, std::size_t pixel_bytes,
             std::uint32_t height);

  /// Write the next row to `row`. `above` is the row before it, or null for the first. Returns false for what it does
  /// not read.
  bool next(const std::uint8_t* above, std::uint8_t* row);

  /// All rows of a picture with pixels of one byte, without a copy: each is one byte further from the one before than
  /// its width. They are valid until the next call. Null for what it does not read. Instead of begin() and next().
  const std::uint8_t* all(std::span<const std::byte> file, std::size_t row_bytes, std::uint32_t height);

 private:
  bool gather(std::span<const std::byte> file);
  bool begin_rows(std::span<const std::byte> file, std::size_t row_bytes, std::size_t pixel_bytes,
                  std::uint32_t height, std::uint32_t at_once);
  bool undo(const std::uint8_t* in, const std::uint8_t* above, std::uint8_t* row) const;

  RowBuffer packed_;  // the image data of all chunks
  std::size_t packed_bytes_ = 0;
  RowBuffer zeros_;  // above the first row
  Inflater inflater_;
  std::size_t row_bytes_ = 0;
  std::size_t pixel_bytes_ = 0;
};

}  // namespace carya::transforms
