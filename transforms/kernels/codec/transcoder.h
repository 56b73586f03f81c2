#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "transforms/kernels/codec/image_codec.h"
#include "transforms/kernels/codec/jpeg_writer.h"
#include "transforms/kernels/image/row_buffer.h"
#include "transforms/kernels/resize/resize.h"
#include "transforms/simd/patience.h"

namespace carya::transforms {

struct TranscodeSpec {
  std::int64_t side_max = 512;  ///< at most so many pixels on the longer side
  int quality = 90;             ///< of the JPEG that is written, 1 to 100
};

/// Makes of an encoded picture a JPEG that is no larger than a limit. A JPEG that keeps the limit stays as it is, byte by
/// byte; all others are decoded as a whole, resized as by Resizer (bilinear, antialiased) and written by JpegWriter, gray
/// JPEGs as gray, the rest as RGB, with their EXIF orientation. The bytes are the same on every machine.
///
/// Threads: owner only.
class Transcoder {
 public:
  /// The picture's new bytes, or `bytes` itself. New ones are valid until the next call, and 64 behind them can be read.
  /// Errors: kCorrupt (as decoding), kExhausted, kTimeout (`patience` ended it; null: never).
  Result<std::span<const std::byte>> run(std::span<const std::byte> bytes, const TranscodeSpec& spec,
                                         const ImageLimits& limits, Patience* patience);

 private:
  ImageDecoder decoder_;
  Resizer resizer_;
  RowBuffer pixels_;
  JpegWriter writer_;
};

}  // namespace carya::transforms
