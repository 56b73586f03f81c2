#include "transforms/kernels/store/store.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "transforms/kernels/store/store_simd.h"

namespace carya::transforms {
namespace {

constexpr std::int64_t kFlipBand = 336;             // pixels reversed at a time on the stack
constexpr std::int64_t kStreamBytesMin = 16 << 10;  // smaller pictures stay in the cache

// Interleaved floats, from the right end when flipped: reversed band by band, then stored in order.
void store_interleaved(const std::uint8_t* pixels, const StoreSpec& spec, float* out) {
  const int channels = static_cast<int>(spec.channels);
  if (!spec.flip_horizontal) {
    return store_values(pixels, spec.width * channels, channels, spec.affine, spec.stream, out);
  }
  std::uint8_t band[kFlipBand * 4];
  for (std::int64_t x = 0; x < spec.width; x += kFlipBand) {
    const std::int64_t count = spec.width - x < kFlipBand ? spec.width - x : kFlipBand;
    reverse_pixels(pixels + (spec.width - x - count) * channels, count, channels, band);
    store_values(band, count * channels, channels, spec.affine, false, out + x * channels);
  }
}

void store_plane_floats(const std::uint8_t* pixels, const StoreSpec& spec, float* out, std::int64_t plane) {
  if (spec.channels == 3) {
    float* const planes[3] = {out, out + plane, out + 2 * plane};
    return store_planes(pixels, spec.width, spec.affine, spec.flip_horizontal, spec.stream, planes);
  }
  for (std::int64_t x = 0; x < spec.width; ++x) {
    const std::int64_t to = spec.flip_horizontal ? spec.width - 1 - x : x;
    for (std::int64_t c = 0; c < spec.channels; ++c) {
      const auto k = static_cast<std::size_t>(c);
      out[c * plane + to] =
          static_cast<float>(pixels[x * spec.channels + c]) * spec.affine.a[k] + spec.affine.b[k];
    }
  }
}

// Floats at an odd address, value by value; a slot's tensors never are.
void store_misaligned(const std::uint8_t* pixels, const StoreSpec& spec, bool planes, std::byte* out,
                      std::int64_t plane) {
  for (std::int64_t x = 0; x < spec.width; ++x) {
    const std::int64_t to = spec.flip_horizontal ? spec.width - 1 - x : x;
    for (std::int64_t c = 0; c < spec.channels; ++c) {
      const auto k = static_cast<std::size_t>(c);
      const float value =
          static_cast<float>(pixels[x * spec.channels + c]) * spec.affine.a[k] + spec.affine.b[k];
      std::memcpy(out + 4 * (planes ? c * plane + to : to * spec.channels + c), &value, sizeof(value));
    }
  }
}

void split_plane_bytes(const std::uint8_t* pixels, const StoreSpec& spec, std::uint8_t* out,
                       std::int64_t plane) {
  if (spec.channels == 3) {
    std::uint8_t* const planes[3] = {out, out + plane, out + 2 * plane};
    return split_planes(pixels, spec.width, spec.flip_horizontal, planes);
  }
  for (std::int64_t x = 0; x < spec.width; ++x) {
    const std::int64_t to = spec.flip_horizontal ? spec.width - 1 - x : x;
    for (std::int64_t c = 0; c < spec.channels; ++c) out[c * plane + to] = pixels[x * spec.channels + c];
  }
}

}  // namespace

RowStore::RowStore(const StoreSpec& spec, std::byte* out) : spec_(spec), out_(out) {
  CHECK(spec.channels == 1 || spec.channels == 3 || spec.channels == 4);
  lines_ = spec.stream && !spec.to_float && !spec.flip_vertical &&
           (spec.layout == Layout::kHwc || spec.channels == 1) && spec.bytes() >= kStreamBytesMin;
}

void RowStore::append(const std::uint8_t* bytes, std::int64_t count) {
  auto* to = reinterpret_cast<std::uint8_t*>(out_) + appended_;
  appended_ += count;
  // The bytes before the first line boundary of the output, or those that fill the line that waits.
  const auto into_line = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % 64);
  if (into_line != 0) {
    const std::int64_t part = std::min(count, 64 - into_line);
    if (waiting_ == 0) {
      std::memcpy(to, bytes, static_cast<std::size_t>(part));  // the head, shared with another's line
    } else {
      std::memcpy(line_ + waiting_, bytes, static_cast<std::size_t>(part));
      waiting_ += part;
      if (waiting_ == 64) {
        stream_lines(line_, 1, to + part - 64);
        waiting_ = 0;
      }
    }
    to += part;
    bytes += part;
    count -= part;
  }
  const std::int64_t whole = count / 64;
  if (whole > 0) stream_lines(bytes, whole, to);
  const std::int64_t rest = count - 64 * whole;
  if (rest == 0) return;
  std::memcpy(line_, bytes + 64 * whole, static_cast<std::size_t>(rest));
  waiting_ = rest;
}

