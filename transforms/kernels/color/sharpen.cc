#include "transforms/kernels/color/sharpen.h"

#include <cstring>

#include "base/error.h"
#include "transforms/kernels/color/color_simd.h"

namespace carya::transforms {
void sharpen(const ImageView& in, float factor, const MutableImageView& out, Patience* patience) {
  CHECK(in.height == out.height && in.width == out.width && in.channels == out.channels);
  const bool narrow = in.width < 3 || in.height < 3;
  for (std::int64_t y = 0; y < in.height && goes_on(patience, 3 * in.row_bytes()); ++y) {
    const std::uint8_t* row = in.row(y);
    std::uint8_t* to = out.row(y);
    if (narrow || y == 0 || y == in.height - 1) {
      std::memcpy(to, row, static_cast<std::size_t>(in.row_bytes()));
      continue;
    }
    const std::int64_t end = in.row_bytes() - in.channels;
    std::memcpy(to, row, static_cast<std::size_t>(in.channels));
    sharpen_row(in.row(y - 1), row, in.row(y + 1), in.channels, end, static_cast<int>(in.channels), factor,
                to);
    std::memcpy(to + end, row + end, static_cast<std::size_t>(in.channels));
  }
}

}  // namespace carya::transforms
