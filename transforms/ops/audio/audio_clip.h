#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "transforms/audio/codec/audio_reader.h"
#include "transforms/audio/signal/resampler.h"
#include "transforms/kernels/image/row_buffer.h"
#include "transforms/simd/patience.h"

namespace carya::transforms {

/// One audio field of one sample on its way through its ops: a file that is open, then float32 samples, then a spectrum.
/// A file is not decoded before an op needs samples, so that a window decodes only what it shows. The buffers are kept
/// from one sample to the next.
/// Threads: owner only.
class AudioClip {
 public:
  /// Ask it during long steps; null: never.
  void set_patience(Patience* patience) { patience_ = patience; }

  /// Begin with a file. `channels`: 1 is the mean of all; more: as many as the file has, or copies of its only one.
  /// `rate`: Hz of the samples to come, 0: the file's. Errors: kCorrupt, kExhausted, kUnsupported.
  Status open(AudioBytes bytes, std::int64_t channels, std::int64_t rate);
  /// What samples or a spectrum are that another part of the plan made.
  struct Form {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t valid = 0;  ///< what of its time is no padding
    std::int64_t rate = 0;   ///< Hz
    bool time_first = false;
    bool is_int16 = false;  ///< int16 with full scale at 32,768; else float32
  };
  /// Begin with such values. Errors: kExhausted.
  Status load(const std::byte* values, const Form& form);

  std::int64_t rows() const { return rows_; }        ///< channels, or the first axis of a spectrum
  std::int64_t columns() const { return columns_; }  ///< frames, also of a file that is not decoded yet
  std::int64_t valid() const { return valid_; }
  std::int64_t rate() const { return rate_; }      ///< Hz
  bool time_first() const { return time_first_; }  ///< of a spectrum: each row is a frame
  const float* values() const { return current_values_; }
  float* values() { return current_values_; }

  /// Where the result goes, `count` float32 values: the first op that makes so many writes them there, and store() has
  /// nothing to copy unless another one makes more of them. Holds until the next clip begins; null: nowhere.
  void set_result(std::byte* result, std::int64_t count) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(result) % alignof(float) == 0;
    result_ = aligned ? reinterpret_cast<float*>(result) : nullptr;
    result_values_ = count;
  }

  /// Decode what is not yet. Errors: those of AudioReader::read(), kTimeout, kCorrupt (more than kAudioValuesMax values).
  Status decode() { return reader_ ? decode_window(0, columns_) : Status(); }
  /// Leave the frames [begin, begin + count), with silence where there are none. Errors: as decode().
  Status window(std::int64_t begin, std::int64_t count);

  /// Bring the samples to another rate; of a file that is not decoded yet, the decode does it. Errors: as decode().
  Status change_rate(std::int64_t rate);
  /// Resample as from `from_rate` to `to_rate`, Hz or anything in their ratio; rate() stays. Errors: as decode().
  Status resample(std::int64_t from_rate, std::int64_t to_rate);

  /// Memory for the next form, which become() makes the current one; null: there is none.
  float* next(std::int64_t values);
  void become(std::int64_t rows, std::int64_t columns, std::int64_t valid, bool time_first = false);
  /// Scratch memory of an op, 64-byte aligned, which the next call overwrites; null: there is none.
  float* scratch(std::int64_t values, int which);

  /// Write all values, as float32 or, rounded and cut at full scale, as int16.
  void store(bool as_int16, std::byte* out) const;

 private:
  Status decode_window(std::int64_t begin, std::int64_t count);
  Status read_rows(std::int64_t begin, std::int64_t count, float* out, std::int64_t row_step);
  Status resample_rows(std::int64_t begin, std::int64_t count, float* out, std::int64_t row_step);

  std::unique_ptr<AudioReader> reader_;  // null: samples are there
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  std::int64_t valid_ = 0;
  std::int64_t rate_ = 0;
  bool time_first_ = false;
  Patience* patience_ = nullptr;
  Resampler resampler_;
  RowBuffer buffers_[2];
  int current_ = 0;                  // the buffer that is not to be written next
  float* current_values_ = nullptr;  // in a buffer, or the result
  float* next_values_ = nullptr;     // that next() gave
  bool next_is_result_ = false;
  float* result_ = nullptr;  // null: there is none, or it has been given
  std::int64_t result_values_ = 0;
  RowBuffer scratch_[3];
};

}  // namespace carya::transforms
