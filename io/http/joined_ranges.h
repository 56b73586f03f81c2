#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/read/read_engine.h"

namespace carya::io {

/// Reads of one object that lie near each other, as one range.
///
/// Source of the bounds: requests of 8 MiB cost a seventieth of the money of one per photo, and 64 KiB come in less time
/// than a request takes.
class JoinedRanges {
 public:
  static constexpr std::uint64_t kGapMax = 64 << 10;
  static constexpr std::uint64_t kBytesMax = 8 << 20;
  static constexpr std::size_t kPartsMax = 256;

  /// Begin with one read, of 1 byte or more.
  void begin(const ReadRequest& first);
  /// Add a read of the same object that begins at or behind the end, at most kGapMax from it, while the whole stays
  /// within `bytes_max`. Returns false and changes nothing if it does not fit.
  bool add(const ReadRequest& next, std::uint64_t bytes_max);

  std::uint64_t offset() const { return parts_.front().offset; }
  std::uint64_t bytes() const { return end_ - offset(); }
  std::span<const ReadRequest> parts() const { return parts_; }

  /// Write the next bytes of the range to where they belong; what lies in gaps is dropped. Returns how many parts are
  /// whole now. CHECKs that no more than bytes() come.
  std::size_t take(std::span<const std::byte> bytes);
  std::size_t whole() const { return whole_; }

 private:
  std::vector<ReadRequest> parts_;  // by offset; they do not overlap
  std::uint64_t end_ = 0;
  std::uint64_t at_ = 0;   // of the object: what comes next
  std::size_t whole_ = 0;  // parts that are written
};

}  // namespace carya::io
