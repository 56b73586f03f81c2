#include "transforms/coefficients/entry.h"

#include <algorithm>
#include <array>

#include "base/hash.h"

namespace carya::coefficients {
namespace {

constexpr std::uint32_t kMagic = 0x31435043;  // "CPC1" in little-endian bytes
constexpr std::size_t kHeadBytes = 24;
constexpr std::size_t kChecksumBytes = 4;
constexpr std::size_t kRowBytes = 4;
constexpr std::size_t kSizeAt = 4;
constexpr std::uint8_t kWide = 128;  // quantisers have two bytes
constexpr int kQuantMax = 8191;      // as in jpeg/header.cc

template <typename T>
T get(const std::uint8_t* at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(at[i]) << (8 * i));
  return value;
}

template <typename T>
void put(std::uint8_t* at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<std::uint8_t>(value >> (8 * i));
}

template <typename T>
void append(std::vector<std::uint8_t>& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

bool set_sampling(jpeg::Header& header, std::uint8_t sampling) {
  if (sampling > static_cast<std::uint8_t>(jpeg::Sampling::k420)) return false;
  header.sampling = static_cast<jpeg::Sampling>(sampling);
  header.component_count = header.sampling == jpeg::Sampling::kGray ? 1 : 3;
  jpeg::Component& luma = header.components[0];
  luma.h = header.sampling == jpeg::Sampling::k422 || header.sampling == jpeg::Sampling::k420 ? 2 : 1;
  luma.v = header.sampling == jpeg::Sampling::k420 ? 2 : 1;
  return true;
}

std::uint32_t checksum_of(std::span<const std::uint8_t> bytes) {
  return static_cast<std::uint32_t>(hash64(std::as_bytes(bytes)));
}

// Where the directory begins: behind the quantisers.
std::size_t directory_at(std::size_t tables, bool wide) {
  return kHeadBytes + tables * 64 * (wide ? 2 : 1);
}

}  // namespace

bool read_head(std::span<const std::uint8_t> bytes, EntryHead& head) {
  if (bytes.size() < kHeadBytes + kChecksumBytes) return false;
  const std::uint8_t* const at = bytes.data();
  if (get<std::uint32_t>(at) != kMagic || get<std::uint32_t>(at + kSizeAt) != bytes.size()) return false;
  jpeg::Header& header = head.header;
  header = {};
  header.width = get<std::uint16_t>(at + 8);
  header.height = get<std::uint16_t>(at + 10);
  const std::size_t tables = at[13] & 127U;
  const bool wide = (at[13] & kWide) != 0;
  if (std::min(header.width, header.height) < 1 || std::max(header.width, header.height) > jpeg::kSideMax)
    return false;
  if (!set_sampling(header, at[12]) || tables < 1 || tables > 3) return false;
  head.facts.scans = get<std::uint16_t>(at + 14);
  head.facts.file_bytes = get<std::uint32_t>(at + 16);
  head.facts.orientation = at[20];
  if (head.facts.orientation < 1 || head.facts.orientation > 8) return false;
  for (std::size_t c = 0; c < 3; ++c) {
    header.components[c].quant = at[21 + c];
    if (header.components[c].quant >= tables) return false;
  }
  if (jpeg::settle_geometry(header) != jpeg::Ordinary::kOrdinary) return false;
  const std::size_t directory = directory_at(tables, wide);
  head.rows_begin = directory + kRowBytes * static_cast<std::size_t>(header.mcu_rows);
  head.rows_end = bytes.size() - kChecksumBytes;
  if (head.rows_begin > head.rows_end) return false;
  const std::uint8_t* quant = at + kHeadBytes;
  for (std::size_t t = 0; t < tables; ++t) {
    for (std::size_t k = 0; k < 64; ++k, quant += wide ? 2 : 1) {
      const int value = wide ? get<std::uint16_t>(quant) : *quant;
      if (value > kQuantMax) return false;
      header.quant[t][jpeg::kZigzag[k]] = static_cast<std::uint16_t>(value);
    }
  }
  head.rows = bytes.subspan(directory, head.rows_begin - directory);
  return true;
}

bool has_right_checksum(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kChecksumBytes) return false;
  const auto body = bytes.first(bytes.size() - kChecksumBytes);
  return get<std::uint32_t>(bytes.data() + body.size()) == checksum_of(body);
}

std::span<const std::uint8_t> row_of(std::span<const std::uint8_t> bytes, const EntryHead& head, int mcu_y) {
  const std::size_t at = kRowBytes * static_cast<std::size_t>(mcu_y);
  const std::size_t begin = get<std::uint32_t>(head.rows.data() + at);
  const std::size_t end = mcu_y + 1 < head.header.mcu_rows
                              ? get<std::uint32_t>(head.rows.data() + at + kRowBytes)
                              : head.rows_end;
  if (begin < head.rows_begin || end < begin || end > head.rows_end) return {};
  return bytes.subspan(begin, end - begin);
}

bool write_head(const jpeg::Header& header, const EntryFacts& facts, std::vector<std::uint8_t>& out) {
  // Components that share a quantiser in the file share it here.
  std::array<std::uint8_t, 3> table{}, source{};
  std::size_t tables = 0;
  for (std::size_t c = 0; c < static_cast<std::size_t>(header.component_count); ++c) {
    const std::uint8_t wanted = header.components[c].quant;
    const auto* const known = std::find(source.data(), source.data() + tables, wanted);
    table[c] = static_cast<std::uint8_t>(known - source.data());
    if (table[c] == tables) source[tables++] = wanted;
  }
  std::uint16_t largest = 0;
  for (std::size_t t = 0; t < tables; ++t)
    largest = std::max(largest, *std::ranges::max_element(header.quant[source[t]]));
  if (largest > kQuantMax) return false;
  const bool wide = largest > 255;
  append(out, kMagic);
  append(out, std::uint32_t{0});  // finish_entry() sets the length
  append(out, static_cast<std::uint16_t>(header.width));
  append(out, static_cast<std::uint16_t>(header.height));
  append(out, static_cast<std::uint8_t>(header.sampling));
  append(out, static_cast<std::uint8_t>(tables | (wide ? kWide : 0U)));
  append(out, facts.scans);
  append(out, facts.file_bytes);
  append(out, facts.orientation);
  for (const std::uint8_t number : table) append(out, number);
  for (std::size_t t = 0; t < tables; ++t) {
    for (std::size_t k = 0; k < 64; ++k) {
      const std::uint16_t value = header.quant[source[t]][jpeg::kZigzag[k]];
      if (wide)
        append(out, value);
      else
        append(out, static_cast<std::uint8_t>(value));
    }
  }
  out.resize(out.size() + kRowBytes * static_cast<std::size_t>(header.mcu_rows));
  return true;
}

void patch_row(int mcu_y, std::vector<std::uint8_t>& out) {
  const std::size_t directory = directory_at(out[13] & 127U, (out[13] & kWide) != 0);
  put(out.data() + directory + kRowBytes * static_cast<std::size_t>(mcu_y),
      static_cast<std::uint32_t>(out.size()));
}

void finish_entry(std::vector<std::uint8_t>& out) {
  put(out.data() + kSizeAt, static_cast<std::uint32_t>(out.size() + kChecksumBytes));
  append(out, checksum_of(out));
}

}  // namespace carya::coefficients
