#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"
#include "shm/region.h"

namespace carya::shm {

/// A range of bytes in a memory file. It has an offset and no address, since messages carry it.
struct Extent {
  std::uint64_t offset = 0;  ///< a multiple of kExtentAlign
  std::uint64_t bytes = 0;   ///< the size that was asked for, at least 1
};

inline constexpr std::uint64_t kExtentAlign = 64;  ///< a cache line: no two extents share one line

/// One memory file that its one writer cuts into extents of any size. Extents are freed in any order.
///
/// The allocator (Boost.Interprocess's rbtree_best_fit, without mutexes) keeps its tree in the file, between the
/// extents. Only this object writes the file and reads the tree; readers get extents in messages. Nobody opens the tree
/// a second time: when the writer dies, extents stay readable for those who map them, and the file goes with its last
/// descriptor. The caller's protocol says when an extent may be freed: a reader of a freed extent sees what is written
/// there next.
///
/// All memory is taken at creation, so that no write fails later. A forked child has no mapping of the file: there
/// every call is a bug, except the destructor, which does nothing. Cost: 64 B per extent; logarithmic in the number of
/// free pieces. Threads: owner only; different threads may write different extents.
class Extents {
 public:
  /// Make a sealed file of `bytes`: its size is fixed, and only this object can write it. Errors: kInvalidArgument (too
  /// small for the tree), kExhausted, kUnsupported (the kernel has no memory files).
  static Result<Extents> create(const char* name, std::uint64_t bytes);
  Extents(Extents&&) noexcept;
  Extents& operator=(Extents&&) noexcept;
  ~Extents();

  /// Allocate the best fit. Its bytes are as the last owner left them. Errors: kExhausted (no piece is large enough;
  /// the message has the numbers), kInvalidArgument (0 bytes).
  Result<Extent> allocate(std::uint64_t bytes);
  /// Free an extent. CHECKs that it was allocated and is freed once.
  void free(const Extent& extent);
  /// The memory of an extent, which this process may write and read. CHECKs that it was allocated and not freed.
  std::span<std::byte> memory(const Extent& extent) const;

  /// The descriptor to pass to readers.
  int fd() const { return fd_.get(); }
  std::uint64_t bytes() const { return region_.bytes(); }
  /// The bytes that are left, in pieces that need not lie together.
  std::uint64_t free_bytes() const;
  std::size_t count() const;

 private:
  struct Allocator;
  Extents(UniqueFd fd, Region region, std::unique_ptr<Allocator> allocator);

  UniqueFd fd_;
  Region region_;
  std::unique_ptr<Allocator> allocator_;
};

/// A reader's mapping of a file of extents. It trusts neither the file nor the sender of extents: it checks each extent
/// against the file's size. Threads: const is thread-safe.
class ExtentReader {
 public:
  /// Map a file that a peer sent, read-only. `what` is the errors' subject. Errors: kCorrupt (no memory file, larger
  /// than `bytes_max`, a file whose size could change, that somebody else could map to write, or that has holes),
  /// kExhausted.
  static Result<ExtentReader> map(int fd, std::uint64_t bytes_max, std::string_view what);

  /// The bytes of an extent. Errors: kCorrupt (it does not lie in the file).
  Result<std::span<const std::byte>> at(const Extent& extent) const;
  std::uint64_t bytes() const { return region_.bytes(); }

 private:
  explicit ExtentReader(Region region) : region_(std::move(region)) {}
  Region region_;
};

}  // namespace carya::shm
