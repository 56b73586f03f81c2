#include "io/http/hedging.h"

#include <algorithm>

namespace carya::io {

void Hedging::note_begun() {
  allowed_ = std::min(kAllowedMax, allowed_ + kShare);
}

void Hedging::note_answered(std::int64_t ns) {
  times_.at(count_++ % kKnown) = std::max<std::int64_t>(ns, 0);
  std::array<std::int64_t, kKnown> sorted = times_;
  const std::size_t known = std::min(count_, kKnown);
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(known * 97 / 100);
  std::nth_element(sorted.begin(), at, sorted.begin() + static_cast<std::ptrdiff_t>(known));
  late_ns_ = std::max(kAfterMinNs, *at + *at / 8);
}

}  // namespace carya::io
