#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "transforms/kernels/resize/resize_taps.h"

namespace carya::transforms {

/// Memory that starts on a cache line: a 64-byte load that crosses lines costs two.
template <typename T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <typename U>
  explicit LineAllocator(const LineAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, std::align_val_t{64}); }
  bool operator==(const LineAllocator&) const { return true; }
};

/// How one SIMD target works along a row: `words` results at once, taken by one table lookup from
/// `window_bytes` bytes.
struct GroupShape {
  int words = 0;  ///< 0: the target has plain loops only
  int window_bytes = 0;
  int groups_per_step =
      1;  ///< groups worked on together; the count is rounded up to it by repeating the last
  bool operator==(const GroupShape&) const = default;
};

/// The horizontal weights laid out for the kernel. A group is a run of whole output pixels whose first taps
/// lie in one window; tap k of all of them lies in the window k pixels further on, so one index vector serves
/// every tap.
struct ResizeGroups {
  struct Group {
    std::int32_t in_byte;   ///< where the window starts in the input row
    std::int32_t out_byte;  ///< where the results go; what a group writes past its own pixels is overwritten
                            ///< by the next
  };
  GroupShape shape;
  int taps = 0;
  int channels = 0;
  std::vector<Group> groups;
  std::vector<std::uint8_t>
      index;  ///< 2 words bytes per group: 0x80 (nothing) in the low byte, the window's byte in the high
  std::vector<std::int16_t, LineAllocator<std::int16_t>>
      weights;  ///< `words` per group and tap; the groups of a step side by side

  void build(const ResizeTaps& taps, int channels, const GroupShape& shape);
};

}  // namespace carya::transforms
