#include "transforms/audio/codec/flac.h"

#include <FLAC/stream_decoder.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "transforms/audio/codec/shared_library.h"

namespace carya::transforms {
namespace {

constexpr const char* kFlac = "FLAC";

struct FlacLibrary {
  decltype(&FLAC__stream_decoder_new) create;
  decltype(&FLAC__stream_decoder_delete) destroy;
  decltype(&FLAC__stream_decoder_init_stream) init_stream;
  decltype(&FLAC__stream_decoder_process_single) process_single;
  decltype(&FLAC__stream_decoder_process_until_end_of_metadata) process_metadata;
  decltype(&FLAC__stream_decoder_seek_absolute) seek_absolute;
  decltype(&FLAC__stream_decoder_get_state) get_state;
  decltype(&FLAC__stream_decoder_flush) flush;
};

Result<FlacLibrary> load_flac() {
  ASSIGN(SharedLibrary library,
         SharedLibrary::load(kFlac, {"libFLAC.so.12", "libFLAC.so.14", "libFLAC.so.8"}, "libflac12"));
  FlacLibrary flac{};
  library.take("FLAC__stream_decoder_new", flac.create);
  library.take("FLAC__stream_decoder_delete", flac.destroy);
  library.take("FLAC__stream_decoder_init_stream", flac.init_stream);
  library.take("FLAC__stream_decoder_process_single", flac.process_single);
  library.take("FLAC__stream_decoder_process_until_end_of_metadata", flac.process_metadata);
  library.take("FLAC__stream_decoder_seek_absolute", flac.seek_absolute);
  library.take("FLAC__stream_decoder_get_state", flac.get_state);
  library.take("FLAC__stream_decoder_flush", flac.flush);
  TRY(library.complete());
  return flac;
}

class FlacReader final : public AudioReader {
 public:
  FlacReader(const FlacLibrary& flac, AudioBytes bytes)
      : flac_(flac), bytes_(bytes), decoder_(flac.create()) {}
  ~FlacReader() override {
    if (decoder_ != nullptr) flac_.destroy(decoder_);
  }
  FlacReader(const FlacReader&) = delete;
  FlacReader& operator=(const FlacReader&) = delete;

  Status open();
  const AudioInfo& info() const override { return info_; }
  Status read(std::int64_t begin, std::int64_t count, float* out) override;

 private:
  Status count_frames();
  Status start_again();
  void take(const FLAC__Frame& frame, const FLAC__int32* const* channels);

  static FLAC__StreamDecoderReadStatus on_read(const FLAC__StreamDecoder*, FLAC__byte* out,
                                               std::size_t* bytes, void* self);
  static FLAC__StreamDecoderSeekStatus on_seek(const FLAC__StreamDecoder*, FLAC__uint64 at, void* self);
  static FLAC__StreamDecoderTellStatus on_tell(const FLAC__StreamDecoder*, FLAC__uint64* at, void* self);
  static FLAC__StreamDecoderLengthStatus on_length(const FLAC__StreamDecoder*, FLAC__uint64* length,
                                                   void* self);
  static FLAC__bool on_eof(const FLAC__StreamDecoder*, void* self);
  static FLAC__StreamDecoderWriteStatus on_write(const FLAC__StreamDecoder*, const FLAC__Frame* frame,
                                                 const FLAC__int32* const* channels, void* self);
  static void on_metadata(const FLAC__StreamDecoder*, const FLAC__StreamMetadata* metadata, void* self);
  static void on_error(const FLAC__StreamDecoder*, FLAC__StreamDecoderErrorStatus status, void* self);

