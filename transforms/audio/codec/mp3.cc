#include "transforms/audio/codec/mp3.h"

#include <mpg123.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "transforms/audio/codec/shared_library.h"

namespace carya::transforms {
namespace {

constexpr const char* kMp3 = "MP3";

struct MpgLibrary {
  decltype(&mpg123_init) init;
  decltype(&mpg123_new) create;
  decltype(&mpg123_delete) destroy;
  decltype(&mpg123_param) param;
  decltype(&mpg123_format_none) format_none;
  decltype(&mpg123_format) format;
  decltype(&mpg123_rates) rates;
  decltype(&mpg123_replace_reader_handle) replace_reader;
  decltype(&mpg123_open_handle) open;
  decltype(&mpg123_scan) scan;
  decltype(&mpg123_length) length;
  decltype(&mpg123_getformat) get_format;
  decltype(&mpg123_seek) seek;
  decltype(&mpg123_tell) tell;
  decltype(&mpg123_read) read;
  const char* decoder = nullptr;  // the one that every machine of this architecture has
};

Result<MpgLibrary> load_mpg123() {
  ASSIGN(SharedLibrary library, SharedLibrary::load(kMp3, {"libmpg123.so.0"}, "libmpg123-0"));
  MpgLibrary mpg{};
  decltype(&mpg123_supported_decoders) supported = nullptr;
  library.take("mpg123_init", mpg.init);
  library.take("mpg123_new", mpg.create);
  library.take("mpg123_delete", mpg.destroy);
  library.take("mpg123_param", mpg.param);
  library.take("mpg123_format_none", mpg.format_none);
  library.take("mpg123_format", mpg.format);
  library.take("mpg123_rates", mpg.rates);
  library.take("mpg123_replace_reader_handle", mpg.replace_reader);
  library.take("mpg123_open_handle", mpg.open);
  library.take("mpg123_scan", mpg.scan);
  library.take("mpg123_length", mpg.length);
  library.take("mpg123_getformat", mpg.get_format);
  library.take("mpg123_seek", mpg.seek);
  library.take("mpg123_tell", mpg.tell);
  library.take("mpg123_read", mpg.read);
  library.take("mpg123_supported_decoders", supported);
  TRY(library.complete());
  if (mpg.init() != MPG123_OK) return fail(Code::kUnsupported, "MP3: libmpg123 does not start");
  for (const char* wanted : {"x86-64", "NEON64", "generic"})
    for (const char* const* name = supported(); *name != nullptr && mpg.decoder == nullptr; ++name)
      if (std::strcmp(*name, wanted) == 0) mpg.decoder = *name;
  return mpg;
}

class Mp3Reader final : public AudioReader {
 public:
  Mp3Reader(const MpgLibrary& mpg, AudioBytes bytes) : mpg_(mpg), bytes_(bytes) {}
  ~Mp3Reader() override {
    if (handle_ != nullptr) mpg_.destroy(handle_);
  }
  Mp3Reader(const Mp3Reader&) = delete;
  Mp3Reader& operator=(const Mp3Reader&) = delete;

  Status open();
  const AudioInfo& info() const override { return info_; }
  Status read(std::int64_t begin, std::int64_t count, float* out) override;

 private:
  static ssize_t on_read(void* self, void* out, std::size_t bytes);
  static off_t on_seek(void* self, off_t offset, int whence);

