#include "io/segments/write_ledger.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>

#include "base/hash.h"
#include "io/store/store_file.h"

namespace carya::io {
namespace {

/// The layout of FORMAT.md.
struct LedgerImage {
  char magic[8];
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t hour;  // of bytes[0], since 1970
  HourlyBytes bytes;
  std::uint64_t hash;  // of what stands before it
};
static_assert(sizeof(LedgerImage) == 232 && offsetof(LedgerImage, hash) == 224);

constexpr char kMagic[8] = {'C', 'A', 'R', 'Y', 'A', 'D', 'A', 'Y'};
constexpr std::uint32_t kVersion = 1;
constexpr std::int64_t kHourS = 3600;
/// Machines that share a folder may be in two hours at the same time.
constexpr std::uint64_t kHoursApart = 1;
constexpr int kLockMs = 200;

std::uint64_t hash_of(const LedgerImage& image) {
  return hash64(std::as_bytes(std::span(&image, 1)).first(offsetof(LedgerImage, hash)));
}

/// What the file says; nothing was written if it says nothing that holds.
Result<LedgerImage> load(int fd, const std::string& path) {
  LedgerImage image{};
  if (const Status done = read_whole(fd, std::as_writable_bytes(std::span(&image, 1)), 0); !done) {
    if (done.error().sys_errno != 0) return fail_errno("read " + path, done.error().sys_errno);
    return LedgerImage{};  // it is shorter
  }
  const bool valid = std::memcmp(image.magic, kMagic, sizeof kMagic) == 0 && image.version == kVersion &&
                     image.hash == hash_of(image);
  return valid ? image : LedgerImage{};
}

}  // namespace

std::uint64_t sum_of(const HourlyBytes& bytes) {
  std::uint64_t sum = 0;
  for (const std::uint64_t hour : bytes) sum += std::min(hour, UINT64_MAX - sum);
  return sum;
}

void age(HourlyBytes& bytes, std::uint64_t hours) {
  const std::size_t by = std::min<std::uint64_t>(hours, bytes.size());
  std::shift_right(bytes.begin(), bytes.end(), static_cast<std::ptrdiff_t>(by));
  std::fill_n(bytes.begin(), by, 0);
}

Result<WriteLedger> WriteLedger::open(const std::string& folder) {
  const std::string path = fmt::format("{}/written-{}", folder, ::geteuid());
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600));
  if (!fd) return fail_errno("open " + path, errno);
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return fail_errno("stat " + path, errno);
  if (!S_ISREG(status.st_mode)) return fail(Code::kInvalidArgument, path + ": not a regular file");
  return WriteLedger(path, std::move(fd));
}

/// One of the processes at a time: read, bring to the hour that is, change, write.
template <typename Change>
Result<HourlyBytes> WriteLedger::change(std::int64_t now_s, Change change) {
  std::optional<FileLock> held;
  if (auto lock = FileLock::acquire(fd_.get(), kLockMs, path_))
    held.emplace(std::move(*lock));
  else if (lock.error().code != Code::kUnsupported)  // without locks two may count as one
    return std::unexpected(std::move(lock.error()));
  ASSIGN(LedgerImage image, load(fd_.get(), path_));
  const auto now = static_cast<std::uint64_t>(std::max<std::int64_t>(0, now_s / kHourS));
  if (image.hour > now + kHoursApart) image.hour = now;
  if (image.hour < now) {
    age(image.bytes, now - image.hour);
    image.hour = now;
  }
  Status changed = change(image.bytes);
  // The hour is written also where nothing is counted, or a clock that was set back would stop for those bytes.
  std::memcpy(image.magic, kMagic, sizeof kMagic);
  image.version = kVersion;
  image.hash = hash_of(image);
  const Written written = write_whole(fd_.get(), std::as_bytes(std::span(&image, 1)), 0);
  if (written.sys_errno != 0) return fail_errno("write " + path_, written.sys_errno);
  TRY(std::move(changed));
  return image.bytes;
}

Status WriteLedger::add(std::uint64_t bytes, std::uint64_t limit, std::int64_t now_s) {
  TRY(change(now_s, [&](HourlyBytes& hours) -> Status {
    if (bytes > limit - std::min(limit, sum_of(hours)))
      return fail(Code::kExhausted, fmt::format("{}: {} B of {} are written", path_, sum_of(hours), limit));
    hours[0] += bytes;
    return {};
  }));
  return {};
}

Status WriteLedger::give_back(std::uint64_t bytes, std::int64_t now_s) {
  TRY(change(now_s, [&](HourlyBytes& hours) -> Status {
    hours[0] -= std::min(hours[0], bytes);
    return {};
  }));
  return {};
}

Result<HourlyBytes> WriteLedger::read(std::int64_t now_s) {
  return change(now_s, [](HourlyBytes&) -> Status { return {}; });
}

}  // namespace carya::io
