#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "io/manifest/manifest_layout.h"

namespace carya::io {

/// One read. Either a whole small file by name (`file` < 0: open, read, close as linked requests in the ring,
/// the path relative to a root descriptor), or a range of a file registered before (`file` >= 0).
struct ReadRequest {
  std::uint64_t token = 0;     ///< given back with the completion
  int file = -1;               ///< handle of add_file(), or -1 for `path`
  int root = -1;               ///< handle of add_root() that `path` is relative to
  const char* path = nullptr;  ///< NUL-terminated; must live until the completion
  std::uint64_t offset = 0;    ///< range only
  std::uint64_t length = 0;    ///< bytes expected: the manifest's size
  /// Room for length + 1 bytes (the extra one tells a file that grew); with ReadEngineOptions::direct aligned
  /// to 4096 and room for align_up(length + 1, 4096). Lives until the completion.
  std::byte* dest = nullptr;
};

/// How a read ended. `code` tells: ok, or kIo (EIO, changed: shrank, grew), kNotFound (vanished),
/// kPermission.
struct ReadCompletion {
  std::uint64_t token = 0;
  bool ok = false;
  Code code = Code::kIo;        ///< meaningful when !ok
  int sys_errno = 0;            ///< 0 for "shrank" and "grew"
  std::int64_t bytes = 0;       ///< read; when !ok what was got (-1 unknown), length + 1 says "grew"
  std::int64_t latency_ns = 0;  ///< submission to completion
};

struct ReadEngineOptions {
  enum class Kind : std::uint8_t { kAuto, kUring, kPread };
  Kind kind = Kind::kAuto;          ///< kAuto: io_uring, else the pread pool
  std::uint32_t depth = 64;         ///< reads in flight at most
  std::uint32_t pread_threads = 4;  ///< of the fall-back pool, until widen()
  std::uint64_t resolve = 0;        ///< openat2 resolve flags for opens by name (RESOLVE_BENEATH, ...)
  /// Past the page cache (O_DIRECT), where the file system can and the offset of a range fits its block size;
  /// other reads go through the page cache without a word. Pays when the data is larger than memory and cold
  /// (bench/reads measures both); destinations must be aligned, see ReadRequest::dest.
  bool direct = false;
  std::uint32_t io_wq_workers_max =
      16;  ///< kernel threads that the ring may use for cold opens, until widen()
};

/// Issues reads and reports their completions; the same contract for io_uring and for a pool of pread threads
/// (tests/io/read_engine_test.cc runs on both). Retries EINTR, EAGAIN and short reads itself.
///
/// The destructor waits for what is in flight: afterwards no destination is written.
///
/// Threads: one owner thread at a time calls everything (the destructor too) except wake(), which is
/// thread-safe.
class ReadEngine {
 public:
  static Result<std::unique_ptr<ReadEngine>> create(const ReadEngineOptions& options);
  virtual ~ReadEngine() = default;

  /// "io_uring" or "pread"; with the reason when io_uring was wanted and refused: "pread (io_uring: EPERM)".
  virtual std::string_view name() const = 0;

  /// A directory that paths are relative to ("" for absolute paths and the working directory). The handle
  /// stays valid until remove_root.
  virtual Result<int> add_root(const std::string& directory) = 0;
  /// None of its reads may be in flight; files that were added below it stay.
  virtual void remove_root(int root) = 0;
  /// A container file that ranges are read from (registered once). The handle stays valid until remove_file.
  /// Errors: kNotFound, kPermission, kExhausted (descriptors), kIo (not a regular file).
  virtual Result<int> add_file(int root, const std::string& path) = 0;
  /// None of its reads may be in flight.
  virtual void remove_file(int file) = 0;
  /// Times, inode and size that the file had when it was added.
  virtual const SourceStamp& file_stamp(int file) const = 0;
  /// The same now. Errors: kIo and others of fstat().
  virtual Result<SourceStamp> file_stamp_now(int file) const = 0;

  /// How many more reads may be submitted now (depth minus in flight).
  virtual std::uint32_t room() const = 0;
  /// From now on at least so many reads may wait for storage at the same time, where that takes threads (the
  /// kernel's for a ring, the pool's own); at most the depth. As many as there may be, where no more can be
  /// had.
  virtual void widen(std::uint32_t waiting) = 0;
  /// Queue reads, at most room() of them; they start at the next poll() at the latest.
  virtual void submit(std::span<const ReadRequest> requests) = 0;
  /// Ask that a read which is in flight ends soon. Its one completion comes in any case, ok or not, at once
  /// or when the kernel lets go of it; until then its memory is written to. Nothing happens when there is no
  /// such read. A read that is stuck costs the others neither a thread nor time.
  virtual void cancel(std::uint64_t token) = 0;
  /// Start what is queued and collect completions; waits at most timeout_ms (0: not at all) for the first
  /// one, or for wake(). Returns how many were written to `out`.
  virtual std::size_t poll(std::span<ReadCompletion> out, int timeout_ms) = 0;
  /// End a poll() that waits, from any thread.
  virtual void wake() = 0;
};

/// Whether another process or machine answers for a path (FUSE, NFS, SMB, 9p, Ceph, Lustre, ...).
/// io_uring's calls then wait in the caller's thread, one after the other, and after a short read may ask for
/// the rest at offset 0 (FUSE with direct I/O, Linux 6.18); the pool's threads do neither. False for "", and
/// where nobody can say. Source: linux/magic.h.
bool storage_is_remote(const std::string& path);

}  // namespace carya::io
