#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "io/manifest/manifest.h"
#include "io/manifest/manifest_layout.h"

namespace carya::io {

/// Counts what the threads of one listing have seen and tells the caller now and then.
/// Threads: thread-safe; the caller's function runs in one thread at a time.
class ListingProgress {
 public:
  explicit ListingProgress(const Progress& progress) : progress_(progress) {}
  /// False when the caller wants to stop; from then on always.
  bool add(std::uint64_t seen);
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

 private:
  const Progress& progress_;
  std::mutex mutex_;
  std::uint64_t seen_ = 0;    // guarded by mutex_
  std::int64_t told_ns_ = 0;  // guarded by mutex_
  std::atomic<bool> stopped_ = false;
};

/// Threads of a listing: what was asked for, else the allowed cores; between 1 and 64.
unsigned listing_threads(std::uint32_t asked);

/// task(i) once for each i < count on `threads` threads (this one is among them). Ends early at the first
/// error by index that was met, or with kClosed when `progress` was stopped.
Status for_each_index(std::uint64_t count, unsigned threads, ListingProgress& progress,
                      const std::function<Status(std::uint64_t)>& task);

/// What kStopped listings end with.
std::unexpected<Error> listing_stopped();

/// Times, inode and size of `path` (links followed), relative to a directory descriptor; nothing when it has
/// none.
std::optional<SourceStamp> stamp_of(int directory, const char* path);
SourceStamp stamp_of(const struct stat& status);

/// Whether a change right now would show in the stamp: clocks of file systems tick coarsely, so a stamp from
/// the current tick would also fit a directory that changes later in it.
bool settled(const SourceStamp& stamp);

/// The real, absolute path. Errors: kNotFound, kPermission.
Result<std::string> real_path(const std::string& path);

}  // namespace carya::io
