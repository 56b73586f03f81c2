#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace carya::io {

/// One regular file inside a tar.
struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  ///< of the payload
  std::uint64_t bytes = 0;
};

/// The extension of what was cut off, or is no tar.
inline constexpr std::string_view kCutOffExtension = "(cut off or no tar)";

/// Walks the headers of an uncompressed tar: ustar, old (V7), GNU long names, pax path and size, base-256
/// sizes. Directories, links and devices are passed over.
///
/// Goes on behind an end mark, where another tar may have been appended. What was cut off at the end, or is
/// no tar behind an end mark, is one member of 0 bytes with the extension kCutOffExtension.
///
/// Errors:  kCorrupt (checksum, a number that is none, an extension that is cut off: tar, offset and numbers
/// are named), kUnsupported
///          (compressed: the message says how to unpack; sparse members), what `read` answers.
/// Threads: owner only.
/// Cost:    one header read per member; extended headers are bounded to 1 MiB whatever they say.
/// Source:  POSIX.1-2024 pax, "ustar Interchange Format"; GNU tar manual, "Basic Tar Format".
class TarScanner {
 public:
  /// Fills the span with the bytes at an offset; the scanner never asks beyond the file's size.
  using ReadAt = std::function<Status(std::uint64_t offset, std::span<std::byte>)>;

  TarScanner(std::string subject, std::uint64_t file_bytes, ReadAt read)
      : subject_(std::move(subject)), file_bytes_(file_bytes), read_(std::move(read)) {}

  /// The next regular member; false at the end.
  Result<bool> next(TarMember* member);
  /// Whether the last block was of zeros, as writers of tars end them: known at the end. A tar without may
  /// have been cut off between two members, and nothing else shows that.
  bool ends_with_mark() const { return ends_with_mark_; }

 private:
  struct Header;
  struct Extended {  // what pax and GNU headers say about the next member
    std::optional<std::string> name;
    std::optional<std::uint64_t> bytes;
    bool sparse = false;
  };

  enum class Found : std::uint8_t { kHeader, kEnd, kRest };  ///< kRest: bytes that are no header, to the end

  Result<Found> read_header(Header* header);
  TarMember lost(const std::string& name) const;
  Result<std::string> read_extension(std::uint64_t bytes);
  Status take_pax(std::string_view records, Extended* into) const;
  Result<bool> take_member(const Header& header, std::uint64_t bytes, TarMember* member);
  Status skip_payload(std::uint64_t bytes, const std::string& member = {});
  Status check_not_compressed(std::span<const std::byte> start) const;
  std::unexpected<Error> corrupt(const std::string& what) const;

  const std::string subject_;
  const std::uint64_t file_bytes_;
  const ReadAt read_;
  std::uint64_t at_ = 0;         // of the next header; at most file_bytes_
  std::uint64_t header_at_ = 0;  // of the current one, for messages
  bool ends_with_mark_ = false;
  Extended global_;
  Extended next_;
};

}  // namespace carya::io
