#define OV_EXCLUDE_STATIC_CALLBACKS
#include "transforms/audio/codec/vorbis.h"

#include <vorbis/vorbisfile.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "transforms/audio/codec/shared_library.h"

namespace carya::transforms {
namespace {

constexpr const char* kVorbis = "Vorbis";

struct VorbisLibrary {
  decltype(&ov_open_callbacks) open;
  decltype(&ov_clear) clear;
  decltype(&ov_info) info;
  decltype(&ov_streams) streams;
  decltype(&ov_pcm_total) total;
  decltype(&ov_pcm_seek) seek;
  decltype(&ov_pcm_tell) tell;
  decltype(&ov_read_float) read;
};

Result<VorbisLibrary> load_vorbis() {
  ASSIGN(SharedLibrary library, SharedLibrary::load(kVorbis, {"libvorbisfile.so.3"}, "libvorbisfile3"));
  VorbisLibrary vorbis{};
  library.take("ov_open_callbacks", vorbis.open);
  library.take("ov_clear", vorbis.clear);
  library.take("ov_info", vorbis.info);
  library.take("ov_streams", vorbis.streams);
  library.take("ov_pcm_total", vorbis.total);
  library.take("ov_pcm_seek", vorbis.seek);
  library.take("ov_pcm_tell", vorbis.tell);
  library.take("ov_read_float", vorbis.read);
  TRY(library.complete());
  return vorbis;
}

class VorbisReader final : public AudioReader {
 public:
  VorbisReader(const VorbisLibrary& vorbis, AudioBytes bytes) : vorbis_(vorbis), bytes_(bytes) {}
  ~VorbisReader() override {
    if (opened_) vorbis_.clear(&file_);
  }
  VorbisReader(const VorbisReader&) = delete;
  VorbisReader& operator=(const VorbisReader&) = delete;

  Status open();
  const AudioInfo& info() const override { return info_; }
  Status read(std::int64_t begin, std::int64_t count, float* out) override;

 private:
  static std::size_t on_read(void* out, std::size_t size, std::size_t count, void* self);
  static int on_seek(void* self, ogg_int64_t offset, int whence);
  static long on_tell(void* self) { return static_cast<long>(static_cast<VorbisReader*>(self)->at_); }

  const VorbisLibrary& vorbis_;
  AudioBytes bytes_;
  std::size_t at_ = 0;
  OggVorbis_File file_{};
  bool opened_ = false;
  AudioInfo info_;
};

std::size_t VorbisReader::on_read(void* out, std::size_t size, std::size_t count, void* self) {
  auto& reader = *static_cast<VorbisReader*>(self);
  if (size == 0) return 0;
  const std::size_t items = std::min(count, (reader.bytes_.size() - reader.at_) / size);
  std::memcpy(out, reader.bytes_.data() + reader.at_, items * size);
  reader.at_ += items * size;
  return items;
}

int VorbisReader::on_seek(void* self, ogg_int64_t offset, int whence) {
  auto& reader = *static_cast<VorbisReader*>(self);
  const auto size = static_cast<ogg_int64_t>(reader.bytes_.size());
  const ogg_int64_t from = whence == SEEK_SET   ? 0
                           : whence == SEEK_CUR ? static_cast<ogg_int64_t>(reader.at_)
                                                : size;
  const ogg_int64_t at = from + offset;
  if (at < 0 || at > size) return -1;
  reader.at_ = static_cast<std::size_t>(at);
  return 0;
}

Status VorbisReader::open() {
  const ov_callbacks callbacks{on_read, on_seek, nullptr, on_tell};
  const int result = vorbis_.open(this, &file_, nullptr, 0, callbacks);
  if (result != 0)  // it has cleared what it took
    return fail(Code::kCorrupt, "Vorbis: its headers cannot be read (" + std::to_string(result) + ")");
  opened_ = true;
  const long streams = vorbis_.streams(&file_);
  for (int i = 0; i < streams; ++i) {
    const vorbis_info* const said = vorbis_.info(&file_, i);
    if (said == nullptr) return fail(Code::kCorrupt, "Vorbis: a stream without a header");
    if (i > 0 && (said->rate != info_.rate || said->channels != info_.channels))
      return fail(Code::kCorrupt, "Vorbis: a chain of streams with different rates or channels");
    info_ = {.rate = said->rate, .channels = said->channels};
  }
  info_.frames = vorbis_.total(&file_, -1);
  return check_audio_info(kVorbis, info_);
}

Status VorbisReader::read(std::int64_t begin, std::int64_t count, float* out) {
  if (vorbis_.tell(&file_) != begin && vorbis_.seek(&file_, begin) != 0)
    return fail(Code::kCorrupt, "Vorbis: no frame " + std::to_string(begin));
  const auto width = static_cast<std::size_t>(info_.channels);
  for (std::int64_t done = 0; done < count;) {
    float** channels = nullptr;
    const long got = vorbis_.read(&file_, &channels,
                                  static_cast<int>(std::min<std::int64_t>(count - done, 4096)), nullptr);
    if (got == 0) return audio_ends_early(kVorbis, begin + done, info_.frames);
    if (got < 0) return fail(Code::kCorrupt, "Vorbis: damage behind frame " + std::to_string(begin + done));
    for (std::size_t c = 0; c < width; ++c)
      for (long i = 0; i < got; ++i) out[static_cast<std::size_t>(done + i) * width + c] = channels[c][i];
    done += got;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<AudioReader>> open_vorbis(AudioBytes bytes) {
  ASSIGN(const VorbisLibrary* vorbis, loaded_once<load_vorbis>());
  auto reader = std::make_unique<VorbisReader>(*vorbis, bytes);
  TRY(reader->open());
  return reader;
}

}  // namespace carya::transforms
