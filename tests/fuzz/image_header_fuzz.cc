// Any bytes through sniff, open and a small region: a picture or kCorrupt, no read outside of the bytes, no
// unbounded memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "transforms/kernels/codec/exif.h"
#include "transforms/kernels/codec/image_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carya::transforms;
  static ImageDecoder decoder;
  const std::vector<std::uint8_t> exact(
      data, data + size);  // its own allocation, so that a read past the end is seen
  const auto bytes = std::as_bytes(std::span(exact));
  const int orientation = tiff_orientation(bytes);
  if (orientation < 1 || orientation > 8) std::abort();
  const auto info = decoder.open(bytes, {.pixels_max = 1 << 18, .scans_max = 16});
  if (!info) {
    if (info.error().code != carya::Code::kCorrupt) std::abort();
    return 0;
  }
  const Region region{info->height / 3, info->width / 3,
                      std::min<std::int64_t>(info->height - info->height / 3, 9),
                      std::min<std::int64_t>(info->width - info->width / 3, 9)};
  std::vector<std::uint8_t> out(static_cast<std::size_t>(region.height * region.width * 3));
  const auto status = decoder.decode_region(region, ColorMode::kRgb,
                                            {out.data(), region.height, region.width, 3, region.width * 3});
  const auto view = decoder.decode_view(region, ColorMode::kRgb);
  if (status.has_value() != view.has_value()) std::abort();
  for (std::int64_t y = 0; view && y < region.height; ++y) {
    if (!std::equal(view->row(y), view->row(y) + view->row_bytes(), out.data() + y * region.width * 3))
      std::abort();
  }
  return 0;
}
