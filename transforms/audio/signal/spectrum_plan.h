#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "transforms/audio/signal/mel_bank.h"

namespace carya::transforms {

/// The most frames that one call of the kernel takes: the lanes of the widest vector.
inline constexpr std::size_t kSpectrumLanesMax = 16;

enum class Logarithm : std::uint8_t {
  kNone,   ///< powers as they are
  kFloor,  ///< ln(max(x, floor))
  kAdd,    ///< ln(x + floor)
};

struct SpectrumOptions {
  std::size_t n_fft = 400;          ///< even, n_fft / 2 a product of 2, 3 and 5
  std::size_t window_length = 400;  ///< at most n_fft
  /// Samples of a frame before the window: (n_fft - window_length) / 2 where it stands in the middle of the transform.
  std::size_t window_at = 0;
  std::size_t hop = 160;
  std::vector<float> window;    ///< window_length values
  bool subtract_mean = false;   ///< of the frame's window_length samples, first
  float preemphasis = 0;        ///< x[i] - preemphasis * x[i - 1], then
  bool magnitude = false;       ///< the square root of powers
  std::optional<MelBank> bank;  ///< none: the bins themselves
  Logarithm logarithm = Logarithm::kNone;
  float floor = 0;
};

/// Whether a real transform of this length can be computed here: even, at most 8192, with factors 2, 3 and 5.
bool is_transform_length(std::int64_t n_fft);

/// The tables of a real Fourier transform with what stands before and behind it. Immutable.
class SpectrumPlan {
 public:
  explicit SpectrumPlan(SpectrumOptions options);

  const SpectrumOptions& options() const { return options_; }
  std::size_t bins() const { return options_.n_fft / 2 + 1; }
  /// The values of a frame: filters, or bins.
  std::size_t width() const { return options_.bank ? options_.bank->size() : bins(); }
  /// float32 values of scratch memory for one call, 64-byte aligned.
  std::size_t work_values() const {
    return kSpectrumLanesMax * (2 * options_.n_fft + 2 * bins() + width() + 8);
  }
  /// The samples that `frames` frames read, with those of lanes that nobody wants.
  std::size_t samples_read(std::size_t frames) const {
    const std::size_t rounded = (frames + kSpectrumLanesMax - 1) / kSpectrumLanesMax * kSpectrumLanesMax;
    return rounded * options_.hop + options_.n_fft + 16;
  }

  /// One pass of the complex transform of n_fft / 2 points: blocks of `length` are cut into `radix` parts.
  struct Pass {
    std::size_t radix;
    std::size_t length;
    std::vector<float> twiddles;  ///< of each place in a part: radix - 1 pairs (real, imaginary)
  };
  const std::vector<Pass>& passes() const { return passes_; }
  /// Where the passes leave each point.
  const std::vector<std::uint16_t>& places() const { return places_; }
  /// exp(-2 pi i k / n_fft) for k in 0..n_fft / 4, as pairs.
  const std::vector<float>& turns() const { return turns_; }

 private:
  SpectrumOptions options_;
  std::vector<Pass> passes_;
  std::vector<std::uint16_t> places_;
  std::vector<float> turns_;
};

}  // namespace carya::transforms
