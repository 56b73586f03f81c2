#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"

namespace carya::io {

/// The bytes of one file as an index builder reads them: from its beginning to its end, with leaps. Near
/// requests are read ahead in growing blocks, far ones by single pages, so that builders need not choose.
///
/// Errors:  what `read` answers.
/// Threads: owner only.
/// Cost:    the memory of the largest request, at least 256 KiB.
class FileWindow {
 public:
  /// Fills the span with the bytes at an offset; never asked beyond the file's size.
  using ReadAt = std::function<Status(std::uint64_t offset, std::span<std::byte> out)>;

  FileWindow(std::uint64_t file_bytes, ReadAt read) : file_bytes_(file_bytes), read_(std::move(read)) {}

  std::uint64_t file_bytes() const { return file_bytes_; }

  /// `bytes` at `offset`, valid until the next call. CHECKs that they lie in the file.
  Result<std::span<const std::byte>> at(std::uint64_t offset, std::uint64_t bytes) {
    if (offset < start_ || bytes > filled_ || offset - start_ > filled_ - bytes) TRY(fill(offset, bytes));
    return std::span<const std::byte>(room_.get() + (offset - start_), bytes);
  }

 private:
  Status fill(std::uint64_t offset, std::uint64_t bytes);

  const std::uint64_t file_bytes_;
  const ReadAt read_;
  std::unique_ptr<std::byte[]> room_;
  std::uint64_t room_bytes_ = 0;
  std::uint64_t start_ = 0;   // of what lies in room_
  std::uint64_t filled_ = 0;  // of room_, from start_ on
  std::uint64_t ahead_ = 0;   // bytes of the next read, at least
};

/// Reads of an open file. `subject` names it in errors; kIo where it ends before `offset + out.size()`.
FileWindow::ReadAt reads_of(int fd, std::string subject);

/// Little-endian numbers, wherever they lie.
template <typename T>
T load_little(const std::byte* from) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace carya::io
