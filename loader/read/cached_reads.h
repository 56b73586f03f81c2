#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/unique_fd.h"
#include "io/files/cached_read.h"
#include "io/manifest/manifest.h"
#include "loader/read/read_op.h"

namespace carya::loader {

/// The largest number of containers that all streams of the process keep open for CachedReads. It is an eighth of the
/// process's descriptors, beside those of the read scheduler (open_containers_max()).
std::size_t cached_containers_max();

/// Reads of one stream that the page cache answers. The calling thread reads at once, without the reading thread, a
/// queue or a wait. The read scheduler reads all other records: those that are not in the cache, and those that are not
/// as they were listed. It also retries, and words the errors.
///
/// A stream has descriptors of its own: roots from the beginning, containers as they are first read, while all streams
/// of the process have fewer than cached_containers_max() open. The read scheduler reads from the other containers. A
/// container is checked once a second, and is not read from while it differs from its listing.
///
/// Threads: const is thread-safe; close() and the destructor come after all other calls.
class CachedReads {
 public:
  /// Open the roots of `manifests`. `resolve` has the flags of openat2(2) for files below the roots. Returns null if no
  /// root's file system can be read this way (io::CachedReading::kNever).
  static std::unique_ptr<CachedReads> create(std::span<const std::shared_ptr<const io::Manifest>> manifests,
                                             std::uint64_t resolve);
  ~CachedReads();
  CachedReads(const CachedReads&) = delete;
  CachedReads& operator=(const CachedReads&) = delete;

  /// Close all descriptors; read() returns false from now on.
  void close();
  /// Read into the memory of `op`. Returns whether all bytes are there; if not, some may have been written.
  bool read(const ReadOp& op) const;

 private:
  struct Container {
    std::atomic<int> fd{-1};                 ///< kClosed, or an open descriptor
    std::atomic<std::int64_t> looked_ns{0};  ///< when the container was last found as listed
  };
  struct Place {
    const io::Manifest* manifest = nullptr;
    io::CachedReading how = io::CachedReading::kNever;
    UniqueFd root;
    std::unique_ptr<Container[]> containers;
  };
  explicit CachedReads(std::uint64_t resolve) : resolve_(resolve) {}
  int container(const Place& place, std::uint32_t number) const;
  int open_container(const Place& place, std::uint32_t number) const;

  const std::uint64_t resolve_;
  std::vector<Place> places_;
};

}  // namespace carya::loader
