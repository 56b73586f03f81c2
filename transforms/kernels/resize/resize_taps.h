#pragma once

#include <cstdint>
#include <vector>

#include "transforms/kernels/resize/resize_window.h"

namespace carya::transforms {

/// The weights of one dimension: output i is the weighted sum of inputs [start, start + count). Weights are fixed-point
/// numbers that add up to exactly one, so a flat picture stays flat.
///
/// With up to kNarrowTaps taps a weight has 14 bits, for the int16 kernels. With more it has 22 bits (as in Pillow),
/// for plain loops.
class ResizeTaps {
 public:
  static constexpr int kNarrowBits = 14;
  static constexpr int kWideBits = 22;
  static constexpr int kNarrowTaps = 16;

  /// Compute the weights for this size and filter, unless they are here already. Returns whether anything changed.
  bool update(std::int64_t in_size, std::int64_t out_size, Interpolation interpolation, bool antialias);

  std::int64_t in_size() const { return filter_.in_size; }
  std::int64_t out_size() const { return filter_.out_size; }
  std::int64_t start(std::int64_t i) const { return start_[static_cast<std::size_t>(i)]; }
  int count(std::int64_t i) const { return count_[static_cast<std::size_t>(i)]; }
  int taps_max() const { return taps_max_; }
  bool wide() const { return wide_; }
  const std::int16_t* narrow(std::int64_t i) const { return narrow_.data() + i * kNarrowTaps; }
  const std::int32_t* wide_weights(std::int64_t i) const { return wide_weights_.data() + i * wide_stride_; }

 private:
  void compute();
  void quantize(std::int64_t i);

  ResizeFilter filter_;
  bool computed_ = false;  // for filter_; false if compute() ran out of memory
  bool wide_ = false;
  int taps_max_ = 0;
  std::int64_t wide_stride_ = 0;
  std::vector<std::int32_t> start_;
  std::vector<std::int32_t> count_;
  std::vector<std::int16_t> narrow_;        // kNarrowTaps for each output, zero beyond its count
  std::vector<std::int32_t> wide_weights_;  // wide_stride_ for each output
  std::vector<double> weights_;             // of the output being computed
  std::vector<std::int32_t> quantized_;
  InputWindow window_;  // the window of that output
};

}  // namespace carya::transforms
