#include "transforms/audio/codec/opus.h"

#include <opus/opusfile.h>

#include <algorithm>
#include <string>
#include <vector>

#include "transforms/audio/codec/shared_library.h"

namespace carya::transforms {
namespace {

constexpr const char* kOpus = "Opus";
constexpr std::int64_t kRate = 48'000;
constexpr std::int64_t kPreRoll = kRate / 2;  // frames that are decoded before a place

struct OpusLibrary {
  decltype(&op_open_memory) open;
  decltype(&op_free) free;
  decltype(&op_link_count) link_count;
  decltype(&op_channel_count) channel_count;
  decltype(&op_pcm_total) total;
  decltype(&op_pcm_seek) seek;
  decltype(&op_pcm_tell) tell;
  decltype(&op_read_float) read;
};

Result<OpusLibrary> load_opus() {
  ASSIGN(SharedLibrary library, SharedLibrary::load(kOpus, {"libopusfile.so.0"}, "libopusfile0"));
  OpusLibrary opus{};
  library.take("op_open_memory", opus.open);
  library.take("op_free", opus.free);
  library.take("op_link_count", opus.link_count);
  library.take("op_channel_count", opus.channel_count);
  library.take("op_pcm_total", opus.total);
  library.take("op_pcm_seek", opus.seek);
  library.take("op_pcm_tell", opus.tell);
  library.take("op_read_float", opus.read);
  TRY(library.complete());
  return opus;
}

class OpusReader final : public AudioReader {
 public:
  OpusReader(const OpusLibrary& opus, OggOpusFile* file) : opus_(opus), file_(file) {}
  ~OpusReader() override { opus_.free(file_); }
  OpusReader(const OpusReader&) = delete;
  OpusReader& operator=(const OpusReader&) = delete;

  Status check();
  const AudioInfo& info() const override { return info_; }
  Status read(std::int64_t begin, std::int64_t count, float* out) override;

 private:
  Status go_to(std::int64_t frame);

  const OpusLibrary& opus_;
  OggOpusFile* file_;
  AudioInfo info_;
};

Status OpusReader::check() {
  info_ = {.rate = kRate, .channels = opus_.channel_count(file_, 0), .frames = opus_.total(file_, -1)};
  for (int i = 1; i < opus_.link_count(file_); ++i)
    if (opus_.channel_count(file_, i) != info_.channels)
      return fail(Code::kCorrupt, "Opus: a chain of streams with different channels");
  return check_audio_info(kOpus, info_);
}

// What a decoder remembers fades slowly: what is decoded before the place is thrown away.
Status OpusReader::go_to(std::int64_t frame) {
  const std::int64_t from = std::max<std::int64_t>(0, frame - kPreRoll);
  if (opus_.seek(file_, from) != 0) return fail(Code::kCorrupt, "Opus: no frame " + std::to_string(frame));
  std::vector<float> unheard(static_cast<std::size_t>(info_.channels) * 5760);
  for (std::int64_t at = from; at < frame;) {
    const std::int64_t values = std::min(frame - at, std::int64_t{5760}) * info_.channels;
    const int got = opus_.read(file_, unheard.data(), static_cast<int>(values), nullptr);
    if (got <= 0) return fail(Code::kCorrupt, "Opus: damage before frame " + std::to_string(frame));
    at += got;
  }
  return {};
}

Status OpusReader::read(std::int64_t begin, std::int64_t count, float* out) {
  const auto width = static_cast<std::size_t>(info_.channels);
  if (opus_.tell(file_) != begin) TRY(go_to(begin));
  for (std::int64_t done = 0; done < count;) {
    const std::size_t values = static_cast<std::size_t>(count - done) * width;
    const int got = opus_.read(file_, out + static_cast<std::size_t>(done) * width,
                               static_cast<int>(std::min<std::size_t>(values, 1 << 20)), nullptr);
    if (got == 0) return audio_ends_early(kOpus, begin + done, info_.frames);
    if (got < 0) return fail(Code::kCorrupt, "Opus: damage behind frame " + std::to_string(begin + done));
    done += got;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<AudioReader>> open_opus(AudioBytes bytes) {
  ASSIGN(const OpusLibrary* opus, loaded_once<load_opus>());
  int error = 0;
  OggOpusFile* const file =
      opus->open(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), &error);
  if (file == nullptr)
    return fail(error == OP_EFAULT ? Code::kExhausted : Code::kCorrupt,
                "Opus: it cannot be opened (" + std::to_string(error) + ")");
  auto reader = std::make_unique<OpusReader>(*opus, file);
  TRY(reader->check());
  return reader;
}

}  // namespace carya::transforms
