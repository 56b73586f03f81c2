#include "transforms/audio/codec/audio_reader.h"

#include <fmt/core.h>
#include <algorithm>
#include <string_view>

#include "transforms/audio/codec/flac.h"
#include "transforms/audio/codec/mp3.h"
#include "transforms/audio/codec/opus.h"
#include "transforms/audio/codec/vorbis.h"
#include "transforms/audio/codec/wav.h"

namespace carya::transforms {
namespace {

bool begins(AudioBytes bytes, std::string_view magic, std::size_t at = 0) {
  return bytes.size() >= at + magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char c, std::byte b) { return static_cast<std::byte>(c) == b; });
}

// An ID3v2 tag, as it stands before MP3 and, against the specification, before FLAC. 0: none.
std::size_t id3_bytes(AudioBytes bytes) {
  if (!begins(bytes, "ID3") || bytes.size() < 10) return 0;
  std::size_t size = 0;
  for (std::size_t i = 6; i < 10; ++i) size = size << 7 | (static_cast<std::size_t>(bytes[i]) & 0x7f);
  return std::min(bytes.size(), size + 10);
}

// The first page of an Ogg stream has the name of the codec behind its table of segments.
bool ogg_of(AudioBytes bytes, std::string_view name) {
  if (!begins(bytes, "OggS") || bytes.size() < 28) return false;
  return begins(bytes, name, 27 + static_cast<std::size_t>(bytes[26]));
}

bool is_mpeg_frame(AudioBytes bytes) {
  if (bytes.size() < 4 || bytes[0] != std::byte{0xff}) return false;
  const auto second = static_cast<unsigned>(bytes[1]);
  return (second & 0xe0) == 0xe0 && (second & 0x18) != 0x08 && (second & 0x06) != 0;
}

std::unexpected<Error> unknown(AudioBytes bytes) {
  std::string shown;
  for (const std::byte b : bytes.first(std::min<std::size_t>(4, bytes.size())))
    shown += fmt::format(" {:02x}", static_cast<unsigned>(b));
  return fail(Code::kCorrupt,
              bytes.empty() ? "an empty file"
                            : "not a WAV, FLAC, MP3, Ogg Vorbis or Ogg Opus (starts with" + shown + ")");
}

}  // namespace

Result<std::unique_ptr<AudioReader>> open_audio(AudioBytes bytes) {
  if (begins(bytes, "RIFF") && begins(bytes, "WAVE", 8)) return open_wav(bytes);
  const std::size_t tag = id3_bytes(bytes);
  if (begins(bytes, "fLaC", tag)) return open_flac(bytes.subspan(tag));
  if (ogg_of(bytes, "\x01vorbis")) return open_vorbis(bytes);
  if (ogg_of(bytes, "OpusHead")) return open_opus(bytes);
  if (tag > 0 || is_mpeg_frame(bytes)) return open_mp3(bytes);
  return unknown(bytes);
}

Status check_audio_info(const char* format, const AudioInfo& info) {
  if (info.channels < 1 || info.channels > kAudioChannelsMax)
    return fail(Code::kCorrupt,
                fmt::format("{}: {} channels; 1 to {} are read", format, info.channels, kAudioChannelsMax));
  if (info.rate < kAudioRateMin || info.rate > kAudioRateMax)
    return fail(Code::kCorrupt, fmt::format("{}: a rate of {} Hz; {} to {} Hz are read", format, info.rate,
                                            kAudioRateMin, kAudioRateMax));
  if (info.frames < 0 || info.frames > kAudioFramesMax)
    return fail(Code::kCorrupt,
                fmt::format("{}: {} frames; at most {} are read", format, info.frames, kAudioFramesMax));
  return {};
}

std::unexpected<Error> audio_ends_early(const char* format, std::int64_t at, std::int64_t frames) {
  return fail(Code::kCorrupt, fmt::format("{}: {} of {} frames are there", format, at, frames));
}

}  // namespace carya::transforms
