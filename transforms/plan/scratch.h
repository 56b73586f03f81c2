#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "transforms/kernels/codec/exif.h"
#include "transforms/kernels/codec/image_codec.h"
#include "transforms/kernels/image/row_buffer.h"
#include "transforms/kernels/resize/resize.h"
#include "transforms/ops/geometry.h"
#include "transforms/plan/plan.h"

namespace carya::transforms {

/// A decode, an op on pictures each, the result, arrays.
inline constexpr std::size_t kStagesMax = kOpsMax + 3;

/// What one plan cost on this thread since it was last collected.
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
  std::uint64_t pictures = 0;  ///< decoded for the timed ones; the sums of their sides
  std::uint64_t height = 0;
  std::uint64_t width = 0;
  std::array<Stage, kStagesMax> stages{};
};

/// For the profile: where one picture's time went. Times are thread_cpu_ns().
struct PictureTrace {
  struct End {
    std::size_t stage = 0;
    std::int64_t at_ns = 0;
    std::int64_t bytes = 0;  ///< of the picture then
  };
  std::int64_t decoded_at_ns = 0;  ///< 0: there was no decode
  std::int64_t decoded_bytes = 0;
  std::array<End, kOpsMax> ends;  ///< of the stages between decode and result
  std::size_t count = 0;

  /// `number` of a stage, from 1.
  void end(std::uint8_t number, std::int64_t at, std::int64_t bytes) {
    ends[count++] = {number - 1U, at, bytes};
  }
  void clear() { decoded_at_ns = decoded_bytes = 0, count = 0; }
};

struct Scratch::Impl {
  std::vector<ImageDecoder>
      decoders;                  // one per encoded field: all headers are read before any picture is decoded
  std::vector<ImageInfo> infos;  // of them
  Resizer resizer;
  RowBuffer pictures[2];  // a picture on its way; each step reads one and writes the other
  RowBuffer bands[2];     // rows of a picture between changes that go through it together
  RowBuffer apart;        // a decoded picture that several read
  RowBuffer whole;        // a finished picture, for point ops without a fused store
  RowBuffer values[2];    // the same for point ops without a fused store
  StepList steps;
  PictureTrace trace;
  std::array<std::size_t, kOpsMax + 1> first_step{};  // of each geometric op

  std::function<bool()> go_on;  ///< Scratch::set_go_on()

  /// This plan's counters. A thread runs few plans; the one that waited longest to be collected makes room.
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
