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

struct StoreUse;

/// One read. It is a whole small file by name (`file` < 0), which the ring opens, reads and closes by linked requests,
/// or a range of a file that was registered before (`file` >= 0).
struct ReadRequest {
  std::uint64_t token = 0;     ///< the completion repeats it
  int file = -1;               ///< a handle of add_file(), or -1 to read `path`
  int root = -1;               ///< the handle of add_root() that `path` is relative to
  const char* path = nullptr;  ///< NUL-terminated; lives until the completion
  std::uint64_t offset = 0;    ///< the start of a range
  std::uint64_t length = 0;    ///< the expected bytes, by the manifest
  /// Room for length + 1 bytes: the extra byte shows that a file grew. With ReadEngineOptions::direct it is aligned to
  /// 4096 and has room for align_up(length + 1, 4096). It lives until the completion.
  std::byte* dest = nullptr;
  /// Of an object in a store (a root that is a URL): the version that was listed, NUL-terminated, and the size of the
  /// whole object. `offset` and `length` are then a range of the object `path`, with exactly `length` bytes at `dest`.
  const char* pin = nullptr;
  std::uint64_t object_bytes = 0;
  bool again = false;  ///< an earlier try of it failed: stores are asked again within a budget
};

/// Why a store did not give the bytes.
struct StoreFailure {
  std::string why;           ///< in words, with what to do
  bool final = false;        ///< no further try can help: the object changed, or the store reads no ranges
  std::int64_t wait_ns = 0;  ///< the store asks for so long a wait before the next try
};

/// How a read ended. A read that is not ok has the code kIo (EIO, or the file shrank or grew), kNotFound (the file
/// vanished) or kPermission.
struct ReadCompletion {
  std::uint64_t token = 0;
  bool ok = false;
  Code code = Code::kIo;                        ///< meaningful when !ok
  int sys_errno = 0;                            ///< 0 for "shrank" and "grew"
  std::int64_t bytes = 0;                       ///< bytes read; -1: unknown; length + 1: the file grew
  std::int64_t latency_ns = 0;                  ///< time from submission to completion
  std::shared_ptr<const StoreFailure> store{};  ///< of an object in a store that is not ok; else null
};

inline constexpr std::uint32_t kReadDepthMax = 2048;

struct ReadEngineOptions {
  enum class Kind : std::uint8_t { kAuto, kUring, kPread };
  Kind kind = Kind::kAuto;  ///< kAuto: io_uring if the kernel allows it, else the pread pool
  /// The largest number of reads in flight, 1 to kReadDepthMax. Cancelled reads that are stuck take none of these
  /// places until there are as many of them again.
  std::uint32_t depth = 64;
  std::uint32_t pread_threads = 4;  ///< threads of the pread pool, until widen()
  std::uint64_t resolve = 0;        ///< openat2 resolve flags for opens by name (RESOLVE_BENEATH, ...)
  /// Read past the page cache (O_DIRECT) if the file system can and a range's offset fits its block size; other reads
  /// use the page cache. It pays if the data is larger than memory and cold (bench/reads measures both). Destinations
  /// must be aligned, see ReadRequest::dest.
  bool direct = false;
  std::uint32_t io_wq_workers_max =
      16;  ///< kernel threads that the ring may use for cold opens, until widen()
};

/// Issues reads and reports their completions. The contract is the same for io_uring and for a pool of pread threads
/// (tests/io/read_engine_test.cc runs on both). The engine itself retries EINTR, EAGAIN and short reads.
///
/// The destructor waits for the reads in flight: afterwards no destination is written.
///
/// Threads: one owner thread at a time calls everything, with the destructor, except wake(), which is thread-safe.
class ReadEngine {
 public:
  static Result<std::unique_ptr<ReadEngine>> create(const ReadEngineOptions& options);
  virtual ~ReadEngine() = default;

  /// "io_uring" or "pread". If the kernel refused io_uring, the name says why: "pread (io_uring: EPERM)".
  virtual std::string_view name() const = 0;

  /// Add a directory that paths are relative to ("" for absolute paths and the working directory). The handle stays
  /// valid until remove_root().
  virtual Result<int> add_root(const std::string& directory) = 0;
  /// The same of a root that is a URL: how its store is asked, and where that is counted. Engines for files take none.
  virtual Result<int> add_store(const std::string& url, [[maybe_unused]] const StoreUse& use) {
    return add_root(url);
  }
  /// Remove a directory of which no read is in flight. Files that were added below it stay.
  virtual void remove_root(int root) = 0;
  /// Add a container file whose ranges are read. The handle stays valid until remove_file().
  /// Errors: kNotFound, kPermission, kExhausted (descriptors), kIo (not a regular file).
  virtual Result<int> add_file(int root, const std::string& path) = 0;
  /// Remove a file of which no read is in flight.
  virtual void remove_file(int file) = 0;
  /// The times, inode and size that the file had when it was added.
  virtual const SourceStamp& file_stamp(int file) const = 0;
  /// The times, inode and size that the file has now. Errors: kIo and others of fstat().
  virtual Result<SourceStamp> file_stamp_now(int file) const = 0;

  /// The number of reads that may be submitted now: the depth without the reads in flight. Cancelled reads count only
  /// beyond the depth.
  virtual std::uint32_t room() const = 0;
  /// The number of reads that can wait for storage at the same time now. Other reads in flight wait for those.
  virtual std::uint32_t lanes() const = 0;
  /// Let at least `waiting` reads wait for storage at the same time from now on, at most the depth. This matters where
  /// a wait takes a thread: the kernel's for a ring, the pool's own. If no more threads can be had, their number stays.
  virtual void widen(std::uint32_t waiting) = 0;
  /// Queue reads, at most room() of them. They start at the next poll() at the latest.
  virtual void submit(std::span<const ReadRequest> requests) = 0;
  /// Ask that a read in flight ends soon. Its one completion comes in any case, ok or not, at once or when the kernel
  /// lets go of the read; until then its memory may be written. Does nothing if there is no such read. A stuck read
  /// costs the others neither a thread nor time.
  virtual void cancel(std::uint64_t token) = 0;
  /// Start the queued reads and collect completions. Waits at most timeout_ms (0: not at all) for the first one, or for
  /// wake(). Returns how many completions were written to `out`.
  virtual std::size_t poll(std::span<ReadCompletion> out, int timeout_ms) = 0;
  /// End a poll() that waits, from any thread.
  virtual void wake() = 0;
};

}  // namespace carya::io
