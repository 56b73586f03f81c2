#pragma once

#include <sys/random.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace carya::loader {

/// Random decisions that nobody outside of this process can foresee, by the kernel's random numbers. Which results of
/// a worker are compared must not follow from anything that the worker sees. Threads: owner only.
class SecretDice {
 public:
  /// True with probability `chance`; always true if the kernel gives no random numbers.
  bool roll(double chance) {
    if (next_ == numbers_.size()) {
      if (getrandom(numbers_.data(), sizeof(numbers_), 0) != sizeof(numbers_)) return true;
      next_ = 0;
    }
    return static_cast<double>(numbers_[next_++] >> 11) * 0x1p-53 < chance;
  }

 private:
  std::array<std::uint64_t, 32> numbers_{};  // 256 bytes: the kernel never gives fewer. Source: getrandom(2)
  std::size_t next_ = numbers_.size();
};

}  // namespace carya::loader
