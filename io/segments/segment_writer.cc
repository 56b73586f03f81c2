#include "io/segments/segment_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>

#include "base/fault_point.h"
#include "io/store/store_file.h"

namespace carya::io {
namespace {

/// Tells other processes of the machine that the writer lives; the kernel lets go of it when the process ends.
void lock_whole(int fd) {
  struct flock whole{.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
  ::fcntl(fd, F_OFD_SETLK, &whole);
}

Status write_all(int fd, std::span<const std::byte> bytes, std::uint64_t offset, const std::string& path) {
  const Written written = write_whole(fd, bytes, offset);
  if (written.sys_errno != 0) return fail_errno("write " + path, written.sys_errno);
  return {};
}

}  // namespace

std::uint64_t segment_overhead(std::uint32_t rows) {
  return segment_data_offset(rows) + rows * kSegmentAlign;
}

Result<SegmentWriter> SegmentWriter::create(const std::string& folder, Hash128 place, std::uint32_t rows,
                                            std::uint64_t bytes, const Sharing& sharing) {
  CHECK(rows >= 1 && rows <= kSegmentRowsMax && bytes >= segment_overhead(rows) && bytes <= kSegmentBytesMax);
  SegmentWriter writer;
  writer.header_ = make_segment_header(place, rows, fresh_salt());
  writer.path_ = fmt::format("{}/{:016x}.segment", folder, writer.header_.salt);
  writer.fd_.reset(
      ::open(writer.path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600));
  if (!writer.fd_) return fail_errno("create " + writer.path_, errno);
  if (sharing.locked) lock_whole(writer.fd_.get());
  const auto header = std::as_bytes(std::span(&writer.header_, 1));
  Status made = sharing.readers ? let_read(writer.fd_.get(), *sharing.readers, writer.path_) : Status();
  if (made) made = write_all(writer.fd_.get(), header, 0, writer.path_);
  if (made && ::ftruncate(writer.fd_.get(), static_cast<off_t>(bytes)) != 0)
    made = fail_errno("lengthen " + writer.path_, errno);
  if (!made) {
    ::unlink(writer.path_.c_str());
    return std::unexpected(std::move(made.error()));
  }
  writer.length_ = bytes;
  writer.used_bytes_ = segment_data_offset(rows);
  return writer;
}

Status SegmentWriter::shrink(std::uint64_t bytes) {
  bytes = std::max(bytes, used_bytes_);
  if (bytes >= length_) return {};
  if (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) return fail_errno("cut " + path_, errno);
  length_ = bytes;
  return {};
}

bool SegmentWriter::has_room(std::uint64_t bytes) const {
  return !failed_ && rows_ < header_.row_count && bytes <= kSegmentEntryBytesMax &&
         align_up(used_bytes_, kSegmentAlign) + bytes <= length_;
}

Result<SegmentRow> SegmentWriter::append(Hash128 identity, std::span<const std::byte> payload) {
  if (payload.empty() || !has_room(payload.size()))
    return fail(Code::kExhausted, fmt::format("segment {}: no room for {} B", path_, payload.size()), ENOSPC);
  const std::uint64_t offset = align_up(used_bytes_, kSegmentAlign);
  const SegmentRow row =
      make_segment_row(identity, offset, payload.size(),
                       segment_payload_hash(payload, identity, header_.salt), header_.salt, rows_);
  FAULT_POINT("segment.payload");
  failed_ = true;  // until both are written
  TRY(write_all(fd_.get(), payload, offset, path_));
  FAULT_POINT("segment.row");
  TRY(write_all(fd_.get(), std::as_bytes(std::span(&row, 1)), segment_row_offset(rows_), path_));
  failed_ = false;
  ++rows_;
  used_bytes_ = offset + payload.size();
  return row;
}

void SegmentWriter::seal() {
  if (!fd_) return;
  if (rows_ == 0)
    ::unlink(path_.c_str());
  else
    static_cast<void>(shrink(0));
  fd_.reset();
}

}  // namespace carya::io
