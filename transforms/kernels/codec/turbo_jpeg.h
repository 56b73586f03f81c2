#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "transforms/kernels/codec/image_codec.h"

namespace carya::transforms {

/// JPEG through libjpeg-turbo: accurate DCT, smooth upsampling; the pixels every other path has to give.
/// See ImageDecoder for modes; CMYK and YCCK are taken as inverted (Adobe), as Pillow does.
///
/// Broken:  the header is refused or over a cap, no end marker (FF D9) follows the first scan's header, or
///          the library refuses a table or a later scan. Damage inside a scan is concealed and counted, the
///          same for every region; what lies below the region of a one-scan file is not looked at.
/// Memory:  the library's pools live in an arena of ours, kept between pictures. A file in several scans
///          needs 6 bytes per pixel; others a band of rows.
/// Threads: owner only.
/// Cost:    ~7 ns per compressed byte down to the region's last row + 0.9 ns per pixel of the region.
/// Source:  ITU-T T.81; tests/transforms/kernel_jpeg_test.cc (same bits as decoding all and cropping).
class JpegTurbo {
 public:
  JpegTurbo();
  ~JpegTurbo();
  JpegTurbo(JpegTurbo&&) noexcept;
  JpegTurbo& operator=(JpegTurbo&&) noexcept;

  /// Read the header of `bytes`, which must stay until the last decode_region(). Errors: kCorrupt,
  /// kExhausted.
  Result<ImageInfo> open(std::span<const std::byte> bytes, const ImageLimits& limits);

  /// Pixels of the opened picture. Errors: as ImageDecoder::decode_region.
  Status decode_region(const Region& region, ColorMode mode, const MutableImageView& out);

  /// The same pixels in the decoder's own memory, without a copy: valid until the next call.
  Result<ImageView> decode_view(const Region& region, ColorMode mode);

  std::uint64_t warnings() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

/// Whether FF D9 stands anywhere in `bytes`, looked for from the end, where it is in a whole file.
bool has_end_marker(std::span<const std::byte> bytes);

/// "libjpeg-turbo 2.1.5": what this is compiled against.
const char* jpeg_turbo_version();

}  // namespace carya::transforms
