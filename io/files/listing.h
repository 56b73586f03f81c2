#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "io/manifest/manifest.h"
#include "io/manifest/manifest_layout.h"

namespace carya::io {

/// Who reads a long index tells it that many records at a time.
inline constexpr std::uint64_t kTellEvery = 1024;

/// Counts what the threads of one listing have seen, and tells the caller every `tell_every_ns`.
///
/// Threads: thread-safe. The caller's function is called by the thread that made the object, in its add(): Python
/// notices an interrupt in its main thread alone.
class ListingProgress {
 public:
  explicit ListingProgress(const Progress& progress, std::int64_t tell_every_ns = 50'000'000)
      : progress_(progress), tell_every_ns_(tell_every_ns) {}
  /// False when the caller wants to stop; from then on always.
  bool add(std::uint64_t seen);
  /// Tell the sum once more on the caller's thread, which may have got no part of the work. False as of add().
  bool tell();
  std::int64_t tell_every_ns() const { return tell_every_ns_; }
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

 private:
  const Progress& progress_;
  const std::int64_t tell_every_ns_;
  const std::thread::id caller_ = std::this_thread::get_id();
  std::int64_t told_ns_ = 0;  // the caller's thread only
  std::atomic<std::uint64_t> seen_ = 0;
  std::atomic<bool> stopped_ = false;
};

/// Threads of a listing: what was asked for, else the allowed cores; between 1 and 64.
unsigned listing_threads(std::uint32_t asked);

using IndexTask = std::function<Status(std::uint64_t index)>;

/// What the calling thread does: one of the threads' work, or nothing but tell `progress`, where a task may wait for long.
enum class Caller { kWorks, kWaits };

/// task(i) once for each i < count, begun in this order, on `threads` threads. Ends early with the first error by index, or
/// with kClosed when `progress` was stopped; it is told while others are waited for.
Status for_each_index(std::uint64_t count, unsigned threads, ListingProgress& progress, const IndexTask& task,
                      Caller caller = Caller::kWorks);
/// The same where each thread makes a task of its own, with its own memory.
Status for_each_index_by(std::uint64_t count, unsigned threads, ListingProgress& progress,
                         const std::function<IndexTask()>& make_task, Caller caller = Caller::kWorks);

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
