#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <spng.h>
#include <zlib.h>

#include "transforms/kernels/codec/png_rows.h"

namespace carya::transforms {

/// What libspng says of a file, asked as PngReader asks it.
struct PngReference {
  using Bytes = std::vector<std::uint8_t>;

  int status = 0;
  spng_ihdr header{};
  std::size_t bytes = 0;  // of a row
  Bytes rows;

  explicit PngReference(const Bytes& file) {
    spng_ctx* context = spng_ctx_new(0);
    status = read(context, file);
    spng_ctx_free(context);
  }
  int read(spng_ctx* context, const Bytes& file) {
    spng_set_crc_action(context, SPNG_CRC_ERROR, SPNG_CRC_ERROR);
    spng_set_chunk_limits(context, 16 << 20, 64 << 20);
    spng_set_png_buffer(context, file.data(), file.size());
    if (const int found = spng_get_ihdr(context, &header); found != 0) return found;
    if (std::uint64_t{header.width} * header.height > 1'000'000) return 0;  // PngReader's limit refuses it
    spng_exif exif{};
    if (const int found = spng_get_exif(context, &exif); found != 0 && found != SPNG_ECHUNKAVAIL)
      return found;
    spng_plte palette{};
    if (header.color_type == SPNG_COLOR_TYPE_INDEXED) {
      if (const int found = spng_get_plte(context, &palette); found != 0) return found;
    }
    int found = spng_decode_image(context, nullptr, 0, SPNG_FMT_RAW, SPNG_DECODE_PROGRESSIVE);
    constexpr std::array<std::size_t, 7> kChannels{1, 0, 3, 1, 2, 0, 4};
    bytes = (header.width * kChannels[header.color_type] * header.bit_depth + 7) / 8;
    if (header.interlace_method != 0) {  // the reader's only way; rows are not compared
      while (found == 0) {
        rows.resize(bytes);
        found = spng_decode_row(context, rows.data(), bytes);
      }
      return found == SPNG_EOI ? 0 : found;
    }
    while (found == 0) {
      rows.resize(rows.size() + bytes);
      found = spng_decode_row(context, rows.data() + rows.size() - bytes, bytes);
    }
    return found == SPNG_EOI ? 0 : found;
  }
  std::string words() const { return status == 0 ? "" : std::string("PNG: ") + spng_strerror(status); }
};

/// The rows by our own unpacking; false if it refuses.
inline bool own_rows(const PngReference::Bytes& file, const spng_ihdr& header, std::size_t bytes,
                     PngReference::Bytes& rows) {
  constexpr std::array<std::size_t, 7> kChannels{1, 0, 3, 1, 2, 0, 4};
  PngRows reader;
  const std::size_t pixel = std::max<std::size_t>(1, kChannels[header.color_type] * header.bit_depth / 8);
  if (!reader.begin(std::as_bytes(std::span(file)), bytes, pixel, header.height)) return false;
  std::array<PngReference::Bytes, 2> two{PngReference::Bytes(bytes), PngReference::Bytes(bytes)};
  rows.clear();
  for (std::uint32_t y = 0; y < header.height; ++y) {
    std::uint8_t* row = two[y % 2].data();
    if (!reader.next(y == 0 ? nullptr : two[1 - y % 2].data(), row)) return false;
    rows.insert(rows.end(), row, row + bytes);
  }
  return true;
}

inline void append_big_endian(PngReference::Bytes& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<std::uint8_t>(value >> shift));
}

/// Make the CRC of each chunk right.
inline void correct_sums(PngReference::Bytes& file) {
  for (std::size_t at = 8; at + 12 <= file.size();) {
    const std::size_t size = std::size_t{file[at]} << 24 | std::size_t{file[at + 1]} << 16 |
                             std::size_t{file[at + 2]} << 8 | file[at + 3];
    if (size > file.size() - at - 12) return;
    PngReference::Bytes sum;
    append_big_endian(sum, static_cast<std::uint32_t>(crc32(0, &file[at + 4], static_cast<uInt>(size + 4))));
    std::copy(sum.begin(), sum.end(), file.begin() + static_cast<std::ptrdiff_t>(at + 8 + size));
    at += size + 12;
  }
}

}  // namespace carya::transforms
