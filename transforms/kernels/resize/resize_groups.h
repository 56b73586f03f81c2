#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "transforms/kernels/resize/resize_taps.h"

namespace carya::transforms {

/// Allocates memory that starts on a cache line, since a 64-byte load that crosses lines costs two.
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

/// How one SIMD target works along a row. It computes `words` results at once, by one table lookup from `window_bytes`
/// bytes.
struct GroupShape {
  int words = 0;  ///< 0: the target has only plain loops
  int window_bytes = 0;
  /// Groups that are worked on together. Their count is rounded up by repeating the last.
  int groups_per_step = 1;
  bool operator==(const GroupShape&) const = default;
};

/// The horizontal weights in the layout of the kernel. A group is a run of whole output pixels whose first taps lie in
/// one window. Tap k of all of them lies in the window k pixels further on, so one index vector serves every tap.
struct ResizeGroups {
  struct Group {
    std::int32_t in_byte;  ///< the start of the window in the input row
    /// The start of the results. A group may write past its own pixels; the next one overwrites that.
    std::int32_t out_byte;
  };
  GroupShape shape;
  int taps = 0;
  int channels = 0;
  std::vector<Group> groups;
  /// 2 words bytes per group: 0x80 (nothing) in the low byte, the window's byte in the high one.
  std::vector<std::uint8_t> index;
  /// `words` weights per group and tap; the groups of a step lie side by side.
  std::vector<std::int16_t, LineAllocator<std::int16_t>> weights;

  void build(const ResizeTaps& taps, int channels, const GroupShape& shape);
};

}  // namespace carya::transforms
