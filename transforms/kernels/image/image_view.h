#pragma once

#include <cstddef>
#include <cstdint>

namespace carya::transforms {

/// A picture in memory that others own: uint8, interleaved (height, width, channels), with rows `stride_bytes` apart.
/// Kernels read exactly the bytes of its pixels: none between rows and none after the last.
struct ImageView {
  const std::uint8_t* data = nullptr;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;      ///< 1, 3 or 4
  std::int64_t stride_bytes = 0;  ///< >= width * channels

  const std::uint8_t* row(std::int64_t y) const { return data + y * stride_bytes; }
  std::int64_t row_bytes() const { return width * channels; }
};

/// A picture that may be written. Kernels write exactly the bytes of its pixels.
struct MutableImageView {
  std::uint8_t* data = nullptr;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
  std::int64_t stride_bytes = 0;

  std::uint8_t* row(std::int64_t y) const { return data + y * stride_bytes; }
  std::int64_t row_bytes() const { return width * channels; }
  // NOLINTNEXTLINE(google-explicit-constructor): what may be written may be read.
  operator ImageView() const { return {data, height, width, channels, stride_bytes}; }
};

/// A rectangle of pixels: rows [top, top + height), columns [left, left + width).
struct Region {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const Region&) const = default;

  /// Whether the region is not empty and lies inside a picture of this size.
  bool inside(std::int64_t image_height, std::int64_t image_width) const {
    return top >= 0 && left >= 0 && height > 0 && width > 0 && height <= image_height - top &&
           width <= image_width - left;
  }
};

/// A view of `region`, which must be inside of `image`.
inline ImageView crop_view(const ImageView& image, const Region& region) {
  return {image.row(region.top) + region.left * image.channels, region.height, region.width, image.channels,
          image.stride_bytes};
}

/// Takes finished rows in ascending order, each once, by `row(context, y, pixels)`. `pixels` is valid during the call.
struct RowSink {
  void* context = nullptr;
  void (*row)(void* context, std::int64_t y, const std::uint8_t* pixels) = nullptr;

  void operator()(std::int64_t y, const std::uint8_t* pixels) const { row(context, y, pixels); }
};

}  // namespace carya::transforms
