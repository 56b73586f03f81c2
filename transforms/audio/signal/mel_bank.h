#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace carya::transforms {

/// How pitch is measured, and what the triangles of a bank look like.
enum class MelScale : std::uint8_t {
  kKaldi,   ///< 1127 ln(1 + f / 700); triangles over mel, the bin at half the rate left out (Kaldi)
  kHtk,     ///< 2595 log10(1 + f / 700); triangles over Hz of height 1 (torchaudio's default)
  kSlaney,  ///< linear below 1 kHz, logarithmic above; triangles over Hz of area 1 (librosa, Whisper)
};

/// Triangles over the bins of a power spectrum. Each one reads a run of bins.
struct MelBank {
  std::vector<std::size_t> first;   ///< of each filter: its first bin
  std::vector<std::size_t> count;   ///< of each filter: its bins
  std::vector<std::size_t> offset;  ///< of each filter: its first weight
  std::vector<float> weights;

  std::size_t size() const { return first.size(); }
};

/// Units: Hz. 0 <= low < high <= rate / 2. A filter that is narrower than a bin may have no weight.
MelBank make_mel_bank(MelScale scale, std::size_t filters, std::size_t n_fft, double rate, double low,
                      double high);

}  // namespace carya::transforms
