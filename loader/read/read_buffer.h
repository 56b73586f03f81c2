#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

namespace carya::loader {

/// Page-aligned memory that reads land in. What is sent from it may outlive its chunk: the last who has it
/// frees it.
struct ReadBuffer {
  std::shared_ptr<std::byte[]> memory;
  std::uint64_t bytes = 0;
};

/// Read buffers on their way round: a steady stream allocates nothing. Sizes are rounded up to quarters of
/// powers of two, so a buffer fits its next user; at most `kept_bytes_max` lie idle. Threads: under the
/// engine's lock.
class ReadBufferPool {
 public:
  /// `available` says how much memory this process can still get; none: shm::available_memory_bytes().
  explicit ReadBufferPool(std::uint64_t kept_bytes_max, std::function<std::uint64_t()> available = {});

  /// Whether take(bytes) leaves memory enough for the rest of the process. Who has a buffer already does
  /// without another one where it does not: else a full cgroup is one in which the kernel kills.
  bool has_room(std::uint64_t bytes);
  /// Without memory when the system has none.
  ReadBuffer take(std::uint64_t bytes);
  /// One that others still have is left to them.
  void give(ReadBuffer buffer);
  /// The size that take(bytes) really gives; what budgets count.
  static std::uint64_t rounded(std::uint64_t bytes);

 private:
  std::vector<ReadBuffer>::iterator find_kept(std::uint64_t rounded_bytes);

  const std::uint64_t kept_bytes_max_;
  const std::function<std::uint64_t()> available_;
  std::uint64_t room_ = 0;     // that may be allocated before the system is asked again
  std::int64_t asked_ns_ = 0;  // when it was; 0: never
  std::uint64_t kept_bytes_ = 0;
  std::vector<ReadBuffer> kept_;
};

}  // namespace carya::loader
