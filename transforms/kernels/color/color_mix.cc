#include "transforms/kernels/color/color_mix.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "transforms/kernels/color/color_simd.h"

namespace carya::transforms {
namespace {

// Each value three times. `gray` may be the last third of `out`: a byte is read before it is written.
void triple(const std::uint8_t* gray, std::int64_t width, std::uint8_t* out) {
  for (std::int64_t x = 0; x < width; ++x) {
    const std::uint8_t value = gray[x];
    out[3 * x] = out[3 * x + 1] = out[3 * x + 2] = value;
  }
}

constexpr std::int64_t kBand = 1024;  // pixels whose lumas are summed at a time on the stack

std::int64_t sum_of(const std::uint8_t* values, std::int64_t count) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += values[i];
  return sum;
}

// change(in, width, out) for each row of two pictures with 3 channels.
template <typename Change>
void each_row(const ImageView& in, const MutableImageView& out, Change change) {
  CHECK(in.height == out.height && in.width == out.width && in.channels == 3 && out.channels == 3);
  for (std::int64_t y = 0; y < in.height; ++y) change(in.row(y), in.width, out.row(y));
}

}  // namespace

void grayscale(const ImageView& in, const MutableImageView& out) {
  CHECK(in.height == out.height && in.width == out.width);
  CHECK((in.channels == 1 || in.channels == 3) && (out.channels == 1 || out.channels == 3));
  for (std::int64_t y = 0; y < in.height; ++y) {
    std::uint8_t* to = out.row(y);
    std::uint8_t* gray = out.channels == 3 ? to + 2 * in.width : to;
    if (in.channels == 3)
      gray_row(in.row(y), in.width, gray);
    else
      std::memcpy(gray, in.row(y), static_cast<std::size_t>(in.width));
    if (out.channels == 3) triple(gray, in.width, to);
  }
}

int mean_luma(const ImageView& in, Patience* patience) {
  CHECK(in.channels == 1 || in.channels == 3);
  std::int64_t sum = 0;
  std::uint8_t band[kBand];
  for (std::int64_t y = 0; y < in.height && goes_on(patience, in.row_bytes()); ++y) {
    if (in.channels == 1) {
      sum += sum_of(in.row(y), in.width);
      continue;
    }
    for (std::int64_t x = 0; x < in.width; x += kBand) {
      const std::int64_t count = std::min(kBand, in.width - x);
      gray_row(in.row(y) + 3 * x, count, band);
      sum += sum_of(band, count);
    }
  }
  const std::int64_t pixels = in.height * in.width;
  return static_cast<int>((2 * sum + pixels) / (2 * pixels));
}

void saturate(const ImageView& in, float factor, const MutableImageView& out) {
  each_row(in, out, [=](const std::uint8_t* from, std::int64_t width, std::uint8_t* to) {
    saturate_row(from, width, factor, to);
  });
}

void shift_hue(const ImageView& in, std::int32_t shift, const MutableImageView& out) {
  CHECK(shift >= -kHueTurn / 2 && shift <= kHueTurn / 2);
  each_row(in, out, [=](const std::uint8_t* from, std::int64_t width, std::uint8_t* to) {
    hue_row(from, width, shift, to);
  });
}

}  // namespace carya::transforms
