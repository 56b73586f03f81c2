#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

namespace carya::loader {

/// Page-aligned memory, and the number of those to whom it is lent.
struct ReadMemory {
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> start;
  /// The release of a loan stores with release order, and whoever writes to the memory afterwards loads with acquire
  /// order. The count of a std::shared_ptr cannot serve: use_count() orders nothing.
  std::atomic<std::uint32_t> loans{0};
};

/// Memory that reads write to. Requests to workers may refer to it after its chunk has ended; the last owner frees it.
struct ReadBuffer {
  std::shared_ptr<ReadMemory> memory;
  std::uint64_t bytes = 0;

  /// The first byte; null if there is no memory.
  std::byte* data() const { return memory ? memory->start.get() : nullptr; }
  /// Lend the memory to a reader on any thread: nobody writes to it before the result is destroyed, and all that the
  /// reader did happens before a later write. Null if there is no memory. May throw std::bad_alloc.
  std::shared_ptr<const void> lend() const;
};

/// Read buffers for reuse, so that a steady stream allocates nothing. Sizes are rounded up to quarters of powers of
/// two, so that a buffer fits its next user. At most `kept_bytes_max` are kept unused. Threads: under the engine's
/// lock.
class ReadBufferPool {
 public:
  /// `available` returns the bytes that this process can still get; by default shm::available_memory_bytes().
  explicit ReadBufferPool(std::uint64_t kept_bytes_max, std::function<std::uint64_t()> available = {});

  /// Whether take(bytes) leaves enough memory for the rest of the process. If not, a caller that has a buffer makes do
  /// with it: in a full cgroup the kernel kills a process.
  bool has_room(std::uint64_t bytes);
  /// Take a buffer of at least `bytes`. Its memory is null if the system has none.
  ReadBuffer take(std::uint64_t bytes);
  /// Make a buffer outside of the pool, for a thread that keeps it. Its memory is null if the system has none.
  static ReadBuffer make(std::uint64_t bytes);
  /// Give a buffer back. The pool drops it while its memory is lent.
  void give(ReadBuffer buffer);
  /// The size that take(bytes) really has. Budgets count in this size.
  static std::uint64_t rounded(std::uint64_t bytes);

 private:
  std::vector<ReadBuffer>::iterator find_kept(std::uint64_t rounded_bytes);

  const std::uint64_t kept_bytes_max_;
  const std::function<std::uint64_t()> available_;
  std::uint64_t room_ = 0;     // bytes that may be allocated before available_ is asked again
  std::int64_t asked_ns_ = 0;  // when available_ was last asked; 0: never
  std::uint64_t kept_bytes_ = 0;
  std::vector<ReadBuffer> kept_;
};

}  // namespace carya::loader
