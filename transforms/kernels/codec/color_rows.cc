#include "transforms/kernels/codec/color_rows.h"

#include <bit>
#include <cstring>

namespace carya::transforms {
namespace {

// Product of two bytes over 255, rounded.
unsigned product255(unsigned a, unsigned b) {
  const unsigned t = a * b + 128;
  return ((t >> 8) + t) >> 8;
}

// `ink` and `black` as stored: inverted, so 255 is no ink.
std::uint8_t ink_to_light(unsigned ink, unsigned black) {
  return static_cast<std::uint8_t>(black - product255(255 - ink, black));
}

static_assert(std::endian::native == std::endian::little);

// Two pixels with each store of 8 bytes, of which the next one writes over the last two.
void gray_to_rgb(const std::uint8_t* in, std::int64_t width, std::uint8_t* out) {
  std::int64_t x = 0;
  for (; x + 3 <= width; x += 2, out += 6) {
    const std::uint64_t two = in[x] * std::uint64_t{0x010101} | in[x + 1] * (std::uint64_t{0x010101} << 24);
    std::memcpy(out, &two, sizeof(two));
  }
  for (; x < width; ++x, out += 3) out[0] = out[1] = out[2] = in[x];
}

}  // namespace

void luma_row(const std::uint8_t* in, int step, std::int64_t width, std::uint8_t* out) {
  for (std::int64_t x = 0; x < width; ++x, in += step) out[x] = luma(in[0], in[1], in[2]);
}

void convert_row(const std::uint8_t* in, int in_channels, ColorMode mode, std::int64_t width,
                 std::uint8_t* out) {
  const bool rgb = mode == ColorMode::kRgb;
  if (in_channels == (rgb ? 3 : 1)) {
    std::memcpy(out, in, static_cast<std::size_t>(width * in_channels));
  } else if (in_channels == 3) {
    luma_row(in, 3, width, out);
  } else if (in_channels == 1) {
    gray_to_rgb(in, width, out);
  } else {
    for (std::int64_t x = 0; x < width; ++x, in += 4) {
      const std::uint8_t r = ink_to_light(in[0], in[3]);
      const std::uint8_t g = ink_to_light(in[1], in[3]);
      const std::uint8_t b = ink_to_light(in[2], in[3]);
      if (rgb) {
        out[3 * x] = r;
        out[3 * x + 1] = g;
        out[3 * x + 2] = b;
      } else {
        out[x] = luma(r, g, b);
      }
    }
  }
}

}  // namespace carya::transforms
