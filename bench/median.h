#pragma once

#include <algorithm>
#include <vector>

namespace carya::bench {

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0.0 : values[values.size() / 2];
}

/// From the least to the most, as a share of the median.
inline double spread(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return values.empty() ? 0.0 : (*high - *low) / median(values);
}

}  // namespace carya::bench
