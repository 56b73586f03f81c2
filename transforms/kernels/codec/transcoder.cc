#include "transforms/kernels/codec/transcoder.h"

#include <algorithm>

namespace carya::transforms {
namespace {

/// The shorter side where the longer one becomes `longest`, rounded to the nearest, at least 1.
std::int64_t scaled(std::int64_t side, std::int64_t longer, std::int64_t longest) {
  return std::max<std::int64_t>(1, (2 * side * longest + longer) / (2 * longer));
}

}  // namespace

Result<std::span<const std::byte>> Transcoder::run(std::span<const std::byte> bytes,
                                                   const TranscodeSpec& spec, const ImageLimits& limits,
                                                   Patience* patience) {
  decoder_.set_patience(patience);
  resizer_.set_patience(patience);
  ASSIGN(const ImageInfo info, decoder_.open(bytes, limits));
  const std::int64_t longer = std::max(info.height, info.width);
  if (info.format == ImageFormat::kJpeg && longer <= spec.side_max) return bytes;
  const bool gray = info.format == ImageFormat::kJpeg && info.channels == 1;
  ASSIGN(ImageView pixels,
         decoder_.decode_view({0, 0, info.height, info.width}, gray ? ColorMode::kL : ColorMode::kRgb));
  if (longer > spec.side_max) {
    const ResizeSpec size{.out_height = scaled(info.height, longer, spec.side_max),
                          .out_width = scaled(info.width, longer, spec.side_max)};
    const std::int64_t stride = size.out_width * pixels.channels;
    if (!pixels_.reserve(static_cast<std::size_t>(size.out_height * stride)))
      return fail(Code::kExhausted, "no memory for the smaller picture");
    const MutableImageView smaller{pixels_.data(), size.out_height, size.out_width, pixels.channels, stride};
    resizer_.resize(pixels, size, smaller);
    if (patience != nullptr && patience->given_up()) return fail(Code::kTimeout, "given up");
    pixels = smaller;
  }
  return writer_.write(pixels, spec.quality, info.exif_orientation);
}

}  // namespace carya::transforms
