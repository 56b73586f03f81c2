#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "transforms/kernels/codec/image_codec.h"

namespace carya::transforms {

/// Decodes PNG: rows without interlacing by our own unpacking (PngRows), all others, and whatever is odd, by libspng,
/// whose verdict, words and pixels are the reference. 16-bit samples keep their high byte, alpha and tRNS are
/// dropped, gray below 8 bits is stretched to 0..255. An index past the palette is the gray of that index, as in
/// Pillow.
///
/// Broken:  whatever the library refuses up to the end of the image data: signature, header, order, CRC, too little
///          data. The whole image is always decoded, so the verdict is the same for every region.
/// Threads: owner only.
/// Cost:    that of the whole picture for every region; no heap allocation once it has decoded a picture as large.
class PngReader {
 public:
  PngReader();
  ~PngReader();
  PngReader(PngReader&&) noexcept;
  PngReader& operator=(PngReader&&) noexcept;

  Result<ImageInfo> open(std::span<const std::byte> bytes, const ImageLimits& limits);
  Status decode_region(const Region& region, ColorMode mode, const MutableImageView& out);
  /// Decode `region` into the decoder's own memory; the view is valid until the next call.
  Result<ImageView> decode_view(const Region& region, ColorMode mode);

  /// Same contract as ImageDecoder::set_patience().
  void set_patience(Patience* patience);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

/// "libspng 0.7.3".
const char* png_version();

}  // namespace carya::transforms
