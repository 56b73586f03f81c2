#include "io/segments/segment_reader.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/store/store_file.h"

namespace carya::io {
namespace {

constexpr std::size_t kRowsAtOnce = 1024;
constexpr double kLockedSoonS = 2;
/// A FIFO under this name must not hang us.
constexpr int kOpenFlags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

std::atomic<std::size_t> segments_open{0};

/// The header of an open file, checked.
Result<SegmentHeader> read_header(int fd, const std::string& path) {
  struct stat status;
  if (::fstat(fd, &status) != 0) return fail_errno("stat " + path, errno);
  if (!S_ISREG(status.st_mode)) return fail(Code::kCorrupt, "segment " + path + ": not a regular file");
  SegmentHeader header{};
  if (status.st_size < static_cast<off_t>(sizeof header))
    return fail(Code::kCorrupt, fmt::format("segment {}: {} B are no segment", path, status.st_size));
  if (const Status done = read_whole(fd, std::as_writable_bytes(std::span(&header, 1)), 0); !done) {
    if (done.error().sys_errno != 0) return fail_errno("read " + path, done.error().sys_errno);
    return fail(Code::kCorrupt, "segment " + path + ": it ends before its header does");
  }
  if (!segment_header_valid(header)) return fail(Code::kCorrupt, "segment " + path + ": a broken header");
  return header;
}

/// As many rows from `first` on as the file has, at most kRowsAtOnce.
Result<std::vector<SegmentRow>> read_rows(int fd, const SegmentHeader& header, std::uint64_t first,
                                          const std::string& path) {
  std::vector<SegmentRow> rows(std::min<std::uint64_t>(kRowsAtOnce, header.row_count - first));
  const auto bytes = std::as_writable_bytes(std::span(rows));
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::pread(fd, bytes.data() + have, bytes.size() - have,
                                static_cast<off_t>(segment_row_offset(first) + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("read " + path, errno);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  rows.resize(have / sizeof(SegmentRow));
  return rows;
}

bool is_own_for_others(int fd) {
  struct stat status;
  return ::fstat(fd, &status) == 0 && status.st_uid == ::geteuid() && (status.st_mode & 044) != 0;
}

}  // namespace

std::size_t SegmentReader::open_max() {
  rlimit limit{};
  const bool known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
  return known ? std::min<std::size_t>(limit.rlim_cur / 8, 1024) : 64;
}

SegmentReader::SegmentReader(std::string path, const SegmentHeader& header)
    : path_(std::move(path)), header_(header), used_bytes_(segment_data_offset(header.row_count)) {}

SegmentReader::~SegmentReader() {
  if (kept_) --segments_open;
}

Result<std::shared_ptr<SegmentReader>> SegmentReader::open(const std::string& path, Hash128 place) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | kOpenFlags));
  if (!fd) return fail_errno("open " + path, errno);
  ASSIGN(const SegmentHeader header, read_header(fd.get(), path));
  if (header.place_high != place.high || header.place_low != place.low)
    return fail(Code::kCorrupt, "segment " + path + ": belongs to another place");
  auto reader = std::shared_ptr<SegmentReader>(new SegmentReader(path, header));
  reader->for_others_ = is_own_for_others(fd.get());
  if (segments_open.fetch_add(1) < open_max())
    reader->kept_ = std::move(fd);
  else
    --segments_open;
  return reader;
}

Result<UniqueFd> SegmentReader::reopen() const {
  UniqueFd fd(::open(path_.c_str(), O_RDONLY | kOpenFlags));
  if (!fd) return fail_errno("open " + path_, errno);
  ASSIGN(const SegmentHeader header, read_header(fd.get(), path_));
  if (header.salt != header_.salt) return fail(Code::kCorrupt, "segment " + path_ + ": it was replaced");
  return fd;
}

