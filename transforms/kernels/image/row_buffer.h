#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace carya::transforms {

/// Scratch bytes that grow to the size of the largest picture. They are 64-byte aligned, with 64 readable bytes before
/// data() and 128 after the end. reserve() does not keep the contents. Threads: owner only.
class RowBuffer {
 public:
  static constexpr std::size_t kBefore = 64;
  static constexpr std::size_t kAfter = 128;

  /// Provide at least `bytes` bytes at data(). Returns false if there is no memory.
  bool reserve(std::size_t bytes) {
    if (bytes <= capacity_) return true;
    const std::size_t total = (bytes + bytes / 4 + kBefore + kAfter + 63) / 64 * 64;
    auto* memory = static_cast<std::uint8_t*>(std::aligned_alloc(64, total));
    if (memory == nullptr) return false;
    memory_.reset(memory);
    capacity_ = total - kBefore - kAfter;
    return true;
  }
  std::uint8_t* data() const { return memory_.get() + kBefore; }

 private:
  struct Free {
    void operator()(std::uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<std::uint8_t, Free> memory_;
  std::size_t capacity_ = 0;
};

}  // namespace carya::transforms
