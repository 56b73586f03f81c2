#pragma once

#include <cstdint>

#include "tests/transforms/kernel_memory.h"
#include "transforms/kernels/image/image_view.h"

namespace carya::transforms {

/// Noise between guard pages, rows apart by `gap` bytes, with values from `low` to `high`. The bytes between
/// rows are 0.
class NoisyPicture {
 public:
  struct Shape {
    std::int64_t height, width, channels, gap;
    int low, high;
  };

  explicit NoisyPicture(const Shape& shape, GuardedBytes::At at = GuardedBytes::At::kEnd)
      : shape_(shape),
        stride_(shape.width * shape.channels + shape.gap),
        memory_(static_cast<std::size_t>(stride_ * (shape.height - 1) + shape.width * shape.channels), at) {
    Noise noise(static_cast<std::uint64_t>(shape.height * 7 + shape.width * 3 + shape.low));
    for (std::int64_t y = 0; y < shape.height; ++y)
      for (std::int64_t i = 0; i < shape.width * shape.channels; ++i)
        view().row(y)[i] = static_cast<std::uint8_t>(shape.low + noise.below(shape.high - shape.low + 1));
  }

  MutableImageView view() const {
    return {memory_.data(), shape_.height, shape_.width, shape_.channels, stride_};
  }

  /// Whether nothing was written between the rows.
  bool gaps_are_untouched() const {
    for (std::int64_t y = 0; y + 1 < shape_.height; ++y)
      for (std::int64_t i = 0; i < shape_.gap; ++i)
        if (view().row(y)[view().row_bytes() + i] != 0) return false;
    return true;
  }

 private:
  Shape shape_;
  std::int64_t stride_;
  GuardedBytes memory_;
};

/// Value of channel c of the pixel at row y, column x.
inline int value_at(const ImageView& picture, std::int64_t y, std::int64_t x, std::int64_t c) {
  return picture.row(y)[x * picture.channels + c];
}

}  // namespace carya::transforms
