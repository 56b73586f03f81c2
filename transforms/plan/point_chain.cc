#include "transforms/plan/point_chain.h"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "transforms/kernels/store/half.h"

namespace carya::transforms {
namespace {

// How values lie: channel-interleaved rows or planes. Any tensor is (rows, columns, channels) for a point op.
struct Extent {
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t channels = 1;
};

Extent extent_of(const std::vector<std::int64_t>& shape, Layout layout) {
  if (shape.size() == 3 && layout == Layout::kChw) return {shape[1], shape[2], shape[0]};
  Extent extent;
  if (shape.empty()) return extent;
  extent.channels = shape.back();
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) extent.height *= shape[i];
  if (shape.size() == 3) {
    extent.height = shape[0];
    extent.width = shape[1];
  }
  return extent;
}

// Distances, in values, of the next row, column and channel.
struct Strides {
  std::int64_t row, column, channel;
};

Strides strides_of(const Extent& extent, Layout layout) {
  if (layout == Layout::kChw) return {extent.width, 1, extent.height * extent.width};
  return {extent.width * extent.channels, extent.channels, 1};
}

template <typename From, typename To, typename Compute>
void for_each_value(const PointStep& step, const Extent& extent, const std::byte* in, std::byte* out,
                    Compute compute) {
  const Strides from = strides_of(extent, step.layout_in);
  const Strides to = strides_of(extent, step.layout_out);
  for (std::int64_t y = 0; y < extent.height; ++y)
    for (std::int64_t x = 0; x < extent.width; ++x)
      for (std::int64_t c = 0; c < extent.channels; ++c) {
        From value;
        std::memcpy(&value, in + (y * from.row + x * from.column + c * from.channel) * sizeof(From),
                    sizeof value);
        const To result = compute(value, static_cast<std::size_t>(c));
        std::memcpy(out + (y * to.row + x * to.column + c * to.channel) * sizeof(To), &result, sizeof result);
      }
}

template <typename From>
float value_at(const std::byte* in, std::int64_t i) {
  From value;
  std::memcpy(&value, in + i * static_cast<std::int64_t>(sizeof(From)), sizeof value);
  return static_cast<float>(value);
}

void store_at(std::byte* out, std::int64_t i, float value) {
  std::memcpy(out + i * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
}

// Values that stay where they are. Each has the factor and offset of its place in a block, a multiple of all numbers of
// channels: compilers make vectors of that.
template <typename From>
void affine_in_place(const std::byte* __restrict in, std::int64_t count, std::span<const float> a,
                     std::span<const float> b, std::byte* __restrict out) {
  constexpr std::int64_t kBlock = 48;
  CHECK(kBlock % static_cast<std::int64_t>(a.size()) == 0 && a.size() == b.size());
  std::array<float, kBlock> factors;
  std::array<float, kBlock> offsets;
  for (std::size_t k = 0; k < kBlock; ++k) {
    factors[k] = a[k % a.size()];
    offsets[k] = b[k % b.size()];
  }
  const auto each = [&](std::int64_t i, std::int64_t k) {
    const float product = value_at<From>(in, i + k) * factors[static_cast<std::size_t>(k)];
    store_at(out, i + k, product + offsets[static_cast<std::size_t>(k)]);
  };
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock)
    for (std::int64_t k = 0; k < kBlock; ++k) each(i, k);
  for (std::int64_t k = 0; i + k < count; ++k) each(i, k);
}

// Interleaved values into planes.
template <typename From, std::size_t kChannels>
void affine_to_planes(const std::byte* __restrict in, std::int64_t pixels, std::span<const float> a,
                      std::span<const float> b, std::byte* __restrict out) {
  std::array<float, kChannels> factors;
  std::array<float, kChannels> offsets;
  for (std::size_t c = 0; c < kChannels; ++c) {
    factors[c] = a[c % a.size()];
    offsets[c] = b[c % b.size()];
  }
  constexpr auto kStride = static_cast<std::int64_t>(kChannels);
  for (std::int64_t i = 0; i < pixels; ++i)
    for (std::int64_t c = 0; c < kStride; ++c) {
      const float product = value_at<From>(in, i * kStride + c) * factors[static_cast<std::size_t>(c)];
      store_at(out, c * pixels + i, product + offsets[static_cast<std::size_t>(c)]);
    }
}

template <typename From>
void affine(const PointStep& step, const Extent& extent, const std::byte* in, std::byte* out) {
  const bool single = step.a.size() == 1;
  const std::int64_t pixels = extent.height * extent.width;
  if (step.layout_in == step.layout_out && (single || step.layout_in == Layout::kHwc))
    return affine_in_place<From>(in, pixels * extent.channels, step.a, step.b, out);
  if (step.layout_in == Layout::kHwc && extent.channels == 3)
    return affine_to_planes<From, 3>(in, pixels, step.a, step.b, out);
  for_each_value<From, float>(step, extent, in, out, [&](From x, std::size_t c) {
    const float product = static_cast<float>(x) * step.a[single ? 0 : c];
    return product + step.b[single ? 0 : c];
  });
}

std::uint8_t float_to_uint8(float x, bool scale) {
  const float value = scale ? x * 255.999F : x;
  if (!(value > 0.0F)) return 0;  // NaN too
  return value >= 255.0F ? 255 : static_cast<std::uint8_t>(value);
}

template <typename Word>
void move_values(const PointStep& step, const Extent& extent, const std::byte* in, std::byte* out) {
  for_each_value<Word, Word>(step, extent, in, out, [](Word x, std::size_t) { return x; });
}

}  // namespace