  const FlacLibrary& flac_;
  AudioBytes bytes_;
  FLAC__StreamDecoder* decoder_;
  std::size_t at_ = 0;  // of the next byte that the library gets
  AudioInfo info_;
  bool has_info_ = false;
  bool counting_ = false;  // frames are counted, not kept
  std::int64_t next_ = 0;  // the frame that the library decodes next
  const char* fault_ = nullptr;
  // The read under way: frames [first_, last_) go to out_.
  std::int64_t first_ = 0;
  std::int64_t last_ = 0;
  std::int64_t filled_ = 0;  // the frames up to here are in out_
  float* out_ = nullptr;
  // The block that was decoded last, of which a later read may want the rest.
  std::vector<float> block_;
  std::int64_t block_first_ = 0;
};

FLAC__StreamDecoderReadStatus FlacReader::on_read(const FLAC__StreamDecoder*, FLAC__byte* out,
                                                  std::size_t* bytes, void* self) {
  auto& reader = *static_cast<FlacReader*>(self);
  const std::size_t count = std::min(*bytes, reader.bytes_.size() - reader.at_);
  std::memcpy(out, reader.bytes_.data() + reader.at_, count);
  reader.at_ += count;
  *bytes = count;
  return count > 0 ? FLAC__STREAM_DECODER_READ_STATUS_CONTINUE
                   : FLAC__STREAM_DECODER_READ_STATUS_END_OF_STREAM;
}

FLAC__StreamDecoderSeekStatus FlacReader::on_seek(const FLAC__StreamDecoder*, FLAC__uint64 at, void* self) {
  auto& reader = *static_cast<FlacReader*>(self);
  if (at > reader.bytes_.size()) return FLAC__STREAM_DECODER_SEEK_STATUS_ERROR;
  reader.at_ = at;
  return FLAC__STREAM_DECODER_SEEK_STATUS_OK;
}

FLAC__StreamDecoderTellStatus FlacReader::on_tell(const FLAC__StreamDecoder*, FLAC__uint64* at, void* self) {
  *at = static_cast<FlacReader*>(self)->at_;
  return FLAC__STREAM_DECODER_TELL_STATUS_OK;
}

FLAC__StreamDecoderLengthStatus FlacReader::on_length(const FLAC__StreamDecoder*, FLAC__uint64* length,
                                                      void* self) {
  *length = static_cast<FlacReader*>(self)->bytes_.size();
  return FLAC__STREAM_DECODER_LENGTH_STATUS_OK;
}

FLAC__bool FlacReader::on_eof(const FLAC__StreamDecoder*, void* self) {
  const auto& reader = *static_cast<FlacReader*>(self);
  return reader.at_ == reader.bytes_.size();
}

FLAC__StreamDecoderWriteStatus FlacReader::on_write(const FLAC__StreamDecoder*, const FLAC__Frame* frame,
                                                    const FLAC__int32* const* channels, void* self) {
  auto& reader = *static_cast<FlacReader*>(self);
  const FLAC__FrameHeader& header = frame->header;
  if (header.channels != static_cast<unsigned>(reader.info_.channels) || header.bits_per_sample == 0 ||
      header.bits_per_sample > 32)
    reader.fault_ = "a block has other channels than the file";
  else if (header.number_type == FLAC__FRAME_NUMBER_TYPE_SAMPLE_NUMBER &&
           header.number.sample_number > static_cast<FLAC__uint64>(kAudioFramesMax))
    reader.fault_ = "a block begins where no file reaches";
  if (reader.fault_ != nullptr) return FLAC__STREAM_DECODER_WRITE_STATUS_ABORT;
  reader.take(*frame, channels);
  return FLAC__STREAM_DECODER_WRITE_STATUS_CONTINUE;
}

void FlacReader::on_metadata(const FLAC__StreamDecoder*, const FLAC__StreamMetadata* metadata, void* self) {
  auto& reader = *static_cast<FlacReader*>(self);
  if (metadata->type != FLAC__METADATA_TYPE_STREAMINFO || reader.has_info_) return;
  const FLAC__StreamMetadata_StreamInfo& said = metadata->data.stream_info;
  reader.has_info_ = true;
  reader.info_ = {.rate = said.sample_rate,
                  .channels = said.channels,
                  .frames = static_cast<std::int64_t>(said.total_samples)};
}

void FlacReader::on_error(const FLAC__StreamDecoder*, FLAC__StreamDecoderErrorStatus status, void* self) {
  auto& reader = *static_cast<FlacReader*>(self);
  if (reader.fault_ != nullptr) return;
  switch (status) {
    case FLAC__STREAM_DECODER_ERROR_STATUS_LOST_SYNC:
      reader.fault_ = "bytes between two blocks that are none";
      break;
    case FLAC__STREAM_DECODER_ERROR_STATUS_BAD_HEADER:
      reader.fault_ = "a block with a damaged header";
      break;
    case FLAC__STREAM_DECODER_ERROR_STATUS_FRAME_CRC_MISMATCH:
      reader.fault_ = "a block with a wrong checksum";
      break;
    default:
      reader.fault_ = "a block that cannot be decoded";
      break;
  }
}

// Keep the frames of a block that the read wants, or the whole block if it reaches beyond.
void FlacReader::take(const FLAC__Frame& frame, const FLAC__int32* const* channels) {
  const std::int64_t count = frame.header.blocksize;
  const std::int64_t first = static_cast<std::int64_t>(frame.header.number.sample_number);
  next_ = first + count;
  if (counting_) return;
  const auto width = static_cast<std::size_t>(info_.channels);
  const float scale = 1.0F / static_cast<float>(std::uint64_t{1} << (frame.header.bits_per_sample - 1));
  const auto write = [&](std::int64_t from, std::int64_t to, float* out) {
    if (width == 1) {  // one loop over neighbours, which the compiler turns into vectors
      const FLAC__int32* const in = channels[0] + (from - first);
      for (std::int64_t i = 0; i < to - from; ++i) out[i] = static_cast<float>(in[i]) * scale;
      return;
    }
    for (std::size_t c = 0; c < width; ++c) {
      const FLAC__int32* const in = channels[c] + (from - first);
      for (std::int64_t i = 0; i < to - from; ++i)
        out[static_cast<std::size_t>(i) * width + c] = static_cast<float>(in[i]) * scale;
    }
  };
  const std::int64_t from = std::max(first, filled_);
  const std::int64_t to = std::min(next_, last_);
  // A gap between two blocks leaves `filled_` behind, which read() sees.
  if (first <= filled_ && to > from) {
    write(from, to, out_ + static_cast<std::size_t>(from - first_) * width);
    filled_ = to;
  }
  block_.clear();
  if (next_ <= last_) return;
  block_.resize(static_cast<std::size_t>(count) * width);
  block_first_ = first;
  write(first, next_, block_.data());
}

Status FlacReader::open() {
  if (decoder_ == nullptr) return fail(Code::kExhausted, "FLAC: no memory for a decoder");
  if (flac_.init_stream(decoder_, on_read, on_seek, on_tell, on_length, on_eof, on_write, on_metadata,
                        on_error, this) != FLAC__STREAM_DECODER_INIT_STATUS_OK)
    return fail(Code::kExhausted, "FLAC: no memory for a decoder");
  if (!flac_.process_metadata(decoder_) || !has_info_)
    return fail(Code::kCorrupt,
                std::string("FLAC: ") + (fault_ != nullptr ? fault_ : "no stream information"));
  TRY(check_audio_info(kFlac, info_));
  if (info_.frames == 0) TRY(count_frames());
  return check_audio_info(kFlac, info_);
}

// A file whose writer did not know its length: all blocks are decoded once.
Status FlacReader::count_frames() {
  counting_ = true;
  while (flac_.get_state(decoder_) < FLAC__STREAM_DECODER_END_OF_STREAM && fault_ == nullptr &&
         next_ <= kAudioFramesMax)
    if (!flac_.process_single(decoder_)) break;
  counting_ = false;
  info_.frames = next_;
  if (fault_ != nullptr) return fail(Code::kCorrupt, std::string("FLAC: ") + fault_);
  return start_again();
}

// The library seeks in files of known length only; others are read from their beginning.
Status FlacReader::start_again() {
  flac_.destroy(decoder_);
  decoder_ = flac_.create();
  at_ = 0;
  next_ = 0;
  block_.clear();
  if (decoder_ == nullptr ||
      flac_.init_stream(decoder_, on_read, on_seek, on_tell, on_length, on_eof, on_write, on_metadata,
                        on_error, this) != FLAC__STREAM_DECODER_INIT_STATUS_OK)
    return fail(Code::kExhausted, "FLAC: no memory for a decoder");
  flac_.process_metadata(decoder_);
  return {};
}

Status FlacReader::read(std::int64_t begin, std::int64_t count, float* out) {
  const auto width = static_cast<std::size_t>(info_.channels);
  first_ = filled_ = begin;
  last_ = begin + count;
  out_ = out;
  fault_ = nullptr;
  if (!block_.empty()) {
    const auto frames = static_cast<std::int64_t>(block_.size() / width);
    if (begin >= block_first_ && begin < block_first_ + frames) {
      filled_ = std::min(last_, block_first_ + frames);
      const float* const from = block_.data() + static_cast<std::size_t>(begin - block_first_) * width;
      std::copy_n(from, static_cast<std::size_t>(filled_ - begin) * width, out);
    }
  }
  if (filled_ < last_ && next_ != filled_) {
    const bool near = next_ <= filled_ && filled_ - next_ < 16'384;  // fewer than a seek would decode
    if (!near && !flac_.seek_absolute(decoder_, static_cast<FLAC__uint64>(filled_))) {
      fault_ = nullptr;
      TRY(start_again());
    }
  }
  while (filled_ < last_ && fault_ == nullptr) {
    if (next_ > filled_) break;  // a gap
    if (!flac_.process_single(decoder_) || flac_.get_state(decoder_) >= FLAC__STREAM_DECODER_END_OF_STREAM)
      break;
  }
  out_ = nullptr;
  if (fault_ != nullptr)
    return fail(Code::kCorrupt, fmt::format("FLAC: {} (behind frame {})", fault_, filled_));
  if (filled_ < last_) return audio_ends_early(kFlac, filled_, info_.frames);
  return {};
}

}  // namespace

Result<std::unique_ptr<AudioReader>> open_flac(AudioBytes bytes) {
  ASSIGN(const FlacLibrary* flac, loaded_once<load_flac>());
  auto reader = std::make_unique<FlacReader>(*flac, bytes);
  TRY(reader->open());
  return reader;
}

}  // namespace carya::transforms
