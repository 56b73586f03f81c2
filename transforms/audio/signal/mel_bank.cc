#include "transforms/audio/signal/mel_bank.h"

#include <algorithm>

#include "base/det_math.h"

namespace carya::transforms {
namespace {

constexpr double kSlaneyStep = 200.0 / 3.0;  // Hz per mel below 1 kHz
constexpr double kSlaneyBreak = 1000.0;      // Hz

double slaney_log_step() {
  return det_log(6.4) / 27.0;
}

double to_mel(MelScale scale, double hz) {
  if (scale != MelScale::kSlaney) return 1127.0 * det_log(1.0 + hz / 700.0);  // HTK's is a multiple of it
  if (hz < kSlaneyBreak) return hz / kSlaneyStep;
  return kSlaneyBreak / kSlaneyStep + det_log(hz / kSlaneyBreak) / slaney_log_step();
}

double to_hz(MelScale scale, double mel) {
  if (scale != MelScale::kSlaney) return 700.0 * (det_exp(mel / 1127.0) - 1.0);
  const double at_break = kSlaneyBreak / kSlaneyStep;
  if (mel < at_break) return mel * kSlaneyStep;
  return kSlaneyBreak * det_exp(slaney_log_step() * (mel - at_break));
}

}  // namespace

MelBank make_mel_bank(MelScale scale, std::size_t filters, std::size_t n_fft, double rate, double low,
                      double high) {
  const std::size_t bins = n_fft / 2 + (scale == MelScale::kKaldi ? 0 : 1);
  const double mel_low = to_mel(scale, low);
  const double step = (to_mel(scale, high) - mel_low) / static_cast<double>(filters + 1);
  const bool over_mel = scale == MelScale::kKaldi;
  const auto edge = [&](std::size_t i) {
    const double mel = mel_low + static_cast<double>(i) * step;
    return over_mel ? mel : to_hz(scale, mel);
  };
  MelBank bank;
  for (std::size_t f = 0; f < filters; ++f) {
    const double left = edge(f), center = edge(f + 1), right = edge(f + 2);
    const double height = scale == MelScale::kSlaney ? 2.0 / (right - left) : 1.0;
    std::size_t first = 0;
    std::size_t count = 0;
    bank.offset.push_back(bank.weights.size());
    for (std::size_t k = 0; k < bins; ++k) {
      const double hz = static_cast<double>(k) * rate / static_cast<double>(n_fft);
      const double at = over_mel ? to_mel(scale, hz) : hz;
      const double weight = std::min((at - left) / (center - left), (right - at) / (right - center));
      if (weight <= 0.0) continue;
      if (count == 0) first = k;
      ++count;
      bank.weights.push_back(static_cast<float>(weight * height));
    }
    bank.first.push_back(first);
    bank.count.push_back(count);
  }
  return bank;
}

}  // namespace carya::transforms
