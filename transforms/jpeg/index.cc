#include "transforms/jpeg/index.h"

#include <cstdint>
#include "base/hash.h"

namespace carya::jpeg {
namespace {

constexpr std::uint32_t kMagic = 0x31494A43;  // "CJI1" in little-endian bytes
constexpr std::size_t kHeaderBytes = 36;
constexpr std::size_t kChecksumBytes = 4;
constexpr std::uint32_t kSideMcusMax = 8192;  // 65,500 pixels in blocks of 8, rounded up

/// The most bytes of one number of a point: bits of a scan below 4 GiB have 35 bits, seven in each byte.
constexpr std::size_t kVarintBytesMax = 5;

template <typename T>
std::uint8_t* put(std::uint8_t* at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) *at++ = static_cast<std::uint8_t>(value >> (8 * i));
  return at;
}

template <typename T>
T get(const std::uint8_t* at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(at[i]) << (8 * i));
  return value;
}

// Nearly all numbers have one byte or two, in no order that a processor could predict. So both bytes are written
// without a branch, and the second counts or not.
std::uint8_t* put_varint(std::uint8_t* at, std::uint64_t value) {
  for (; value >= 1 << 14; value >>= 7) *at++ = static_cast<std::uint8_t>(value | 128);
  const std::uint8_t longer = value >= 128;
  at[0] = static_cast<std::uint8_t>((value & 127) | longer << 7);
  at[1] = static_cast<std::uint8_t>(value >> 7);
  return at + 1 + longer;
}

// Returns false if the number does not end before `end`, or is longer than any that we write.
bool get_varint(const std::uint8_t*& at, const std::uint8_t* end, std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 42 && at < end; shift += 7) {
    const std::uint8_t byte = *at++;
    value |= std::uint64_t{byte & 127u} << shift;
    if (byte < 128) return true;
  }
  return false;
}

std::uint32_t checksum(std::span<const std::uint8_t> bytes) {
  return static_cast<std::uint32_t>(hash64(std::as_bytes(bytes)));
}

std::uint64_t fold_sign(int value) {
  return value < 0 ? 2 * static_cast<std::uint64_t>(-static_cast<std::int64_t>(value)) - 1
                   : 2 * static_cast<std::uint64_t>(value);
}
std::int64_t unfold_sign(std::uint64_t value) {
  const std::int64_t half = static_cast<std::int64_t>((value + 1) >> 1);
  return (value & 1) != 0 ? -half : half;
}

}  // namespace

bool Index::fits(const Header& header, std::size_t file_bytes, std::uint64_t file_hash) const {
  return mcu_cols_ == header.mcu_cols && mcu_rows_ == header.mcu_rows &&
         component_count_ == header.component_count && file_bytes_ == file_bytes && file_hash_ == file_hash &&
         (points_.empty() ||
          (points_.front() == IndexPoint{} && points_.back().byte < file_bytes - header.scan_begin));
}

void Index::bind(const Header& header, std::size_t file_bytes, std::uint64_t file_hash) {
  points_.clear();
  mcu_cols_ = header.mcu_cols;
  mcu_rows_ = header.mcu_rows;
  component_count_ = header.component_count;
  file_bytes_ = file_bytes;
  file_hash_ = file_hash;
}

void Index::write(std::vector<std::uint8_t>& bytes) const {
  const std::size_t begin = bytes.size();
  // The room for the longest points. Unused bytes are cut off at the end.
  const std::size_t point_bytes_max = kVarintBytesMax * (1 + static_cast<std::size_t>(component_count_));
  bytes.resize(begin + kHeaderBytes + points_.size() * point_bytes_max + kChecksumBytes);
  std::uint8_t* at = bytes.data() + begin;
  at = put(at, kMagic);
  at = put(at, static_cast<std::uint16_t>(spacing_));
  at = put(at, static_cast<std::uint16_t>(component_count_));
  at = put(at, static_cast<std::uint32_t>(mcu_cols_));
  at = put(at, static_cast<std::uint32_t>(mcu_rows_));
  at = put(at, file_bytes_);
  at = put(at, file_hash_);
  at = put(at, static_cast<std::uint32_t>(points_.size()));
  std::uint64_t bit_before = 0;
  std::array<std::int16_t, 3> dc_before{};
  for (const IndexPoint& point : points_) {
    const std::uint64_t bit = std::uint64_t{point.byte} * 8 + point.bit;
    at = put_varint(at, bit - bit_before);
    for (int c = 0; c < component_count_; ++c) at = put_varint(at, fold_sign(point.dc[c] - dc_before[c]));
    bit_before = bit;
    dc_before = point.dc;
  }
  const std::size_t body = static_cast<std::size_t>(at - bytes.data()) - begin;
  put(at, checksum(std::span(bytes).subspan(begin, body)));
  bytes.resize(begin + body + kChecksumBytes);
}

bool Index::read(std::span<const std::uint8_t> bytes) {
  points_.clear();
  mcu_cols_ = mcu_rows_ = 0;
  if (bytes.size() < kHeaderBytes + kChecksumBytes || get<std::uint32_t>(bytes.data()) != kMagic)
    return false;
  const std::span<const std::uint8_t> body = bytes.first(bytes.size() - kChecksumBytes);
  if (get<std::uint32_t>(bytes.data() + body.size()) != checksum(body)) return false;
  const int spacing = get<std::uint16_t>(body.data() + 4);
  const int components = get<std::uint16_t>(body.data() + 6);
  const std::uint32_t cols = get<std::uint32_t>(body.data() + 8);
  const std::uint32_t rows = get<std::uint32_t>(body.data() + 12);
  const std::uint32_t count = get<std::uint32_t>(body.data() + 32);
  if (components != 1 && components != 3) return false;
  if (cols < 1 || rows < 1 || cols > kSideMcusMax || rows > kSideMcusMax) return false;
  const std::size_t point_bytes_min = 1 + static_cast<std::size_t>(components);
  if (count > static_cast<std::uint32_t>(points_per_row(spacing, static_cast<int>(cols))) * rows)
    return false;
  if (count > (body.size() - kHeaderBytes) / point_bytes_min) return false;  // bounds what is reserved
  if (!read_points(body.subspan(kHeaderBytes), count, components)) {
    points_.clear();
    return false;
  }
  spacing_ = spacing;
  component_count_ = components;
  mcu_cols_ = static_cast<int>(cols);
  mcu_rows_ = static_cast<int>(rows);
  file_bytes_ = get<std::uint64_t>(body.data() + 16);
  file_hash_ = get<std::uint64_t>(body.data() + 24);
  return true;
}

bool Index::read_points(std::span<const std::uint8_t> bytes, std::size_t count, int components) {
  const std::uint8_t* at = bytes.data();
  const std::uint8_t* const end = at + bytes.size();
  std::uint64_t bit = 0;
  IndexPoint point;
  points_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t value;
    if (!get_varint(at, end, value)) return false;
    bit += value;
    if (bit >> 35 != 0) return false;  // the byte must fit 32 bits
    point.byte = static_cast<std::uint32_t>(bit >> 3);
    point.bit = static_cast<std::uint8_t>(bit & 7);
    for (int c = 0; c < components; ++c) {
      if (!get_varint(at, end, value)) return false;
      const std::int64_t dc = point.dc[c] + unfold_sign(value);
      if (dc < INT16_MIN || dc > INT16_MAX) return false;
      point.dc[c] = static_cast<std::int16_t>(dc);
    }
    points_.push_back(point);
  }
  return at == end;
}

}  // namespace carya::jpeg
