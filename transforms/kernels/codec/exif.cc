#include "transforms/kernels/codec/exif.h"

#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace carya::transforms {
namespace {

constexpr unsigned kTagOrientation = 0x0112;
constexpr unsigned kTypeShort = 3;
constexpr std::size_t kEntryBytes = 12;

// Numbers of a TIFF block in its byte order. The caller has checked the bounds.
struct TiffReader {
  std::span<const std::byte> bytes;
  bool big;

  std::uint32_t number(std::size_t at, int width) const {
    std::uint32_t value = 0;
    for (int i = 0; i < width; ++i) {
      const auto byte =
          static_cast<std::uint32_t>(bytes[at + static_cast<std::size_t>(big ? i : width - 1 - i)]);
      value = (value << 8) | byte;
    }
    return value;
  }
};

struct Point {
  std::int64_t y, x;
};

// The stored pixel that is shown at (y, x). Source: Exif 2.32, tag 274.
Point stored_point(int orientation, std::int64_t y, std::int64_t x, std::int64_t height, std::int64_t width) {
  switch (orientation) {
    case 2:
      return {y, width - 1 - x};
    case 3:
      return {height - 1 - y, width - 1 - x};
    case 4:
      return {height - 1 - y, x};
    case 5:
      return {x, y};
    case 6:
      return {height - 1 - x, y};
    case 7:
      return {height - 1 - x, width - 1 - y};
    case 8:
      return {x, width - 1 - y};
    default:
      return {y, x};
  }
}

template <int kChannels>
void turn_row(const std::uint8_t* from, std::int64_t step, std::int64_t width, std::uint8_t* to) {
  for (std::int64_t x = 0; x < width; ++x, from += step, to += kChannels) {
    for (int c = 0; c < kChannels; ++c) to[c] = from[c];
  }
}

}  // namespace

int tiff_orientation(std::span<const std::byte> tiff) {
  if (tiff.size() < 8) return 1;
  const bool little = std::memcmp(tiff.data(), "II*\0", 4) == 0;
  const bool big = std::memcmp(tiff.data(), "MM\0*", 4) == 0;
  if (!little && !big) return 1;
  const TiffReader reader{tiff, big};
  const std::size_t directory = reader.number(4, 4);
  if (directory > tiff.size() - 2) return 1;
  const std::size_t entries = reader.number(directory, 2);
  std::size_t at = directory + 2;
  for (std::size_t i = 0; i < entries && tiff.size() - at >= kEntryBytes; ++i, at += kEntryBytes) {
    if (reader.number(at, 2) != kTagOrientation) continue;
    if (reader.number(at + 2, 2) != kTypeShort || reader.number(at + 4, 4) != 1) return 1;
    const std::uint32_t value = reader.number(at + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

bool is_exif(std::span<const std::byte> app1) {
  return app1.size() >= 6 && std::memcmp(app1.data(), "Exif\0\0", 6) == 0;
}

int exif_orientation(std::span<const std::byte> app1) {
  return is_exif(app1) ? tiff_orientation(app1.subspan(6)) : 1;
}

void apply_orientation(const ImageView& in, int orientation, const MutableImageView& out) {
  const bool swaps = orientation_swaps(orientation);
  CHECK(out.height == (swaps ? in.width : in.height) && out.width == (swaps ? in.height : in.width));
  CHECK(out.channels == in.channels);
  const auto at = [&](std::int64_t y, std::int64_t x) {
    const Point p = stored_point(orientation, y, x, in.height, in.width);
    return in.row(p.y) + p.x * in.channels;
  };
  if (out.height == 0 || out.width == 0) return;
  const std::int64_t step = out.width > 1 ? at(0, 1) - at(0, 0) : 0;
  for (std::int64_t y = 0; y < out.height; ++y) {
    switch (in.channels) {
      case 1:
        turn_row<1>(at(y, 0), step, out.width, out.row(y));
        break;
      case 3:
        turn_row<3>(at(y, 0), step, out.width, out.row(y));
        break;
      case 4:
        turn_row<4>(at(y, 0), step, out.width, out.row(y));
        break;
      default:
        CHECK(false);
    }
  }
}

Region orientation_source(const Region& region, int orientation, std::int64_t stored_height,
                          std::int64_t stored_width) {
  const Point a = stored_point(orientation, region.top, region.left, stored_height, stored_width);
  const Point b = stored_point(orientation, region.top + region.height - 1, region.left + region.width - 1,
                               stored_height, stored_width);
  const std::int64_t top = a.y < b.y ? a.y : b.y;
  const std::int64_t left = a.x < b.x ? a.x : b.x;
  const bool swaps = orientation_swaps(orientation);
  return {top, left, swaps ? region.width : region.height, swaps ? region.height : region.width};
}

}  // namespace carya::transforms
