#pragma once

#include <memory>
#include <vector>

#include "transforms/jpeg/index.h"
#include "transforms/jpeg/work.h"
#include "transforms/simd/band_runner.h"

namespace carya::jpeg {

/// Whether every MCU row of the region has an index point to start from.
bool covers(const Index& index, const Work& work);

/// Decodes one large region in bands of MCU rows, each as a region of its own. The place in the scan where a band
/// begins comes
/// - from the points of an index that covers the region;
/// - from restart markers, once the whole scan is unstuffed;
/// - else from a pass over the scan that makes points and runs ahead of the bands, at a quarter of the cost of
///   decoding. Where it ends, the rest is one band, decoded in scan order.
///
/// Threads: owner only; it keeps the memory of its lanes. Cost: where bands share 2x1 chroma lines, one MCU row per
/// band is decoded twice.
class Bands {
 public:
  /// Decode work.region, as planned by plan_region(), into work.out. Returns true if a decode without bands would be
  /// kDone, with these pixels and points. Returns false on a doubt, or if there is nothing to begin at. Then `out` is
  /// unspecified, work.made may have points of this scan, and the caller decodes without bands. May throw
  /// std::bad_alloc.
  bool decode(const Work& work, BandRunner& runner);

 private:
  class Parts;
  enum class Entry { kNone, kPoints, kRestarts, kScout };
  struct Lane {
    Work work;
    TableCache tables;
  };
  static Entry entry_of(const Work& work);
  void begin_scout(const Work& work);

  std::vector<std::unique_ptr<Lane>> lanes_;
  Lane scout_;
  Index rows_{0};  // points of scans that have no other index
};

}  // namespace carya::jpeg
