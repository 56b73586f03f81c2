#include "io/index/file_window.h"

#include <algorithm>

#include "io/files/blocking_read.h"
#include "io/files/record_file.h"

namespace carya::io {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kAheadMax = 256 << 10;  // larger blocks fall out of the second-level cache

}  // namespace

Status FileWindow::fill(std::uint64_t offset, std::uint64_t bytes) {
  CHECK(offset <= file_bytes_ && bytes <= file_bytes_ - offset);
  const std::uint64_t end = start_ + filled_;
  const bool near = offset >= start_ && offset <= end + std::max(ahead_, kPage);
  ahead_ = near ? std::clamp(2 * ahead_, kPage, kAheadMax) : kPage;
  const std::uint64_t wanted = std::min(std::max(bytes, ahead_), file_bytes_ - offset);
  filled_ = 0;  // until it was read
  if (wanted > room_bytes_) {
    room_bytes_ = std::max(wanted, kAheadMax);
    room_.reset();
    room_ = std::make_unique_for_overwrite<std::byte[]>(room_bytes_);
  }
  TRY(read_(offset, std::span(room_.get(), wanted)));
  start_ = offset;
  filled_ = wanted;
  return {};
}

FileWindow::ReadAt reads_of(int fd, std::string subject) {
  return [fd, subject = std::move(subject)](std::uint64_t offset, std::span<std::byte> out) -> Status {
    const ReadOutcome outcome = blocking_read_range(fd, offset, out.size(), out.data());
    if (outcome.ok) return {};
    if (outcome.sys_errno != 0) return fail_errno("read " + subject, outcome.sys_errno);
    return fail(Code::kIo, "read " + subject + " @" + std::to_string(offset) + ": wanted " +
                               std::to_string(out.size()) + " B, got " + std::to_string(outcome.bytes) +
                               " B; it changed: " + kListAnew);
  };
}

}  // namespace carya::io
