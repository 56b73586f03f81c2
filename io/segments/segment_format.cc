#include "io/segments/segment_format.h"

#include <array>
#include <cstring>

namespace carya::io {
namespace {

std::uint64_t header_hash(const SegmentHeader& header) {
  return hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(SegmentHeader, hash)));
}

/// A seed of two numbers, neither of which can make up for the other.
std::uint64_t seed_of(std::uint64_t salt, std::uint64_t number) {
  const std::array<std::uint64_t, 2> both{salt, number};
  return hash64(std::as_bytes(std::span(both)));
}

std::uint64_t row_hash(const SegmentRow& row, std::uint64_t salt, std::uint64_t number) {
  return hash64(std::as_bytes(std::span(&row, 1)).first(offsetof(SegmentRow, hash)), seed_of(salt, number));
}

}  // namespace

SegmentHeader make_segment_header(Hash128 place, std::uint32_t row_count, std::uint64_t salt) {
  SegmentHeader header{};
  std::memcpy(header.magic, kSegmentMagic, sizeof header.magic);
  header.version = kSegmentVersion;
  header.row_count = row_count;
  header.place_high = place.high;
  header.place_low = place.low;
  header.salt = salt;
  header.hash = header_hash(header);
  return header;
}

bool has_segment_magic(const SegmentHeader& header) {
  return std::memcmp(header.magic, kSegmentMagic, sizeof header.magic) == 0;
}

bool segment_header_valid(const SegmentHeader& header) {
  return has_segment_magic(header) && header.version == kSegmentVersion &&
         header.hash == header_hash(header) && header.row_count >= 1 && header.row_count <= kSegmentRowsMax;
}

SegmentRow make_segment_row(Hash128 identity, std::uint64_t offset, std::uint64_t bytes,
                            std::uint64_t payload_hash, std::uint64_t salt, std::uint64_t number) {
  SegmentRow row{.identity_high = identity.high,
                 .identity_low = identity.low,
                 .offset = offset,
                 .bytes = bytes,
                 .payload_hash = payload_hash,
                 .hash = 0};
  row.hash = row_hash(row, salt, number);
  return row;
}

bool segment_row_valid(const SegmentRow& row, const SegmentHeader& header, std::uint64_t number) {
  return row.hash == row_hash(row, header.salt, number) && row.bytes >= 1 &&
         row.bytes <= kSegmentEntryBytesMax && row.offset % kSegmentAlign == 0 &&
         row.offset >= segment_data_offset(header.row_count) && row.offset <= kSegmentBytesMax;
}

bool segment_row_empty(const SegmentRow& row) {
  constexpr SegmentRow kEmpty{};
  return std::memcmp(&row, &kEmpty, sizeof row) == 0;
}

std::uint64_t segment_payload_hash(std::span<const std::byte> payload, Hash128 identity, std::uint64_t salt) {
  return hash64(payload, seed_of(salt ^ identity.high, identity.low));
}

}  // namespace carya::io
