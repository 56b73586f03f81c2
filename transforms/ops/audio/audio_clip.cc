#include "transforms/ops/audio/audio_clip.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

namespace carya::transforms {
namespace {

constexpr std::int64_t kBlock = 1 << 14;  // frames that are decoded between two questions to the patience
// Source frames on either side of a window that are resampled with it, times the ratio of the rates where that is above
// 1: the filters of soxr's HQ reach less far, so a window has the values of the whole file to 1e-6.
constexpr std::int64_t kMargin = 1024;

std::unexpected<Error> no_memory(std::int64_t values) {
  return fail(Code::kExhausted, fmt::format("no memory for {} values of audio", values));
}

std::unexpected<Error> given_up() {
  return fail(Code::kTimeout, "the sample was given up");
}

Status check_values(std::int64_t frames, std::int64_t channels) {
  if (frames <= kAudioValuesMax / channels) return {};
  return fail(Code::kCorrupt,
              fmt::format("{} frames of {} channels; at most {} values are decoded at once: put crop_audio "
                          "right behind decode_audio",
                          frames, channels, kAudioValuesMax));
}

std::int16_t to_int16(float x) {
  const float scaled = std::rint(x * 32768.0F);
  if (!(scaled > -32768.0F)) return scaled <= -32768.0F ? std::int16_t{-32768} : std::int16_t{0};  // NaN: 0
  return scaled >= 32767.0F ? std::int16_t{32767} : static_cast<std::int16_t>(scaled);
}

}  // namespace

Status AudioClip::open(AudioBytes bytes, std::int64_t channels, std::int64_t rate) {
  reader_.reset();
  ASSIGN(reader_, open_audio(bytes));
  const AudioInfo& info = reader_->info();
  if (channels > 1 && info.channels != channels && info.channels != 1)
    return fail(Code::kCorrupt,
                fmt::format("{} channels; {} are wanted, or one to copy", info.channels, channels));
  rows_ = channels;
  rate_ = rate == 0 ? info.rate : rate;
  columns_ = rate_ == info.rate ? info.frames : resampled_frames(info.frames, info.rate, rate_);
  valid_ = columns_;
  return {};
}

Status AudioClip::load(const std::byte* values, const Form& form) {
  reader_.reset();
  rate_ = form.rate;
  float* const out = next(form.rows * form.columns);
  if (out == nullptr) return no_memory(form.rows * form.columns);
  const auto count = static_cast<std::size_t>(form.rows * form.columns);
  if (!form.is_int16) {
    std::memcpy(out, values, count * sizeof(float));
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      std::int16_t value;
      std::memcpy(&value, values + i * sizeof value, sizeof value);
      out[i] = static_cast<float>(value) * (1.0F / 32768.0F);
    }
  }
  become(form.rows, form.columns, form.valid, form.time_first);
  return {};
}

float* AudioClip::next(std::int64_t values) {
  next_is_result_ = result_ != nullptr && values == result_values_;
  if (next_is_result_) {
    next_values_ = std::exchange(result_, nullptr);
    return next_values_;
  }
  RowBuffer& buffer = buffers_[1 - current_];
  if (!buffer.reserve(static_cast<std::size_t>(std::max<std::int64_t>(values, 1)) * sizeof(float)))
    return nullptr;
  next_values_ = reinterpret_cast<float*>(buffer.data());
  return next_values_;
}

void AudioClip::become(std::int64_t rows, std::int64_t columns, std::int64_t valid, bool time_first) {
  time_first_ = time_first;
  if (!next_is_result_) current_ = 1 - current_;
  current_values_ = next_values_;
  rows_ = rows;
  columns_ = columns;
  valid_ = valid;
}

float* AudioClip::scratch(std::int64_t values, int which) {
  if (!scratch_[which].reserve(static_cast<std::size_t>(values) * sizeof(float))) return nullptr;
  return reinterpret_cast<float*>(scratch_[which].data());
}

// Decode source frames into rows of channels.
Status AudioClip::read_rows(std::int64_t begin, std::int64_t count, float* out, std::int64_t row_step) {
  const std::int64_t channels = reader_->info().channels;
  float* const block = scratch(std::min(count, kBlock) * channels, 0);
  if (block == nullptr) return no_memory(kBlock * channels);
  const float share = 1.0F / static_cast<float>(channels);
  for (std::int64_t done = 0; done < count; done += kBlock) {
    const std::int64_t frames = std::min(kBlock, count - done);
    if (!goes_on(patience_, frames * channels * 16)) return given_up();
    if (channels == 1) {
      TRY(reader_->read(begin + done, frames, out + done));
      for (std::int64_t row = 1; row < rows_; ++row)
        std::copy_n(out + done, frames, out + row * row_step + done);
      continue;
    }
    TRY(reader_->read(begin + done, frames, block));
    for (std::int64_t i = 0; i < frames; ++i) {
      const float* const frame = block + i * channels;
      if (rows_ == 1) {
        float sum = frame[0];
        for (std::int64_t c = 1; c < channels; ++c) sum += frame[c];
        out[done + i] = sum * share;
      } else {
        for (std::int64_t c = 0; c < channels; ++c) out[c * row_step + done + i] = frame[c];
      }
    }
  }
  return {};
}

