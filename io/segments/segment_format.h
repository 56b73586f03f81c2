#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/checked.h"
#include "base/hash.h"

namespace carya::io {

/// The layouts of FORMAT.md. Little-endian, as every machine we build for.
struct SegmentHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t row_count;  ///< rows that the table has room for
  std::uint64_t place_high;
  std::uint64_t place_low;
  std::uint64_t salt;  ///< random per file: rows and payloads of another file never check
  std::uint64_t reserved[2];
  std::uint64_t hash;  ///< of the bytes before it
};
static_assert(sizeof(SegmentHeader) == 64 && offsetof(SegmentHeader, salt) == 32);

/// A row of the table: where the bytes of one entry lie.
struct SegmentRow {
  std::uint64_t identity_high;
  std::uint64_t identity_low;
  std::uint64_t offset;        ///< in the file, a multiple of kSegmentAlign
  std::uint64_t bytes;         ///< of the payload, 1 to kSegmentEntryBytesMax
  std::uint64_t payload_hash;  ///< seeded with salt and identity
  std::uint64_t hash;          ///< of the bytes before it, seeded with the salt and the number of the row
  Hash128 identity() const { return {identity_high, identity_low}; }
};
static_assert(sizeof(SegmentRow) == 48 && offsetof(SegmentRow, hash) == 40);
static_assert(std::is_trivially_copyable_v<SegmentHeader> && std::is_trivially_copyable_v<SegmentRow>);

inline constexpr char kSegmentMagic[8] = {'C', 'A', 'R', 'Y', 'A', 'S', 'E', 'G'};
inline constexpr std::uint32_t kSegmentVersion = 1;
inline constexpr std::uint64_t kSegmentAlign = 64;
inline constexpr std::uint64_t kSegmentPage = 4096;
inline constexpr std::uint32_t kSegmentRowsMax = 1 << 20;
inline constexpr std::uint64_t kSegmentBytesMax = std::uint64_t{1} << 36;
inline constexpr std::uint64_t kSegmentEntryBytesMax = std::uint64_t{1} << 30;

SegmentHeader make_segment_header(Hash128 place, std::uint32_t row_count, std::uint64_t salt);
bool has_segment_magic(const SegmentHeader& header);
/// Whether magic, version, hash and limits are right.
bool segment_header_valid(const SegmentHeader& header);

/// The offset of a row, and of the first payload.
constexpr std::uint64_t segment_row_offset(std::uint64_t number) {
  return sizeof(SegmentHeader) + number * sizeof(SegmentRow);
}
constexpr std::uint64_t segment_data_offset(std::uint32_t row_count) {
  return align_up(segment_row_offset(row_count), kSegmentPage);
}

/// A whole row. `payload_hash` is segment_payload_hash().
SegmentRow make_segment_row(Hash128 identity, std::uint64_t offset, std::uint64_t bytes,
                            std::uint64_t payload_hash, std::uint64_t salt, std::uint64_t number);
/// Whether the row was written as row `number` of the file, and its numbers are within the limits. It may still point
/// behind the end of the file.
bool segment_row_valid(const SegmentRow& row, const SegmentHeader& header, std::uint64_t number);
bool segment_row_empty(const SegmentRow& row);
std::uint64_t segment_payload_hash(std::span<const std::byte> payload, Hash128 identity, std::uint64_t salt);

}  // namespace carya::io
