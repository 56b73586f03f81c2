#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "base/checked.h"

namespace carya::io {

/// The first bytes of a manifest; io/FORMAT.md describes the whole. Little-endian.
struct ManifestHeader {
  char magic[8];             // kManifestMagic
  std::uint32_t version;     // kManifestVersion
  std::uint32_t flags;       // kHas...
  std::uint64_t file_bytes;  // of everything, this header too
  std::uint64_t record_count;
  std::uint64_t fingerprint_high;
  std::uint64_t fingerprint_low;
  std::uint64_t skipped_count;  // files that the listing left out
  std::uint64_t class_count;
  std::uint64_t container_count;
  std::uint64_t source_count;   // directories or tars whose stamps say whether the manifest still holds
  std::uint64_t example_count;  // names of skipped files
  std::uint64_t names_bytes;
  std::uint64_t strings_bytes;
  std::uint64_t body_hash;    // XXH3-64 of all bytes behind the header
  std::uint64_t reserved;     // 0
  std::uint64_t header_hash;  // XXH3-64 of the 120 bytes before it
};
static_assert(sizeof(ManifestHeader) == 128 && std::is_trivially_copyable_v<ManifestHeader>);
static_assert(offsetof(ManifestHeader, file_bytes) == 16 && offsetof(ManifestHeader, header_hash) == 120);

inline constexpr char kManifestMagic[8] = {'C', 'A', 'R', 'Y', 'A', 'M', 'A', 'N'};
inline constexpr std::uint32_t kManifestVersion = 1;
inline constexpr std::uint32_t kHasLabels = 1;
inline constexpr std::uint32_t kHasTimes = 2;
inline constexpr std::uint32_t kHasContainers = 4;
inline constexpr std::uint32_t kHasPins = 8;
inline constexpr std::uint32_t kFlagsKnown = 15;
/// Offsets and sizes of records stay below this, so that sums of two need no check.
inline constexpr std::uint64_t kRecordBytesMax = std::uint64_t{1} << 62;

/// Tells one state of a file from another.
struct FileVersion {
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const FileVersion&) const = default;
};

/// What says whether a directory (times, inode) or a tar (time, size) is still what was listed.
struct SourceStamp {
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  bool operator==(const SourceStamp&) const = default;

  /// Of the bytes alone: a link to the file or another owner changes ctime, a copy of it the inode.
  FileVersion version() const { return {bytes, mtime_ns}; }
};
static_assert(sizeof(SourceStamp) == 32);

/// Where each section starts. A section that the flags leave out has the length 0.
struct ManifestSections {
  std::uint64_t name_at, bytes, label, mtime, offset, container, sources, names, strings, end;
};

/// Sections in file order, each 8-aligned; nothing when the sum does not fit 64 bits.
inline std::optional<ManifestSections> manifest_sections(const ManifestHeader& header) {
  ManifestSections sections{};
  std::uint64_t at = sizeof(ManifestHeader);
  const auto place = [&at](std::uint64_t* start, std::uint64_t count, std::uint64_t size) {
    *start = at;
    const auto bytes = checked_mul(count, size);
    const auto end = bytes ? checked_add(at, *bytes) : std::nullopt;
    if (!end || *end > kRecordBytesMax) return false;
    at = align_up<std::uint64_t>(*end, 8);
    return true;
  };
  const std::uint64_t n = header.record_count;
  if (n >= kRecordBytesMax) return std::nullopt;
  const auto when = [&](std::uint32_t flag) { return (header.flags & flag) != 0 ? n : 0; };
  const bool fits =
      place(&sections.name_at, n + 1, 8) && place(&sections.bytes, n, 8) &&
      place(&sections.label, when(kHasLabels), 8) && place(&sections.mtime, when(kHasTimes), 8) &&
      place(&sections.offset, when(kHasContainers), 8) &&
      place(&sections.container, when(kHasContainers), 4) &&
      place(&sections.sources, header.source_count, sizeof(SourceStamp)) &&
      place(&sections.names, header.names_bytes, 1) && place(&sections.strings, header.strings_bytes, 1);
  if (!fits) return std::nullopt;
  sections.end = at;
  return sections;
}

}  // namespace carya::io
