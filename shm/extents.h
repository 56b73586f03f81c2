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

/// Where some bytes lie in a memory file. Offsets, never addresses: this is what goes into a message.
struct Extent {
  std::uint64_t offset = 0;  ///< a multiple of kExtentAlign
  std::uint64_t bytes = 0;   ///< as asked for, at least 1
};

inline constexpr std::uint64_t kExtentAlign = 64;  ///< a cache line: no two extents share one

/// One memory file, cut into extents of any size by its one writer; they are freed in any order.
///
/// The allocator (Boost.Interprocess's rbtree_best_fit, without mutexes) keeps its tree in the file, between
/// the extents. Only this object may write the file and only it reads the tree; readers get extents in
/// messages. Nobody opens the tree a second time: where the writer dies, extents stay readable for those who
/// map them, and the file goes with its last descriptor. When an extent may be freed is the caller's protocol:
/// a reader that still looks at a freed one sees what is written there next.
///
/// All memory is taken at creation, so no write fails later. A forked child has no mapping of it: there every
/// call is a bug, but for the destructor, which does nothing. Cost: 64 B per extent; logarithmic in the number
/// of free pieces. Threads: owner only; different extents may be written by different threads.
class Extents {
 public:
  /// A file of `bytes`, sealed: its size is fixed, and nobody but this object can write it. Errors:
  /// kInvalidArgument (too small for the tree), kExhausted, kUnsupported (no memory files in the kernel).
  static Result<Extents> create(const char* name, std::uint64_t bytes);
  Extents(Extents&&) noexcept;
  Extents& operator=(Extents&&) noexcept;
  ~Extents();

  /// The best fit, its bytes as the last owner left them. Errors: kExhausted (no piece is large enough; the
  /// numbers are in the message), kInvalidArgument (0 bytes).
  Result<Extent> allocate(std::uint64_t bytes);
  /// CHECKs that it was allocated and is freed once.
  void free(const Extent& extent);
  /// To be written, and read by this process. CHECKs that it was allocated and not freed.
  std::span<std::byte> memory(const Extent& extent) const;

  /// To be passed to readers.
  int fd() const { return fd_.get(); }
  std::uint64_t bytes() const { return region_.bytes(); }
  /// What is left, in pieces that need not lie together.
  std::uint64_t free_bytes() const;
  std::size_t count() const;

 private:
  struct Allocator;
  Extents(UniqueFd fd, Region region, std::unique_ptr<Allocator> allocator);

  UniqueFd fd_;
  Region region_;
  std::unique_ptr<Allocator> allocator_;
};

/// A reader's mapping of a file of extents. It trusts nothing in the file and nobody who sends extents: each is
/// checked against the file's size. Threads: const is thread-safe.
class ExtentReader {
 public:
  /// Map what came, read-only. `what` is the errors' subject. Errors: kCorrupt (no memory file, larger than
  /// `bytes_max`, one whose size could change, that somebody else could map to write, or that has holes),
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
