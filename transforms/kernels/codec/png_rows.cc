#include "transforms/kernels/codec/png_rows.h"

#include <cstdlib>
#include <cstring>

#include <zlib.h>

namespace carya::transforms {
namespace {

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
  if (file.size() - at < kFrame) return {};
  const std::uint32_t bytes = Chunk::big_endian(file.data() + at);
  if (bytes > file.size() - at - kFrame) return {};
  return {file.data() + at, bytes, at + kFrame + bytes};
}

// Source: PNG specification, 9.2. `a` is the sample to the left, `b` above, `c` above to the left.
void add_above(const std::uint8_t* in, const std::uint8_t* above, std::size_t bytes, std::uint8_t* row) {
  for (std::size_t i = 0; i < bytes; ++i) row[i] = static_cast<std::uint8_t>(in[i] + above[i]);
}

template <std::size_t kPixel>
void add_left(const std::uint8_t* in, std::size_t bytes, std::uint8_t* row) {
  std::uint8_t a[kPixel] = {};
  for (std::size_t i = 0; i < bytes; i += kPixel) {
    for (std::size_t c = 0; c < kPixel; ++c) row[i + c] = a[c] = static_cast<std::uint8_t>(in[i + c] + a[c]);
  }
}

template <std::size_t kPixel>
void add_average(const std::uint8_t* in, const std::uint8_t* above, std::size_t bytes, std::uint8_t* row) {
  unsigned a[kPixel] = {};
  for (std::size_t i = 0; i < bytes; i += kPixel) {
    for (std::size_t c = 0; c < kPixel; ++c)
      a[c] = row[i + c] = static_cast<std::uint8_t>(in[i + c] + ((a[c] + above[i + c]) >> 1));
  }
}

template <std::size_t kPixel>
void add_paeth(const std::uint8_t* in, const std::uint8_t* above, std::size_t bytes, std::uint8_t* row) {
  int left[kPixel] = {};
  int corner[kPixel] = {};
  for (std::size_t i = 0; i < bytes; i += kPixel) {
    for (std::size_t k = 0; k < kPixel; ++k) {
      const int a = left[k];
      const int b = above[i + k];
      const int c = corner[k];
      const int to_a = std::abs(b - c);
      const int to_b = std::abs(a - c);
      const int to_c = std::abs(a + b - 2 * c);
      const int nearer = to_b <= to_c ? b : c;
      left[k] = row[i + k] =
          static_cast<std::uint8_t>(in[i + k] + (to_a <= to_b && to_a <= to_c ? a : nearer));
      corner[k] = b;
    }
  }
}

template <std::size_t kPixel>
bool undo(unsigned filter, const std::uint8_t* in, const std::uint8_t* above, std::size_t bytes,
          std::uint8_t* row) {
  switch (filter) {
    case 0:
      std::memcpy(row, in, bytes);
      return true;
    case 1:
      add_left<kPixel>(in, bytes, row);
      return true;
    case 2:
      add_above(in, above, bytes, row);
      return true;
    case 3:
      add_average<kPixel>(in, above, bytes, row);
      return true;
    case 4:
      add_paeth<kPixel>(in, above, bytes, row);
      return true;
    default:
      return false;
  }
}

}  // namespace

// All image data in one piece. libspng looks at the CRC of a chunk when it goes on to the next one, so that the last one's does
// not count.
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

bool PngRows::begin(std::span<const std::byte> file, std::size_t row_bytes, std::size_t pixel_bytes,
                    std::uint32_t height) {
  row_bytes_ = row_bytes;
  pixel_bytes_ = pixel_bytes;
  if (row_bytes > kRowBytesMax || !zeros_.reserve(row_bytes) || !gather(file)) return false;
  std::memset(zeros_.data(), 0, row_bytes);
  return inflater_.begin({packed_.data(), packed_bytes_}, (row_bytes + 1) * std::uint64_t{height},
                         row_bytes + 1);
}

bool PngRows::next(const std::uint8_t* above, std::uint8_t* row) {
  const std::uint8_t* in = inflater_.take(row_bytes_ + 1);
  if (in == nullptr) return false;
  if (above == nullptr) above = zeros_.data();
  switch (pixel_bytes_) {
    case 1:
      return undo<1>(in[0], in + 1, above, row_bytes_, row);
    case 2:
      return undo<2>(in[0], in + 1, above, row_bytes_, row);
    case 3:
      return undo<3>(in[0], in + 1, above, row_bytes_, row);
    case 4:
      return undo<4>(in[0], in + 1, above, row_bytes_, row);
    case 6:
      return undo<6>(in[0], in + 1, above, row_bytes_, row);
    default:
      return undo<8>(in[0], in + 1, above, row_bytes_, row);
  }
}

}  // namespace carya::transforms
