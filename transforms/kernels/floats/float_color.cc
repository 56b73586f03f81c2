#include "transforms/kernels/floats/float_color.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "transforms/kernels/color/color_mix.h"
#include "transforms/kernels/image/pad.h"

namespace carya::transforms {
namespace {

float luma_of(const float* pixel, std::int64_t channels) {
  if (channels == 1) return pixel[0];
  return pixel[0] * 0.299F + pixel[1] * 0.587F + pixel[2] * 0.114F;
}

float blend(float from, float to, float factor) {
  return std::clamp(from + (to - from) * factor, 0.0F, 1.0F);
}

void check_same(const FloatView& in, const FloatView& out) {
  CHECK(in.height == out.height && in.width == out.width && in.channels == out.channels);
}

// The largest and the smallest value of a pixel change channels, the middle one moves between them. Hue is
// in sixths of a turn from red, as in shift_hue(). Without branches, so that compilers make vectors of it.
void turn_pixel(const float* in, float shift, float* out) {
  const float red = in[0], green = in[1], blue = in[2];
  const float high = std::max(std::max(red, green), blue);
  const float low = std::min(std::min(red, green), blue);
  const float range = high - low;
  const bool from_red = red == high, from_green = green == high;
  const float apart = from_red ? green - blue : (from_green ? blue - red : red - green);
  const float begin = from_red ? 0.0F : (from_green ? 2.0F : 4.0F);
  float hue = begin + apart / range + shift;
  hue = hue < 0.0F ? hue + 6.0F : hue;
  hue = hue >= 6.0F ? hue - 6.0F : hue;
  const int sixth = std::clamp(static_cast<int>(range > 0.0F ? hue : 0.0F), 0, 5);
  const float whole = static_cast<float>(sixth);
  const float part = hue - whole;
  const float middle = low + range * ((sixth & 1) == 0 ? part : 1.0F - part);
  const float outer = ((whole < 2.0F) | (whole > 3.0F)) ? middle : low;
  const float turned_red = ((whole < 1.0F) | (whole > 4.0F)) ? high : outer;
  const float side = ((whole < 1.0F) | (whole > 2.0F)) ? middle : high;
  const float turned_green = whole > 3.0F ? low : side;
  const float other_side = ((whole < 3.0F) | (whole > 4.0F)) ? middle : high;
  const float turned_blue = whole < 2.0F ? low : other_side;
  const bool is_gray = range <= 0.0F;
  out[0] = is_gray ? red : turned_red;
  out[1] = is_gray ? green : turned_green;
  out[2] = is_gray ? blue : turned_blue;
}

// sums[i] += (one[i] + other[i]) * weight k of the taps.
void add_pair(const float* one, const float* other, const BlurTaps& taps, int k, std::int64_t count,
              float* sums) {
  constexpr float kUnit = 1.0F / (1 << BlurTaps::kBits);
  const float weight = static_cast<float>(taps.weights[static_cast<std::size_t>(k)]) * kUnit;
  for (std::int64_t i = 0; i < count; ++i) sums[i] += (one[i] + other[i]) * weight;
}

}  // namespace

void invert(const FloatView& in, const MutableFloatView& out) {
  check_same(in, out);
  const std::int64_t count = in.height * in.width * in.channels;
  for (std::int64_t i = 0; i < count; ++i) out.data[i] = 1.0F - in.data[i];
}

void grayscale(const FloatView& in, const MutableFloatView& out) {
  CHECK(in.height == out.height && in.width == out.width);
  CHECK((in.channels == 1 || in.channels == 3) && (out.channels == 1 || out.channels == 3));
  for (std::int64_t i = 0; i < in.height * in.width; ++i)
    std::fill_n(out.data + i * out.channels, out.channels, luma_of(in.data + i * in.channels, in.channels));
}

float mean_luma(const FloatView& in, Patience* patience) {
  CHECK(in.channels == 1 || in.channels == 3);
  double sum = 0.0;
  for (std::int64_t y = 0; y < in.height && goes_on(patience, 4 * in.width * in.channels); ++y)
    for (std::int64_t x = 0; x < in.width; ++x)
      sum += static_cast<double>(luma_of(in.row(y) + x * in.channels, in.channels));
  return static_cast<float>(sum / static_cast<double>(in.height * in.width));
}

void blend_level(const FloatView& in, float level, float factor, const MutableFloatView& out) {
  check_same(in, out);
  const std::int64_t count = in.height * in.width * in.channels;
  for (std::int64_t i = 0; i < count; ++i) out.data[i] = blend(level, in.data[i], factor);
}

void saturate(const FloatView& in, float factor, const MutableFloatView& out) {
  check_same(in, out);
  CHECK(in.channels == 3);
  for (std::int64_t i = 0; i < in.height * in.width; ++i) {
    const float* from = in.data + 3 * i;
    const float gray = luma_of(from, 3);
    for (int c = 0; c < 3; ++c) out.data[3 * i + c] = blend(gray, from[c], factor);
  }
}

void shift_hue(const FloatView& in, std::int32_t shift, const MutableFloatView& out) {
  check_same(in, out);
  CHECK(in.channels == 3 && shift >= -kHueTurn / 2 && shift <= kHueTurn / 2);
  const float sixths = static_cast<float>(shift) * (6.0F / kHueTurn);
  for (std::int64_t i = 0; i < in.height * in.width; ++i)
    turn_pixel(in.data + 3 * i, sixths, out.data + 3 * i);
}

void blur(const FloatView& in, const BlurTaps& along_rows, const BlurTaps& along_columns,
          const MutableFloatView& out, Patience* patience) {
  check_same(in, out);
  const std::int64_t values = in.width * in.channels;
  const std::int64_t beside = along_rows.radius * in.channels;
  std::vector<float> line(static_cast<std::size_t>(values + 2 * beside));  // with what is mirrored beside it
  float* const middle = line.data() + beside;
  for (std::int64_t y = 0; y < in.height; ++y) {
    std::ranges::fill(line, 0.0F);
    for (int k = 0; k <= along_columns.radius; ++k)
      add_pair(in.row(reflected(y - k, in.height)), in.row(reflected(y + k, in.height)), along_columns, k,
               values, middle);
    for (std::int64_t x = 1; x <= along_rows.radius; ++x) {
      std::copy_n(middle + reflected(-x, in.width) * in.channels, in.channels, middle - x * in.channels);
      const std::int64_t right = in.width - 1 + x;
      std::copy_n(middle + reflected(right, in.width) * in.channels, in.channels,
                  middle + right * in.channels);
    }
    std::fill_n(out.row(y), values, 0.0F);
    for (int k = 0; k <= along_rows.radius; ++k)
      add_pair(middle - k * in.channels, middle + k * in.channels, along_rows, k, values, out.row(y));
    if (!goes_on(patience, 4 * values * (2 + along_rows.radius + along_columns.radius))) return;
  }
}

}  // namespace carya::transforms
