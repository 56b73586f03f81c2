#include "transforms/kernels/codec/png_rows.h"

#include <cstring>

#include <zlib.h>

#include "transforms/simd/config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/kernels/codec/png_rows.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "transforms/kernels/codec/png_rows-inl.h"

#if HWY_ONCE

namespace carya::transforms {
namespace {

HWY_EXPORT(UndoFilter);

constexpr std::size_t kSignature = 8;

// A chunk that is whole in the file.
struct Chunk {
  const std::byte* start = nullptr;  // null: there is none
  std::uint32_t bytes = 0;           // of its data
  std::size_t end = 0;               // in the file, behind the CRC

  bool image_data() const { return start != nullptr && std::memcmp(start + 4, "IDAT", 4) == 0; }
  const std::byte* data() const { return start + 8; }
  bool intact() const {
    return crc32(0, reinterpret_cast<const Bytef*>(start + 4), bytes + 4) == big_endian(data() + bytes);
  }
  static std::uint32_t big_endian(const std::byte* p) {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(p[i]);
    return value;
  }
};

Chunk chunk_at(std::span<const std::byte> file, std::size_t at) {
  constexpr std::size_t kFrame = 12;  // length, type, CRC
  constexpr std::uint32_t kBytesMax = 0x7FFFFFFF;
  if (file.size() - at < kFrame) return {};
  const std::uint32_t bytes = Chunk::big_endian(file.data() + at);
  if (bytes > kBytesMax || bytes > file.size() - at - kFrame) return {};
  return {file.data() + at, bytes, at + kFrame + bytes};
}

}  // namespace

// All image data in one piece. libspng looks at the CRC of a chunk when it goes on to the next one, so that the last
// one's does not count.
bool PngRows::gather(std::span<const std::byte> file) {
  if (file.size() < kSignature) return false;
  Chunk chunk = chunk_at(file, kSignature);
  while (chunk.start != nullptr && !chunk.image_data()) chunk = chunk_at(file, chunk.end);
  const Chunk first = chunk;
  packed_bytes_ = 0;
  for (; chunk.image_data(); chunk = chunk_at(file, chunk.end)) packed_bytes_ += chunk.bytes;
  if (!packed_.reserve(packed_bytes_ + Inflater::kSlack)) return false;
  std::uint8_t* out = packed_.data();
  chunk = first;
  while (chunk.image_data()) {
    const Chunk after = chunk_at(file, chunk.end);
    if (after.image_data() && !chunk.intact()) return false;
    std::memcpy(out, chunk.data(), chunk.bytes);
    out += chunk.bytes;
    chunk = after;
  }
  std::memset(out, 0, Inflater::kSlack);
  return true;
}

bool PngRows::begin_rows(std::span<const std::byte> file, std::size_t row_bytes, std::size_t pixel_bytes,
                         std::uint32_t height, std::uint32_t at_once) {
  row_bytes_ = row_bytes;
  pixel_bytes_ = pixel_bytes;
  if (row_bytes > kRowBytesMax || !zeros_.reserve(row_bytes) || !gather(file)) return false;
  std::memset(zeros_.data(), 0, row_bytes);
  return inflater_.begin({packed_.data(), packed_bytes_}, (row_bytes + 1) * std::uint64_t{height},
                         (row_bytes + 1) * at_once);
}

bool PngRows::begin(std::span<const std::byte> file, std::size_t row_bytes, std::size_t pixel_bytes,
                    std::uint32_t height) {
  return begin_rows(file, row_bytes, pixel_bytes, height, 1);
}

// A row behind its filter's number. `row` is another one, or of pixels of one byte the same.
bool PngRows::undo(const std::uint8_t* in, const std::uint8_t* above, std::uint8_t* row) const {
  if (in[0] > 4) return false;
  if (in[0] == 0) {
    if (row != in + 1) std::memcpy(row, in + 1, row_bytes_);
    return true;
  }
  if (above == nullptr) above = zeros_.data();
  HWY_DYNAMIC_DISPATCH(UndoFilter)(in[0], pixel_bytes_, in + 1, above, row_bytes_, row);
  return true;
}

bool PngRows::next(const std::uint8_t* above, std::uint8_t* row) {
  const std::uint8_t* in = inflater_.take(row_bytes_ + 1);
  return in != nullptr && undo(in, above, row);
}

const std::uint8_t* PngRows::all(std::span<const std::byte> file, std::size_t row_bytes,
                                 std::uint32_t height) {
  const std::size_t stride = row_bytes + 1;
  if (!begin_rows(file, row_bytes, 1, height, height)) return nullptr;
  std::uint8_t* rows = inflater_.take(stride * height);
  if (rows == nullptr) return nullptr;
  for (std::uint32_t y = 0; y < height; ++y) {
    std::uint8_t* in = rows + stride * y;
    if (!undo(in, y == 0 ? nullptr : in + 1 - stride, in + 1)) return nullptr;
  }
  return rows + 1;
}

}  // namespace carya::transforms

#endif  // HWY_ONCE