  const MpgLibrary& mpg_;
  AudioBytes bytes_;
  std::size_t at_ = 0;
  mpg123_handle* handle_ = nullptr;
  AudioInfo info_;
};

ssize_t Mp3Reader::on_read(void* self, void* out, std::size_t bytes) {
  auto& reader = *static_cast<Mp3Reader*>(self);
  const std::size_t count = std::min(bytes, reader.bytes_.size() - reader.at_);
  std::memcpy(out, reader.bytes_.data() + reader.at_, count);
  reader.at_ += count;
  return static_cast<ssize_t>(count);
}

off_t Mp3Reader::on_seek(void* self, off_t offset, int whence) {
  auto& reader = *static_cast<Mp3Reader*>(self);
  const auto size = static_cast<off_t>(reader.bytes_.size());
  const off_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? static_cast<off_t>(reader.at_) : size;
  const off_t at = from + offset;
  if (at < 0 || at > size) return -1;
  reader.at_ = static_cast<std::size_t>(at);
  return at;
}

Status Mp3Reader::open() {
  int error = MPG123_OK;
  handle_ = mpg_.create(mpg_.decoder, &error);
  if (handle_ == nullptr) return fail(Code::kExhausted, "MP3: no memory for a decoder");
  // Streams that change their format inside are no files; tags are passed over, not parsed.
  mpg_.param(handle_, MPG123_ADD_FLAGS, MPG123_QUIET | MPG123_NO_FRANKENSTEIN | MPG123_SKIP_ID3V2, 0);
  mpg_.param(handle_, MPG123_REMOVE_FLAGS, MPG123_AUTO_RESAMPLE, 0);
  mpg_.param(handle_, MPG123_INDEX_SIZE, -1, 0);  // grows with the file: a read begins close to its place
  mpg_.param(handle_, MPG123_PREFRAMES, 16, 0);   // what a read decodes before it, for the reservoir of bits
  mpg_.format_none(handle_);
  const long* rates = nullptr;
  std::size_t count = 0;
  mpg_.rates(&rates, &count);
  for (std::size_t i = 0; i < count; ++i)
    mpg_.format(handle_, rates[i], MPG123_MONO | MPG123_STEREO, MPG123_ENC_FLOAT_32);
  if (mpg_.replace_reader(handle_, on_read, on_seek, nullptr) != MPG123_OK ||
      mpg_.open(handle_, this) != MPG123_OK)
    return fail(Code::kExhausted, "MP3: no memory for a decoder");
  long rate = 0;
  int channels = 0;
  int encoding = 0;
  if (mpg_.get_format(handle_, &rate, &channels, &encoding) != MPG123_OK || encoding != MPG123_ENC_FLOAT_32)
    return fail(Code::kCorrupt, "MP3: no frame that can be decoded");
  info_ = {.rate = rate, .channels = channels};
  if (mpg_.scan(handle_) != MPG123_OK) return fail(Code::kCorrupt, "MP3: frames that cannot be counted");
  info_.frames = mpg_.length(handle_);
  return check_audio_info(kMp3, info_);
}

Status Mp3Reader::read(std::int64_t begin, std::int64_t count, float* out) {
  if (mpg_.tell(handle_) != begin && mpg_.seek(handle_, begin, SEEK_SET) != begin)
    return fail(Code::kCorrupt, "MP3: no frame " + std::to_string(begin));
  auto* to = reinterpret_cast<unsigned char*>(out);
  std::size_t left = static_cast<std::size_t>(count * info_.channels) * sizeof(float);
  while (left > 0) {
    std::size_t done = 0;
    const int result = mpg_.read(handle_, to, left, &done);
    to += done;
    left -= std::min(left, done);
    if (result == MPG123_OK ||
        (result == MPG123_NEW_FORMAT && done == 0 && left > 0 && mpg_.tell(handle_) == begin))
      continue;
    if (left == 0) break;
    if (result == MPG123_DONE) return audio_ends_early(kMp3, mpg_.tell(handle_), info_.frames);
    return fail(Code::kCorrupt, "MP3: damage behind frame " + std::to_string(mpg_.tell(handle_)));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<AudioReader>> open_mp3(AudioBytes bytes) {
  ASSIGN(const MpgLibrary* mpg, loaded_once<load_mpg123>());
  auto reader = std::make_unique<Mp3Reader>(*mpg, bytes);
  TRY(reader->open());
  return reader;
}

}  // namespace carya::transforms
