#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transforms/jpeg/header.h"

namespace carya::coefficients {

/// What an entry knows of the file that it was made from, beside the pixels.
struct EntryFacts {
  std::uint32_t file_bytes = 0;
  std::uint16_t scans = 1;       ///< of the file
  std::uint8_t orientation = 1;  ///< Exif: 1..8
};

/// The head of an entry, read and checked (FORMAT.md): the picture's geometry, and where its rows are.
struct EntryHead {
  jpeg::Header header;  ///< size, sampling, components, quantisers
  EntryFacts facts;
  std::span<const std::uint8_t> rows;  ///< four bytes for each row of MCUs: where it begins in the entry
  std::size_t rows_begin = 0;          ///< of the first row of MCUs
  std::size_t rows_end = 0;            ///< behind the last one
};

/// Read the head of an entry. Returns false if `bytes` do not begin with one, or have another length than it says. The
/// checksum is not looked at. Threads: thread-safe. Cost: ~0.2 us.
bool read_head(std::span<const std::uint8_t> bytes, EntryHead& head);

/// Whether the checksum at the end is that of the bytes before it. Cost: ~0.05 ns per byte.
bool has_right_checksum(std::span<const std::uint8_t> bytes);

/// Where the row of MCUs `mcu_y` begins and ends in the entry; an empty span if the entry says nonsense.
std::span<const std::uint8_t> row_of(std::span<const std::uint8_t> bytes, const EntryHead& head, int mcu_y);

/// The columns and rows of blocks of a component that pixels depend on.
inline int block_columns(const jpeg::Component& component) {
  return (component.width + 7) / 8;
}
inline int block_rows(const jpeg::Component& component) {
  return (component.height + 7) / 8;
}

/// Append to an empty `out` the head of an entry with room for its rows, which patch_row() fills in, and its length, which finish_entry()
/// does. Returns false if the format has no place for such a picture: quantisers over 8191.
bool write_head(const jpeg::Header& header, const EntryFacts& facts, std::vector<std::uint8_t>& out);
/// Note that the row of MCUs begins here.
void patch_row(int mcu_y, std::vector<std::uint8_t>& out);
/// Append the checksum and set the length.
void finish_entry(std::vector<std::uint8_t>& out);

}  // namespace carya::coefficients
