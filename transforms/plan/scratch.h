#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "transforms/kernels/codec/coefficient_maker.h"
#include "transforms/kernels/codec/exif.h"
#include "transforms/kernels/codec/field_index.h"
#include "transforms/kernels/codec/image_codec.h"
#include "transforms/kernels/codec/transcoder.h"
#include "transforms/kernels/image/row_buffer.h"
#include "transforms/kernels/resize/resize.h"
#include "transforms/ops/audio/audio_clip.h"
#include "transforms/ops/geometry.h"
#include "transforms/plan/pass_price.h"
#include "transforms/plan/plan.h"
#include "transforms/simd/band_runner.h"
#include "transforms/simd/patience.h"

namespace carya::transforms {

/// One stage for the decode, one for each op on pictures, one for the result, one for arrays.
inline constexpr std::size_t kStagesMax = kOpsMax + 3;

/// The bytes of each field of a record.
using FieldBytes = std::array<std::span<const std::byte>, kFieldsMax>;

/// The costs of one plan on this thread since they were last collected.
struct StageCounters {
  std::uint64_t plan = 0;     ///< the plan's number; 0: free
  std::uint64_t untimed = 0;  ///< samples before the next timed one
  std::uint64_t samples = 0;
  std::uint64_t timed_samples = 0;
  struct Stage {
    std::uint64_t cpu_ns = 0;
    std::uint64_t bytes_in = 0;
    std::uint64_t bytes_out = 0;
  };
  std::uint64_t pictures = 0;  ///< decoded pictures of the timed samples; then the sums of their sides
  std::uint64_t height = 0;
  std::uint64_t width = 0;
  std::array<Stage, kStagesMax> stages{};
};

/// The times of one picture, for the profile. They are Scratch::Impl::cpu_ns().
struct PictureTrace {
  struct End {
    std::size_t stage = 0;
    std::int64_t at_ns = 0;
    std::int64_t bytes = 0;  ///< of the picture at that time
  };
  std::int64_t decoded_at_ns = 0;  ///< 0: nothing was decoded
  std::int64_t decoded_bytes = 0;
  std::array<End, kOpsMax> ends;  ///< for the stages between decode and result
  std::size_t count = 0;

  /// A stage ends. `number` counts stages from 1.
  void end(std::uint8_t number, std::int64_t at, std::int64_t bytes) {
    ends[count++] = {number - 1U, at, bytes};
  }
  void clear() { decoded_at_ns = decoded_bytes = 0, count = 0; }
};

/// The number of a new plan. A Scratch serves several plans; the number tells their counters apart, where an address
/// could be used again.
inline std::uint64_t next_plan_number() {
  static std::atomic<std::uint64_t> number{0};
  return ++number;
}

struct Scratch::Impl {
  // One for each encoded field, since all headers are read before any picture is decoded.
  std::vector<ImageDecoder> decoders;
  std::vector<ImageInfo> infos;             // those of `decoders`
  std::array<ImageSize, kFieldsMax> sizes;  // of each input that is a picture, before the steps
  std::vector<AudioClip> sounds;            // one for each audio field
  Resizer resizer;
  RowBuffer pictures[2];          // a picture in progress; each step reads one and writes the other
  std::array<RowBuffer, 2> rows;  // rows of a picture between changes that run together
  std::vector<std::array<RowBuffer, 2>> lanes;  // the same for bands on several cores
  RowBuffer apart;                              // a decoded picture that several fields read
  RowBuffer whole;                              // a finished picture, for point ops without a fused store
  RowBuffer values[2];                          // intermediate values of point ops without a fused store
  /// A sample between two parts of a plan, and what an op between them made of it. The parts take turns.
  struct Between {
    RowBuffer packed, made;
  };
  std::array<Between, 2> between;
  /// What records that are kept before their first op are made with (source_parts.h). Null until the first one is.
  struct SourceKeeper {
    CoefficientMaker maker;
    IndexMaker indexes;
    std::vector<std::vector<std::uint8_t>> made;  // an entry or an index, by field
  };
  std::unique_ptr<SourceKeeper> keeper;
  std::vector<FieldIndex> kept_indexes;  // of a record that was kept so
  std::deque<Transcoder> transcoders;    // one for each field that transcode takes
  StepList steps;
  Objects objects;  ///< of a sample that has some
  PictureTrace trace;
  std::array<std::size_t, kOpsMax + 1> first_step{};  // the first step of each geometric op

  PassPrice price;              ///< of the sample that runs
  Patience patience;            ///< for Scratch::set_go_on(); the decoders and the resizer ask it too
  BandRunner* bands = nullptr;  ///< Scratch::set_bands()
  /// The CPU time of this thread and of the threads that helped it with bands.
  std::int64_t cpu_ns() const { return thread_cpu_ns() + (bands ? bands->helped_ns() : 0); }

  /// The counters of this plan. A thread runs few plans; if there is no room, the counters of another plan are dropped.
  StageCounters& counters_of(std::uint64_t plan) {
    if (last->plan == plan) return *last;
    for (StageCounters& c : counters)
      if (c.plan == plan) return *(last = &c);
    last = &counters[next_victim];
    next_victim = (next_victim + 1) % counters.size();
    *last = StageCounters{.plan = plan};
    return *last;
  }

  std::array<StageCounters, 8> counters{};
  StageCounters* last = &counters[0];
  std::size_t next_victim = 0;
};

}  // namespace carya::transforms
