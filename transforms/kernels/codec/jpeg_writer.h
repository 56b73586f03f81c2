#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/error.h"
#include "transforms/kernels/image/image_view.h"

namespace carya::transforms {

/// Writes JPEGs, one after the other, through libjpeg-turbo: baseline, chroma halved both ways, Huffman tables of the
/// picture's own, the accurate integer DCT, no restarts. So the bytes are a function of pixels, quality and orientation on
/// every machine with this version of the library.
///
/// Threads: owner only; the memory of the last picture is kept.
class JpegWriter {
 public:
  JpegWriter();
  ~JpegWriter();
  JpegWriter(JpegWriter&&) noexcept;
  JpegWriter& operator=(JpegWriter&&) noexcept;

  /// Encode RGB or gray pixels, at most kSideMax on a side. `quality`: 1 to 100, libjpeg's. `orientation`: EXIF's, 1 to
  /// 8, which the file gets a tag for unless it is 1. The bytes are valid until the next call; 64 more behind them can
  /// be read. Errors: kExhausted (no memory).
  Result<std::span<const std::byte>> write(const ImageView& pixels, int quality, int orientation);

  static constexpr std::int64_t kSideMax = 65'500;

  struct Encoding;

 private:
  std::unique_ptr<Encoding> encoding_;
};

}  // namespace carya::transforms
