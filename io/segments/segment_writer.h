#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "io/rights/readers.h"
#include "io/segments/segment_format.h"

namespace carya::io {

/// The segment that a process writes. Nobody else writes to it.
///
/// 1. The file is made under a name that no other has, and made as long as it may become. Who adds up the lengths of all
///    files knows by that what is promised, before a byte of it is written.
/// 2. An entry's bytes are written first, its row afterwards. A process that ends in between leaves bytes that nothing
///    points to.
/// 3. seal() cuts off what was not used. A process that was killed leaves that to others (cut_abandoned()).
///
/// Nothing is synced to the disk: after a loss of power, rows may point to bytes that are not there. Their hash tells.
/// Threads: owner only.
class SegmentWriter {
 public:
  struct Sharing {
    bool locked =
        false;  ///< hold a lock while it is written, which tells others that the writer lives; a file system
                ///< without locks goes without
    std::optional<Readers>
        readers{};  ///< who else may read the file, as let_read() says; none: it is made with 0600
  };
  /// Make an empty segment in `folder`. Errors: those of open(), write() and let_read(); kExhausted (full disk).
  static Result<SegmentWriter> create(const std::string& folder, Hash128 place, std::uint32_t rows,
                                      std::uint64_t bytes, const Sharing& sharing);
  SegmentWriter(SegmentWriter&&) noexcept = default;
  SegmentWriter& operator=(SegmentWriter&&) noexcept = default;
  ~SegmentWriter() = default;

  /// Promise less: at most `bytes`, and at least what is used. Errors: those of ftruncate().
  Status shrink(std::uint64_t bytes);
  /// Whether append() has a row and room for so many bytes.
  bool has_room(std::uint64_t bytes) const;
  /// Write an entry. Errors: kExhausted (no room, full disk), kIo and others of write(): nothing more can be written
  /// then, and what was written before stays.
  Result<SegmentRow> append(Hash128 identity, std::span<const std::byte> payload);
  /// Cut the file to what is used; remove it if it has no entry.
  void seal();

  const std::string& path() const { return path_; }
  const SegmentHeader& header() const { return header_; }
  std::uint32_t rows() const { return rows_; }
  std::uint64_t used_bytes() const { return used_bytes_; }

 private:
  SegmentWriter() = default;
  std::string path_;
  UniqueFd fd_;
  SegmentHeader header_{};
  std::uint64_t length_ = 0;      // that the file has
  std::uint64_t used_bytes_ = 0;  // of it, at its beginning
  std::uint32_t rows_ = 0;
  bool failed_ = false;
};

/// The bytes that a segment of `rows` entries needs beside their payloads.
std::uint64_t segment_overhead(std::uint32_t rows);

}  // namespace carya::io
