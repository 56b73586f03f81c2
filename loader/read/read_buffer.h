#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

namespace carya::loader {

/// Page-aligned memory that reads write to. Requests to workers may refer to it after its chunk has ended; the last
/// owner frees it.
struct ReadBuffer {
  std::shared_ptr<std::byte[]> memory;
  std::uint64_t bytes = 0;
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
  /// Give a buffer back. The pool drops it if somebody else still owns its memory.
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
