#include "transforms/kernels/resize/resize_taps.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "transforms/kernels/resize/triangle_taps.h"

namespace carya::transforms {
namespace {

// Round to nearest for values above -2^20, without a call into libm.
std::int64_t round_up_half(double x) {
  return static_cast<std::int64_t>(x + 1048576.5) - 1048576;
}

}  // namespace

bool ResizeTaps::update(std::int64_t in_size, std::int64_t out_size, Interpolation interpolation,
                        bool antialias) {
  CHECK(in_size > 0 && out_size > 0 && in_size <= INT32_MAX && out_size <= INT32_MAX);
  const ResizeFilter filter{in_size, out_size, interpolation, antialias};
  if (computed_ && filter == filter_) return false;
  computed_ = false;
  filter_ = filter;
  compute();
  computed_ = true;
  return true;
}

void ResizeTaps::compute() {
  const auto& [in_size, out_size, interpolation, antialias] = filter_;
  const std::int64_t window_max = resize_window_max(filter_);
  const auto outputs = static_cast<std::size_t>(out_size);
  weights_.resize(static_cast<std::size_t>(window_max));
  quantized_.resize(static_cast<std::size_t>(window_max));
  start_.resize(outputs);
  count_.resize(outputs);
  // A window of support s holds at most 2 s + 1 inputs, two less than there is room for.
  wide_ = window_max - 2 > kNarrowTaps;
  wide_stride_ = window_max;
  if (wide_) {
    wide_weights_.resize(outputs * static_cast<std::size_t>(window_max));
  } else {
    narrow_.resize(outputs * kNarrowTaps);
  }
  taps_max_ = 1;
  if (antialias && !wide_ && interpolation == Interpolation::kBilinear) {
    // What the loop below gives, without a branch that depends on the data and several outputs at a time.
    const double scale = static_cast<double>(in_size) / static_cast<double>(out_size);
    const double widened = std::max(1.0, scale);
    taps_max_ = triangle_taps({in_size, out_size, scale, widened, 1.0 / widened},
                              {start_.data(), count_.data(), narrow_.data()});
    return;
  }
  for (std::int64_t i = 0; i < out_size; ++i) {
    window_ = resize_window(filter_, i, weights_.data());
    quantize(i);
  }
}

void ResizeTaps::quantize(std::int64_t i) {
  const std::int64_t one = std::int64_t{1} << (wide_ ? kWideBits : kNarrowBits);
  const auto unit = static_cast<double>(one);
  const double* weights = weights_.data();
  std::int64_t sum = 0;
  std::int64_t heaviest = 0;
  std::int64_t begin = window_.count;  // of the weights that are not zero
  std::int64_t end = 0;
  for (std::int64_t k = 0; k < window_.count; ++k) {
    const std::int64_t q = round_up_half(weights[k] * unit);
    quantized_[static_cast<std::size_t>(k)] = static_cast<std::int32_t>(q);
    sum += q;
    if (q != 0) {
      begin = std::min(begin, k);
      end = k + 1;
    }
    if (weights[k] > weights[heaviest]) heaviest = k;
  }
  // What rounding took or gave goes to the heaviest weight.
  quantized_[static_cast<std::size_t>(heaviest)] += static_cast<std::int32_t>(one - sum);
  begin = std::min(begin, heaviest);
  end = std::max(end, heaviest + 1);
  const auto at = static_cast<std::size_t>(i);
  start_[at] = static_cast<std::int32_t>(window_.start + begin);
  count_[at] = static_cast<std::int32_t>(end - begin);
  taps_max_ = std::max(taps_max_, count_[at]);
  if (wide_) {
    std::copy(quantized_.begin() + begin, quantized_.begin() + end, wide_weights_.begin() + i * wide_stride_);
    return;
  }
  CHECK(end - begin <= kNarrowTaps);
  std::int16_t* out = narrow_.data() + i * kNarrowTaps;
  std::memset(out, 0, kNarrowTaps * sizeof(*out));
  for (std::int64_t k = begin; k < end; ++k) {
    out[k - begin] = static_cast<std::int16_t>(quantized_[static_cast<std::size_t>(k)]);
  }
}

}  // namespace carya::transforms
