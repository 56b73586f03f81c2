#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace carya::transforms {

/// The least and the largest sampling rate of a file, in Hz. Files with another rate are kCorrupt: rates of a few Hz and
/// of many MHz are those of damaged or hostile headers.
inline constexpr std::int64_t kAudioRateMin = 1'000;
inline constexpr std::int64_t kAudioRateMax = 768'000;
/// The most channels of a file.
inline constexpr std::int64_t kAudioChannelsMax = 64;
/// The most values (frames times channels) that one read may give: 256 MiB of float32, 69 minutes of 16 kHz mono.
inline constexpr std::int64_t kAudioValuesMax = std::int64_t{1} << 26;
/// The most frames (samples of each channel) of a file: 12 hours at 96 kHz. Beyond that its length is not believed.
inline constexpr std::int64_t kAudioFramesMax = std::int64_t{1} << 32;

/// What a file says of itself.
struct AudioInfo {
  std::int64_t rate = 0;      ///< Hz, in kAudioRateMin..kAudioRateMax
  std::int64_t channels = 0;  ///< 1..kAudioChannelsMax
  std::int64_t frames = 0;    ///< 0..kAudioFramesMax
};

/// Reads one audio file that lies in memory. One implementation for each format; any part of the file can be read
/// without what lies before it.
/// Threads: owner only. Libraries take memory from the heap for each file.
class AudioReader {
 public:
  virtual ~AudioReader() = default;
  virtual const AudioInfo& info() const = 0;
  /// Decode the frames [begin, begin + count), which lie inside of the file, in float32, interleaved, full scale at 1.
  ///
  /// Shape:  out has count x channels values.
  /// Errors: kCorrupt (damage in this part of the file, or fewer frames than the file promised); kExhausted.
  virtual Status read(std::int64_t begin, std::int64_t count, float* out) = 0;
};

using AudioBytes = std::span<const std::byte>;

/// Open a file by its content: WAV (PCM of 8, 16, 24, 32 bits, float of 32, 64 bits, A-law, mu-law), FLAC, MP3, Ogg
/// Vorbis, Ogg Opus. `bytes` outlive the reader.
///
/// Errors: kCorrupt (no such format, or a header with values that no audio has); kExhausted (a library had no memory);
///         kUnsupported (the library of this format is not on this machine).
Result<std::unique_ptr<AudioReader>> open_audio(AudioBytes bytes);

/// Check what a file says of itself. Errors: kCorrupt with the value and the limits.
Status check_audio_info(const char* format, const AudioInfo& info);

/// The error of a file that ends early: kCorrupt "FLAC: 100 frames of 200 are there".
std::unexpected<Error> audio_ends_early(const char* format, std::int64_t at, std::int64_t frames);

}  // namespace carya::transforms
