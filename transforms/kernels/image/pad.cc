#include "transforms/kernels/image/pad.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace carya::transforms {
namespace {

void fill_pixels(std::uint8_t* out, std::int64_t count, std::int64_t channels,
                 const std::array<std::uint8_t, 4>& fill) {
  for (std::int64_t x = 0; x < count; ++x) {
    for (std::int64_t c = 0; c < channels; ++c) out[x * channels + c] = fill[static_cast<std::size_t>(c)];
  }
}

void padded_row(const ImageView& in, const Region& window, std::int64_t y, PaddingMode mode,
                const std::array<std::uint8_t, 4>& fill, std::uint8_t* out) {
  const std::int64_t channels = in.channels;
  const std::int64_t from_y = padded_index(window.top + y, in.height, mode);
  if (from_y < 0) return fill_pixels(out, window.width, channels, fill);
  const std::uint8_t* row = in.row(from_y);
  // [begin, end) of the window's columns lie inside the picture.
  const std::int64_t begin = std::clamp<std::int64_t>(-window.left, 0, window.width);
  const std::int64_t end = std::clamp<std::int64_t>(in.width - window.left, begin, window.width);
  const auto border = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t x = first; x < last; ++x) {
      const std::int64_t from_x = padded_index(window.left + x, in.width, mode);
      for (std::int64_t c = 0; c < channels; ++c) {
        out[x * channels + c] = from_x < 0 ? fill[static_cast<std::size_t>(c)] : row[from_x * channels + c];
      }
    }
  };
  border(0, begin);
  if (end > begin) {
    std::memcpy(out + begin * channels, row + (window.left + begin) * channels,
                static_cast<std::size_t>((end - begin) * channels));
  }
  border(end, window.width);
}

}  // namespace

std::int64_t padded_index(std::int64_t at, std::int64_t size, PaddingMode mode) {
  if (at >= 0 && at < size) return at;
  switch (mode) {
    case PaddingMode::kConstant:
      return -1;
    case PaddingMode::kEdge:
      return at < 0 ? 0 : size - 1;
    case PaddingMode::kReflect:
      return reflected(at, size);
    case PaddingMode::kSymmetric: {
      const std::int64_t period = 2 * size;
      const std::int64_t r = ((at % period) + period) % period;
      return r < size ? r : period - 1 - r;
    }
  }
  return -1;
}

std::int64_t reflected(std::int64_t at, std::int64_t size) {
  if (at >= 0 && at < size) return at;
  if (size == 1) return 0;
  const std::int64_t period = 2 * (size - 1);
  const std::int64_t r = ((at % period) + period) % period;
  return r < size ? r : period - r;
}

void crop_padded(const ImageView& in, const Region& window, PaddingMode mode,
                 const std::array<std::uint8_t, 4>& fill, const MutableImageView& out) {
  CHECK(in.height > 0 && in.width > 0 && in.channels >= 1 && in.channels <= 4);
  CHECK(out.height == window.height && out.width == window.width && out.channels == in.channels);
  for (std::int64_t y = 0; y < window.height; ++y) padded_row(in, window, y, mode, fill, out.row(y));
}

void crop_padded_rows(const ImageView& in, const Region& window, PaddingMode mode,
                      const std::array<std::uint8_t, 4>& fill, std::uint8_t* row_buffer,
                      const RowSink& sink) {
  CHECK(in.height > 0 && in.width > 0 && in.channels >= 1 && in.channels <= 4);
  for (std::int64_t y = 0; y < window.height; ++y) {
    padded_row(in, window, y, mode, fill, row_buffer);
    sink(y, row_buffer);
  }
}

}  // namespace carya::transforms