std::vector<std::int64_t> shape_after(const PointStep& step, const std::vector<std::int64_t>& shape) {
  if (step.layout_in == step.layout_out || shape.size() != 3) return shape;
  if (step.layout_out == Layout::kChw) return {shape[2], shape[0], shape[1]};
  return {shape[1], shape[2], shape[0]};
}

void apply_point_step(const PointStep& step, const std::vector<std::int64_t>& shape, const std::byte* in,
                      std::byte* out) {
  const Extent extent = extent_of(shape, step.layout_in);
  switch (step.math) {
    case PointStep::Math::kAffine:
      return step.from == DType::kUint8 ? affine<std::uint8_t>(step, extent, in, out)
                                        : affine<float>(step, extent, in, out);
    case PointStep::Math::kCast:
      if (is_half(step.to))
        return to_halves(step.to, in, extent.height * extent.width * extent.channels, out);
      if (step.to == DType::kInt64)
        return for_each_value<std::uint8_t, std::int64_t>(
            step, extent, in, out, [](std::uint8_t x, std::size_t) { return std::int64_t{x}; });
      return for_each_value<float, std::uint8_t>(
          step, extent, in, out, [&](float x, std::size_t) { return float_to_uint8(x, step.scale); });
    case PointStep::Math::kNone:
      switch (dtype_bytes(step.from)) {
        case 1:
          return move_values<std::uint8_t>(step, extent, in, out);
        case 2:
          return move_values<std::uint16_t>(step, extent, in, out);
        case 4:
          return move_values<std::uint32_t>(step, extent, in, out);
        default:
          return move_values<std::uint64_t>(step, extent, in, out);
      }
  }
}

PointChain::PointChain(std::vector<PointStep> steps, DType dtype, std::vector<std::int64_t> shape)
    : steps_(std::move(steps)) {
  StoreSpec spec;
  bool one_pass = dtype == DType::kUint8;
  if (shape.size() == 3) {
    spec.channels = shape[2];
    one_pass = one_pass && (spec.channels == 1 || spec.channels == 3 || spec.channels == 4);
    if (!steps_.empty()) one_pass = one_pass && steps_.front().layout_in == Layout::kHwc;
  } else {  // one row of values, as long as nothing is per channel
    spec.channels = 1;
    for (const PointStep& step : steps_) one_pass = one_pass && step.a.size() <= 1;
  }
  for (const PointStep& step : steps_) {
    shapes_.push_back(shape);
    shape = shape_after(step, shape);
    spec.layout = step.layout_out;
    if (step.math == PointStep::Math::kNone) continue;
    if (is_half(step.to) && spec.to_float) {
      halves_ = step.to;
      continue;
    }
    // What is computed on levels that were only cast rounds as if the cast were not there.
    const bool only_cast = spec.affine == Affine{};
    one_pass = one_pass && step.math == PointStep::Math::kAffine && (!spec.to_float || only_cast);
    if (!one_pass) continue;
    spec.to_float = true;
    for (std::size_t c = 0; c < 4; ++c) {
      spec.affine.a[c] = step.a[std::min(c, step.a.size() - 1)];
      spec.affine.b[c] = step.b[std::min(c, step.b.size() - 1)];
    }
  }
  if (one_pass) store_ = spec;
}

Status PointChain::run(const std::vector<std::int64_t>& shape, const std::byte* in, std::byte* out,
                       RowBuffer (&work)[2]) const {
  std::size_t count = 1;
  for (const std::int64_t dimension : shape) count *= static_cast<std::size_t>(dimension);
  CHECK(!steps_.empty() &&
        shape == shapes_.front());  // nothing to do is a copy; what is run has known shapes
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    std::byte* to = out;
    if (i + 1 < steps_.size()) {
      if (!work[i % 2].reserve(count * dtype_bytes(steps_[i].to)))
        return fail(Code::kExhausted, fmt::format("no memory for {} values between two ops", count));
      to = reinterpret_cast<std::byte*>(work[i % 2].data());
    }
    apply_point_step(steps_[i], shapes_[i], in, to);
    in = to;
  }
  return {};
}

bool worth_streaming(std::int64_t bytes) {
  return bytes >= 32'768;
}

void copy_out(const std::byte* in, std::size_t bytes, std::byte* out) {
  const auto size = static_cast<std::int64_t>(bytes);
  if (!worth_streaming(size)) {
    std::memcpy(out, in, bytes);
    return;
  }
  const ImageView row{reinterpret_cast<const std::uint8_t*>(in), 1, size, 1, size};
  store_image(row, {.height = 1, .width = size, .channels = 1, .stream = true}, out);
}

}  // namespace carya::transforms