void RowStore::append_row(const std::uint8_t* pixels) {
  const std::int64_t channels = spec_.channels;
  if (!spec_.flip_horizontal) return append(pixels, spec_.width * channels);
  std::uint8_t band[kFlipBand * 4];
  for (std::int64_t x = 0; x < spec_.width; x += kFlipBand) {
    const std::int64_t count = std::min(spec_.width - x, kFlipBand);
    reverse_pixels(pixels + (spec_.width - x - count) * channels, count, static_cast<int>(channels), band);
    append(band, count * channels);
  }
}

void RowStore::row(std::int64_t y, const std::uint8_t* pixels) {
  const std::int64_t to = spec_.flip_vertical ? spec_.height - 1 - y : y;
  const std::int64_t plane = spec_.height * spec_.width;
  const bool planes = spec_.layout == Layout::kChw && spec_.channels > 1;
  const std::int64_t first = to * spec_.width * (planes ? 1 : spec_.channels);
  if (spec_.to_float) {
    if (reinterpret_cast<std::uintptr_t>(out_) % alignof(float) != 0) {
      return store_misaligned(pixels, spec_, planes, out_ + first * 4, plane);
    }
    float* out = reinterpret_cast<float*>(out_) + first;
    if (planes) return store_plane_floats(pixels, spec_, out, plane);
    return store_interleaved(pixels, spec_, out);
  }
  auto* out = reinterpret_cast<std::uint8_t*>(out_) + first;
  if (planes) return split_plane_bytes(pixels, spec_, out, plane);
  if (lines_) return append_row(pixels);
  if (spec_.flip_horizontal)
    return reverse_pixels(pixels, spec_.width, static_cast<int>(spec_.channels), out);
  std::memcpy(out, pixels, static_cast<std::size_t>(spec_.width * spec_.channels));
}

void RowStore::finish() {
  if (waiting_ > 0) {
    std::memcpy(reinterpret_cast<std::uint8_t*>(out_) + appended_ - waiting_, line_,
                static_cast<std::size_t>(waiting_));
    waiting_ = 0;
  }
  if (spec_.stream) stream_fence();
}

RowSink RowStore::sink() {
  return {this, [](void* self, std::int64_t y, const std::uint8_t* pixels) {
            static_cast<RowStore*>(self)->row(y, pixels);
          }};
}

void store_image(const ImageView& in, const StoreSpec& spec, std::byte* out) {
  CHECK(in.height == spec.height && in.width == spec.width && in.channels == spec.channels);
  StoreSpec flat = spec;
  const bool in_order = (spec.layout == Layout::kHwc || spec.channels == 1) && !spec.flip_horizontal &&
                        !spec.flip_vertical && in.stride_bytes == in.row_bytes();
  if (in_order) {  // one long row: small pictures would drown in calls
    flat.width = spec.width * spec.height;
    flat.height = 1;
  }
  RowStore store(flat, out);
  for (std::int64_t y = 0; y < flat.height; ++y) store.row(y, in.row(y));
  store.finish();
}

void store_float_image(const float* in, Layout in_layout, const StoreSpec& spec, std::byte* out) {
  const std::int64_t plane = spec.height * spec.width;
  const auto at = [&](Layout layout, std::int64_t y, std::int64_t x, std::int64_t c) {
    return layout == Layout::kChw ? c * plane + y * spec.width + x : (y * spec.width + x) * spec.channels + c;
  };
  for (std::int64_t c = 0; c < spec.channels; ++c) {
    const float a = spec.affine.a[static_cast<std::size_t>(c)];
    const float b = spec.affine.b[static_cast<std::size_t>(c)];
    for (std::int64_t y = 0; y < spec.height; ++y) {
      const std::int64_t to_y = spec.flip_vertical ? spec.height - 1 - y : y;
      const float* from = in + at(in_layout, y, 0, c);
      std::byte* row = out + 4 * at(spec.layout, to_y, spec.flip_horizontal ? spec.width - 1 : 0, c);
      const std::int64_t from_step = in_layout == Layout::kChw ? 1 : spec.channels;
      const std::int64_t to_step =
          (spec.layout == Layout::kChw ? 1 : spec.channels) * (spec.flip_horizontal ? -1 : 1);
      for (std::int64_t x = 0; x < spec.width; ++x) {
        const float value = from[x * from_step] * a + b;
        std::memcpy(row + 4 * x * to_step, &value, sizeof(value));
      }
    }
  }
}

}  // namespace carya::transforms