Status SegmentReader::look(std::vector<SegmentRow>& found) {
  if (sealed_) return {};
  UniqueFd own;
  if (!kept_) {
    ASSIGN(own, reopen());
  }
  const int fd = kept_ ? kept_.get() : own.get();
  struct stat status;
  if (::fstat(fd, &status) != 0) return fail_errno("stat " + path_, errno);
  while (rows_ < header_.row_count) {
    ASSIGN(const std::vector<SegmentRow> rows, read_rows(fd, header_, rows_, path_));
    std::size_t whole = 0;  // up to the last valid row: what lies behind it may be on its way
    for (std::size_t i = 0; i < rows.size() && !segment_row_empty(rows[i]); ++i)
      if (segment_row_valid(rows[i], header_, rows_ + i)) whole = i + 1;
    for (std::size_t i = 0; i < whole; ++i) {
      if (!segment_row_valid(rows[i], header_, rows_ + i)) {
        ++damaged_;
        continue;
      }
      found.push_back(rows[i]);
      used_bytes_ = std::max(used_bytes_, rows[i].offset + rows[i].bytes);
    }
    rows_ += whole;
    if (whole < rows.size() || rows.empty()) break;
  }
  sealed_ = rows_ == header_.row_count || static_cast<std::uint64_t>(status.st_size) <= used_bytes_;
  return {};
}

Status SegmentReader::keep_from_others(const Readers& readers) const {
  if (!for_others_) return {};
  UniqueFd own;
  if (!kept_) {
    ASSIGN(own, reopen());
  }
  const int fd = kept_ ? kept_.get() : own.get();
  TRY(io::keep_from_others(fd, readers, path_));
  for_others_ = is_own_for_others(fd);
  return {};
}

/// The kept file, opened once more with O_DIRECT; -1: it cannot be.
int SegmentReader::direct() const {
  std::call_once(direct_once_, [this] {
    if (kept_)
      direct_.reset(
          ::open(fmt::format("/proc/self/fd/{}", kept_.get()).c_str(), O_RDONLY | O_DIRECT | kOpenFlags));
  });
  return direct_.get();
}

Status SegmentReader::read(const SegmentRow& row, std::span<std::byte> out, BlockBuffer* blocks) const {
  CHECK(out.size() == row.bytes);
  UniqueFd own;
  if (!kept_) {
    ASSIGN(own, reopen());
  }
  const int past_cache = blocks != nullptr ? direct() : -1;
  // Whatever is wrong with blocks, the page cache may do, and says it if not.
  Status done = past_cache >= 0 ? read_blocks(past_cache, out, row.offset, *blocks) : Status();
  if (past_cache < 0 || !done) done = read_whole(kept_ ? kept_.get() : own.get(), out, row.offset);
  if (!done && done.error().sys_errno == 0) done.error().code = Code::kCorrupt;  // the file ends before
  TRY(std::move(done));
  if (segment_payload_hash(out, row.identity(), header_.salt) != row.payload_hash)
    return fail(Code::kCorrupt, fmt::format("segment {} @{}: {} B do not have the hash that was written",
                                            path_, row.offset, row.bytes));
  return {};
}

Result<std::uint64_t> cut_abandoned(const std::string& path, bool locks, double quiet_s, double now_s) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | kOpenFlags));
  if (!fd) return fail_errno("open " + path, errno);
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return fail_errno("stat " + path, errno);
  struct flock whole{.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
  const bool locked = locks && ::fcntl(fd.get(), F_OFD_SETLK, &whole) == 0;  // let go of when it is closed
  const bool held = locks && !locked && (errno == EAGAIN || errno == EACCES);
  const double age_s = now_s - static_cast<double>(status.st_mtim.tv_sec);
  // Its writer takes the lock a moment after the file is made.
  if (held || age_s < (locked ? kLockedSoonS : quiet_s)) return 0;
  const auto length = static_cast<std::uint64_t>(status.st_size);
  const auto header = read_header(fd.get(), path);
  if (!header && header.error().code != Code::kCorrupt) return std::unexpected(header.error());
  if (!header) {  // it was killed before it wrote one
    if (!S_ISREG(status.st_mode) || ::unlink(path.c_str()) != 0) return fail_errno("remove " + path, errno);
    return length;
  }
  const auto reader = SegmentReader::open(path, {header->place_high, header->place_low});
  if (!reader) return std::unexpected(reader.error());
  std::vector<SegmentRow> rows;
  TRY((*reader)->look(rows));
  if ((*reader)->is_sealed() && length <= (*reader)->used_bytes()) return 0;
  if (rows.empty() && (*reader)->rows() == 0) {  // it has no entry at all
    if (::unlink(path.c_str()) != 0) return fail_errno("remove " + path, errno);
    return length;
  }
  if (::ftruncate(fd.get(), static_cast<off_t>((*reader)->used_bytes())) != 0)
    return fail_errno("cut " + path, errno);
  return length - std::min(length, (*reader)->used_bytes());
}

}  // namespace carya::io
