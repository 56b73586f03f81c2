#pragma once

#include <cstdint>

namespace carya::loader {

/// While it lives, the n-th allocation (from 1) by any thread but this one fails: operator new throws. Of
/// this test program only; one at a time.
class ShortMemory {
 public:
  explicit ShortMemory(std::int64_t nth);
  ~ShortMemory();
  ShortMemory(const ShortMemory&) = delete;
  ShortMemory& operator=(const ShortMemory&) = delete;

  /// False under a sanitizer that brings an operator new of its own.
  static bool possible();
  /// Whether that allocation has come.
  bool failed() const;
};

}  // namespace carya::loader
