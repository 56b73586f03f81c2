#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "transforms/kernels/codec/field_index.h"
#include "transforms/kernels/image/image_view.h"

namespace carya::transforms {

enum class ImageFormat : std::uint8_t { kJpeg, kPng };
enum class ColorMode : std::uint8_t { kRgb, kL };

constexpr std::int64_t color_channels(ColorMode mode) {
  return mode == ColorMode::kRgb ? 3 : 1;
}

/// What a picture may ask for before any memory is taken for it. Over a cap is kCorrupt.
struct ImageLimits {
  std::uint64_t pixels_max = 178'956'970;  ///< declared width x height
  std::uint32_t scans_max = 500;           ///< scans of a JPEG
};

/// What the header says.
struct ImageInfo {
  ImageFormat format = ImageFormat::kJpeg;
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 0;          ///< in the file: 1, 2 (PNG gray + alpha), 3 or 4; a PNG palette counts 1
  int exif_orientation = 1;  ///< 1..8; 1 where the file has none or a wrong one
  bool multi_scan =
      false;  ///< JPEG: progressive, or components in several scans: a region costs as much as all
};

/// The format, by the first bytes and not by any name.
/// Errors: kCorrupt; the message names what it is instead ("not a JPEG or PNG (starts with 52 49 46 46:
/// WebP)").
Result<ImageFormat> sniff(std::span<const std::byte> bytes);

/// How many JPEG pictures went which way.
struct DecodeCounts {
  std::uint64_t own = 0;       ///< our decoder
  std::uint64_t turbo = 0;     ///< libjpeg-turbo: not ordinary, or a doubt inside
  std::uint64_t warnings = 0;  ///< damage that libjpeg-turbo concealed
  // What the decodes cost depends on:
  std::uint64_t indexed = 0;     ///< of `own`: began at the points of a stored index
  std::uint64_t scan_bytes = 0;  ///< compressed bytes read, estimated by rows: down to the region's end, and
                                 ///< with an index from its begin
  std::uint64_t pixels = 0;      ///< of the regions
};

/// Whether ordinary JPEGs go to our own decoder (the default) or all to libjpeg-turbo: the same bits, for
/// tests and benches. For the whole process, from the next open() on.
void use_own_jpeg(bool wanted);

/// Decodes pictures, one after the other: open() the bytes, then decode_region() of what was opened.
/// Each picture's verdict and pixels depend on its bytes alone, not on what was decoded before.
///
/// Mode:    kRgb: gray is repeated, CMYK and YCCK become RGB as Pillow's convert("RGB") does, alpha is
/// dropped.
///          kL: Pillow's convert("L") of the kRgb pixels, (19595 R + 38470 G + 7471 B + 32768) >> 16; gray
///          files as they are.
/// Threads: owner only; keeps its scratch memory.
/// Cost:    no heap allocation once it has seen a picture as large.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  /// Read the header and check what can be checked without decoding. `bytes` must stay until the last
  /// decode_region(); exactly these bytes are read, none after them. Errors: kCorrupt: not a JPEG or PNG,
  /// header refused, over a cap, JPEG without an end marker after its first scan.
  Result<ImageInfo> open(std::span<const std::byte> bytes, const ImageLimits& limits);

  /// The pixels of `region` of the opened picture, the same bits as decoding all and cropping. May be called
  /// again.
  ///
  /// Shape:   out is (region.height, region.width, color_channels(mode)).
  /// Errors:  kCorrupt: what the codec refuses only when it starts (a missing table, a PNG's checksum); the
  ///          same verdict for every region, so a pipeline that drops all pixels still has to decode one.
  ///          kInvalidArgument: region outside, out of another shape, nothing open. kExhausted: no memory.
  ///          `out` is unspecified after an error.
  Status decode_region(const Region& region, ColorMode mode, const MutableImageView& out);

  /// The same pixels in the decoder's own memory, valid until the next call: what a kernel reads once and
  /// throws away. Saves a copy of the region (~10 % of a photo's decode).
  Result<ImageView> decode_view(const Region& region, ColorMode mode);

  /// Use and extend this decode index in the decodes of the opened picture (JPEG only); null: none. It stays
  /// valid until the next open(), which forgets it. The pixels are the same.
  void set_index(FieldIndex* index);

  /// JPEG pictures decoded since the last call.
  DecodeCounts take_counts();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace carya::transforms
