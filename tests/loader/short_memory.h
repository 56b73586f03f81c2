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

/// While it lives, the n-th allocation (from 1) by this thread fails, unless n is 0. Allocations of other
/// threads, and those while a MemorySpared lives, do not count.
class ShortMemoryHere {
 public:
  explicit ShortMemoryHere(std::int64_t nth);
  ~ShortMemoryHere();
  ShortMemoryHere(const ShortMemoryHere&) = delete;
  ShortMemoryHere& operator=(const ShortMemoryHere&) = delete;

  /// Whether that allocation has come, of the one that lives; false: none lives.
  static bool failed();
};

/// While it lives, allocations of this thread do not fail: those of a test inside of what it tests.
class MemorySpared {
 public:
  MemorySpared();
  ~MemorySpared();
  MemorySpared(const MemorySpared&) = delete;
  MemorySpared& operator=(const MemorySpared&) = delete;
};

}  // namespace carya::loader
