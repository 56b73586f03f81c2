#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "transforms/coefficients/packer.h"
#include "transforms/kernels/codec/image_codec.h"

namespace carya::transforms {

/// Decodes JPEG with libjpeg-turbo: accurate DCT, smooth upsampling. Every other decoder must give its pixels.
/// ImageDecoder describes the modes. CMYK and YCCK are taken as inverted (Adobe), as Pillow does.
///
/// Broken:  the header is refused or over a limit, no end marker (FF D9) follows the first scan's header, or the
///          library refuses a table or a later scan. Damage inside a scan is concealed and counted, in the same way for
///          every region. In a file with one scan, damage below the region is not seen.
/// Memory:  the library's pools lie in an arena of ours, which keeps its memory between pictures. A file with several
///          scans needs 6 bytes per pixel; others need a band of rows.
/// Threads: owner only.
/// Cost:    ~7 ns per compressed byte down to the region's last row + 0.9 ns per pixel of the region.
/// Source:  ITU-T T.81; tests/transforms/kernel_jpeg_test.cc (same bits as decoding all and cropping).
class TurboJpeg {
 public:
  TurboJpeg();
  ~TurboJpeg();
  TurboJpeg(TurboJpeg&&) noexcept;
  TurboJpeg& operator=(TurboJpeg&&) noexcept;

  /// Read the header of `bytes`, which must stay valid until the last decode_region(). Errors: kCorrupt, kExhausted.
  Result<ImageInfo> open(std::span<const std::byte> bytes, const ImageLimits& limits);

  /// Decode `region` of the opened picture. Errors: those of ImageDecoder::decode_region().
  Status decode_region(const Region& region, ColorMode mode, const MutableImageView& out);

  /// Decode `region` into the decoder's own memory, without a copy; the view is valid until the next call.
  Result<ImageView> decode_view(const Region& region, ColorMode mode);

  /// Give all coefficients of the opened picture to `packer`, for an entry of at most `bytes_max` bytes. Returns false if
  /// it gets none: a warning anywhere in the file, or colours or samplings that are not those of an ordinary file. The
  /// caller compares the pixels before it trusts the entry. Errors: those of decode_region().
  Result<bool> pack(coefficients::Packer& packer, std::size_t bytes_max);

  /// Same contract as ImageDecoder::set_patience(). It is asked after each row of blocks of each scan.
  void set_patience(Patience* patience);

  std::uint64_t warnings() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

/// Whether `bytes` contain FF D9. The search begins at the end, where a complete file has it.
bool has_end_marker(std::span<const std::byte> bytes);

/// The library that this is compiled against: "libjpeg-turbo 2.1.5".
const char* jpeg_turbo_version();

}  // namespace carya::transforms