// A part of the source that begins where a frame of the result does, so that the filter stands as in the whole.
Status AudioClip::resample_rows(std::int64_t begin, std::int64_t count, float* out, std::int64_t row_step) {
  const AudioInfo& info = reader_->info();
  const std::int64_t shared = std::gcd(info.rate, rate_);
  const std::int64_t up = rate_ / shared, down = info.rate / shared;
  const std::int64_t margin = kMargin * std::max<std::int64_t>(1, (down + up - 1) / up);
  const std::int64_t periods = std::max<std::int64_t>(0, begin / up - (margin + down - 1) / down);
  const std::int64_t source_begin = periods * down;
  const std::int64_t source_end = std::min(info.frames, (begin + count) * down / up + 1 + margin);
  const std::int64_t frames = source_end - source_begin;
  const std::int64_t made = resampled_frames(frames, info.rate, rate_);
  TRY(check_values(frames, rows_));
  TRY(check_values(made, rows_));
  float* const source = scratch(frames * rows_, 1);
  float* const result = scratch(made, 2);
  if (source == nullptr || result == nullptr) return no_memory(frames * rows_ + made);
  TRY(read_rows(source_begin, frames, source, frames));
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (!goes_on(patience_, made * 64)) return given_up();
    TRY(resampler_.run(source + row * frames, frames, info.rate, rate_, result));
    const std::int64_t skipped = begin - periods * up;
    const std::int64_t there = std::min(count, made - skipped);
    std::copy_n(result + skipped, there, out + row * row_step);
    std::fill(out + row * row_step + there, out + row * row_step + count, 0.0F);
  }
  return {};
}

// [begin, begin + count) reaches behind the end, but begins inside of it.
Status AudioClip::decode_window(std::int64_t begin, std::int64_t count) {
  const std::int64_t there = std::min(count, columns_ - begin);
  TRY(check_values(count, std::max(rows_, reader_->info().channels)));
  float* const out = next(count * rows_);
  if (out == nullptr) return no_memory(count * rows_);
  if (there > 0) {
    const bool resamples = rate_ != reader_->info().rate;
    TRY(resamples ? resample_rows(begin, there, out, count) : read_rows(begin, there, out, count));
  }
  for (std::int64_t row = 0; row < rows_; ++row)
    std::fill(out + row * count + there, out + (row + 1) * count, 0.0F);
  reader_.reset();
  become(rows_, count, there);
  return {};
}

Status AudioClip::window(std::int64_t begin, std::int64_t count) {
  if (reader_) return decode_window(begin, count);
  float* const out = next(count * rows_);
  if (out == nullptr) return no_memory(count * rows_);
  const std::int64_t there = std::min(count, columns_ - begin);
  for (std::int64_t row = 0; row < rows_; ++row) {
    std::copy_n(values() + row * columns_ + begin, there, out + row * count);
    std::fill(out + row * count + there, out + (row + 1) * count, 0.0F);
  }
  become(rows_, count, std::clamp<std::int64_t>(valid_ - begin, 0, there));
  return {};
}

Status AudioClip::change_rate(std::int64_t rate) {
  if (rate == rate_) return {};
  if (reader_ && rate_ == reader_->info().rate) {
    rate_ = rate;
    columns_ = valid_ = resampled_frames(reader_->info().frames, reader_->info().rate, rate);
    return {};
  }
  TRY(resample(rate_, rate));
  rate_ = rate;
  return {};
}

Status AudioClip::resample(std::int64_t from_rate, std::int64_t to_rate) {
  TRY(decode());
  const std::int64_t shared = std::gcd(from_rate, to_rate);
  const std::int64_t from = from_rate / shared, to = to_rate / shared;
  if (from == to) return {};
  const std::int64_t made = resampled_frames(columns_, from, to);
  TRY(check_values(made, rows_));
  float* const out = next(made * rows_);
  if (out == nullptr) return no_memory(made * rows_);
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (!goes_on(patience_, made * 64)) return given_up();
    TRY(resampler_.run(values() + row * columns_, columns_, from, to, out + row * made));
  }
  become(rows_, made, std::min(made, resampled_frames(valid_, from, to)));
  return {};
}

void AudioClip::store(bool as_int16, std::byte* out) const {
  const auto count = static_cast<std::size_t>(rows_ * columns_);
  if (!as_int16) {
    if (reinterpret_cast<const std::byte*>(values()) != out)
      std::memcpy(out, values(), count * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::int16_t value = to_int16(values()[i]);
    std::memcpy(out + i * sizeof value, &value, sizeof value);
  }
}

}  // namespace carya::transforms
