#include "transforms/kernels/color/color_values.h"

#include <cstring>

#include "base/error.h"
#include "transforms/kernels/color/color_simd.h"

namespace carya::transforms {
namespace {

template <typename Change>
void each_value(const ImageView& in, const MutableImageView& out, Change change) {
  CHECK(in.height == out.height && in.width == out.width && in.channels == out.channels);
  const std::int64_t count = in.row_bytes();  // read once: a byte written could be one of `in`'s own
  for (std::int64_t y = 0; y < in.height; ++y) {
    const std::uint8_t* __restrict from = in.row(y);
    std::uint8_t* __restrict to = out.row(y);
    for (std::int64_t i = 0; i < count; ++i) to[i] = change(from[i]);
  }
}

}  // namespace

void invert_values(const ImageView& in, const MutableImageView& out) {
  each_value(in, out, [](std::uint8_t x) { return static_cast<std::uint8_t>(255 - x); });
}

void solarize_values(const ImageView& in, int threshold, const MutableImageView& out) {
  each_value(in, out,
             [=](std::uint8_t x) { return static_cast<std::uint8_t>(x >= threshold ? 255 - x : x); });
}

void posterize_values(const ImageView& in, int mask, const MutableImageView& out) {
  each_value(in, out, [=](std::uint8_t x) { return static_cast<std::uint8_t>(x & mask); });
}

void erase(const ImageView& in, const Region& region, const std::array<std::uint8_t, 4>& fill,
           const MutableImageView& out, Patience* patience) {
  CHECK(region.inside(in.height, in.width));
  CHECK(in.height == out.height && in.width == out.width && in.channels == out.channels);
  for (std::int64_t y = 0; y < in.height && goes_on(patience, in.row_bytes()); ++y) {
    std::uint8_t* to = out.row(y);
    std::memcpy(to, in.row(y), static_cast<std::size_t>(in.row_bytes()));
    if (y < region.top || y >= region.top + region.height) continue;
    to += region.left * in.channels;
    for (std::int64_t x = 0; x < region.width; ++x, to += in.channels)
      std::memcpy(to, fill.data(), static_cast<std::size_t>(in.channels));
  }
}

void blend_level(const ImageView& in, int level, float factor, const MutableImageView& out) {
  CHECK(in.height == out.height && in.width == out.width && in.channels == out.channels);
  for (std::int64_t y = 0; y < in.height; ++y)
    blend_row(in.row(y), in.row_bytes(), level, factor, out.row(y));
}

}  // namespace carya::transforms
