#pragma once

#include <cstddef>
#include <vector>

namespace carya::transforms {

/// Memory that a codec takes piece by piece for one picture and gives back all at once. Pieces are zeroed, so that no
/// picture sees bytes of another, and 64-byte aligned with 64 bytes of slack. Threads: owner only. Cost: after reset(),
/// a picture with the same needs takes no memory from the heap, up to kRetainMax.
class Arena {
 public:
  /// The most bytes that reset() keeps. A larger picture takes its memory from the heap each time.
  static constexpr std::size_t kRetainMax = std::size_t{64} << 20;

  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Returns nullptr if there is no memory.
  void* allocate(std::size_t bytes);
  /// Ends the life of every piece.
  void reset();

 private:
  struct Block {
    std::byte* data;
    std::size_t capacity;
  };
  bool add_block(std::size_t capacity);

  std::vector<Block> blocks_;  // pieces come from the last block
  std::size_t used_ = 0;       // bytes of the last block that are in use
};

}  // namespace carya::transforms
