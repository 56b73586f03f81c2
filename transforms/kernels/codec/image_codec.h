#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "transforms/kernels/codec/field_index.h"
#include "transforms/kernels/image/image_view.h"
#include "transforms/simd/patience.h"

namespace carya {
class BandRunner;
}

namespace carya::transforms {

enum class ImageFormat : std::uint8_t { kJpeg, kPng };
enum class ColorMode : std::uint8_t { kRgb, kL };

constexpr std::int64_t color_channels(ColorMode mode) {
  return mode == ColorMode::kRgb ? 3 : 1;
}

/// Limits that a picture must keep before memory is taken for it. A picture over a limit is kCorrupt.
struct ImageLimits {
  std::uint64_t pixels_max = 178'956'970;  ///< declared width x height
  std::uint32_t scans_max = 500;           ///< scans of a JPEG
};

/// The content of a picture's header.
struct ImageInfo {
  ImageFormat format = ImageFormat::kJpeg;
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 0;          ///< in the file: 1, 2 (PNG gray + alpha), 3 or 4; a PNG palette counts 1
  int exif_orientation = 1;  ///< 1..8; 1 if the file has none or a wrong one
  /// JPEG: progressive, or components in several scans. A region then costs as much as the whole.
  bool multi_scan = false;
};

/// Recognize the format by the first bytes, not by a name. Errors: kCorrupt; the message says what the bytes are
/// instead ("not a JPEG or PNG (starts with 52 49 46 46: WebP)").
Result<ImageFormat> sniff(std::span<const std::byte> bytes);

/// JPEG pictures by the decoder that decoded them.
struct DecodeCounts {
  std::uint64_t own = 0;       ///< our decoder
  std::uint64_t packed = 0;    ///< from packed coefficients
  std::uint64_t turbo = 0;     ///< libjpeg-turbo: not ordinary, or a doubt inside
  std::uint64_t warnings = 0;  ///< damage that libjpeg-turbo concealed
  // Numbers that the cost of decoding depends on:
  std::uint64_t indexed = 0;  ///< pictures of `own` that began at points of a stored index
  /// Compressed bytes that were read, estimated by rows: down to the region's end, and with an index from its
  /// beginning.
  std::uint64_t scan_bytes = 0;
  std::uint64_t pixels = 0;  ///< pixels of the regions
};

/// Send ordinary JPEGs to our own decoder (`wanted`, the default), or all JPEGs to libjpeg-turbo, with the same bits.
/// It holds for the whole process from the next open() on. Tests and benches use it.
void use_own_jpeg(bool wanted);

/// Decodes pictures, one after the other: open() reads the header, then decode_region() decodes. A picture's verdict
/// and pixels depend only on its bytes, not on earlier pictures.
///
/// Mode:    kRgb: gray is repeated, CMYK and YCCK become RGB as in Pillow's convert("RGB"), alpha is dropped.
///          kL: Pillow's convert("L") of the kRgb pixels, (19595 R + 38470 G + 7471 B + 32768) >> 16; gray files as
///          they are.
/// Threads: owner only; the decoder keeps its scratch memory.
/// Cost:    no heap allocation once it has decoded a picture as large.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  /// Read the header and check all that needs no decoding. `bytes` must stay valid until the last decode_region(); no
  /// byte after them is read. Errors: kCorrupt: not a JPEG or PNG, a refused header, a value over a limit, a JPEG
  /// without an end marker after its first scan.
  Result<ImageInfo> open(std::span<const std::byte> bytes, const ImageLimits& limits);

  /// Open packed coefficients in the place of the JPEG that they were made from: what follows gives its pixels. Bytes and
  /// `field` must stay valid until the last decode. Errors, here and from decodes: kCorrupt, with field.damaged set: the
  /// bytes are no whole entry, or over a limit; nothing is known of the file.
  Result<ImageInfo> open_packed(std::span<const std::byte> entry, const ImageLimits& limits,
                                FieldIndex& field);

  /// Decode `region` of the opened picture. The bits are those of decoding the whole picture and cropping. It may be
  /// called again.
  ///
  /// Shape:   out is (region.height, region.width, color_channels(mode)).
  /// Errors:  kCorrupt: the codec refuses the picture only when it starts (a missing table, a PNG's checksum). The
  ///          verdict is the same for every region, so a pipeline that drops all pixels still has to decode one.
  ///          kInvalidArgument: the region is outside, out has another shape, or nothing is open. kExhausted: no
  ///          memory. kTimeout: set_patience()'s function ended it. `out` is unspecified after an error.
  Status decode_region(const Region& region, ColorMode mode, const MutableImageView& out);

  /// Decode `region` into the decoder's own memory; the view is valid until the next call. It saves a copy of the
  /// region (~10 % of a photo's decode) for kernels that read each pixel once.
  Result<ImageView> decode_view(const Region& region, ColorMode mode);

  /// Use and extend this index in decodes of the opened picture (JPEG only); null: no index. It must stay valid until
  /// the next open(), which forgets it. The pixels are the same.
  void set_index(FieldIndex* index);

  /// Ask `patience` (null: nobody) during decodes, which may end with kTimeout. It must stay valid until another is
  /// set. Bands (set_bands()) do not ask, since several threads make them.
  void set_patience(Patience* patience);

  /// Decode large JPEGs in bands on this runner from now on (null: no bands). The pixels are the same. The runner must
  /// outlive the decodes.
  void set_bands(BandRunner* runner);

  /// The JPEG pictures that were decoded since the last call.
  DecodeCounts take_counts();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace carya::transforms
