#include "transforms/audio/signal/spectrum_plan.h"

#include <numbers>

#include "base/det_math.h"
#include "base/error.h"

namespace carya::transforms {
namespace {

void add_turn(std::vector<float>& to, std::size_t k, std::size_t n) {
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n);
  to.push_back(static_cast<float>(det_cos(angle)));
  to.push_back(static_cast<float>(-det_sin(angle)));
}

// 4 first: it does the work of two passes of 2 in one.
std::size_t next_radix(std::size_t length) {
  for (const std::size_t radix : {4, 2, 3, 5})
    if (length % radix == 0) return radix;
  return 0;
}

}  // namespace

bool is_transform_length(std::int64_t n_fft) {
  if (n_fft < 4 || n_fft > 8192 || n_fft % 2 != 0) return false;
  std::int64_t rest = n_fft;
  for (const std::int64_t factor : {2, 3, 5})
    while (rest % factor == 0) rest /= factor;
  return rest == 1;
}

SpectrumPlan::SpectrumPlan(SpectrumOptions options) : options_(std::move(options)) {
  CHECK(is_transform_length(static_cast<std::int64_t>(options_.n_fft)));
  CHECK(options_.window.size() == options_.window_length);
  CHECK(options_.window_at + options_.window_length <= options_.n_fft);
  const std::size_t half = options_.n_fft / 2;
  for (std::size_t length = half; length > 1; length /= passes_.back().radix) {
    Pass pass{.radix = next_radix(length), .length = length, .twiddles = {}};
    for (std::size_t j = 0; j < length / pass.radix; ++j)
      for (std::size_t k = 1; k < pass.radix; ++k) add_turn(pass.twiddles, j * k, length);
    passes_.push_back(std::move(pass));
  }
  for (std::size_t k = 0; k < half; ++k) {
    std::size_t place = 0;
    std::size_t rest = k;
    for (const Pass& pass : passes_) {
      place += rest % pass.radix * (pass.length / pass.radix);
      rest /= pass.radix;
    }
    places_.push_back(static_cast<std::uint16_t>(place));
  }
  for (std::size_t k = 0; k <= half / 2; ++k) add_turn(turns_, k, options_.n_fft);
}

}  // namespace carya::transforms
