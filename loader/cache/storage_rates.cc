#include "loader/cache/storage_rates.h"

#include <algorithm>
#include <cmath>

namespace carya::loader {
namespace {

/// Longer than any storage takes for a sample, or for a byte.
constexpr double kFixedMaxS = 1e4, kPerByteMaxS = 1;

bool is_possible(const SizeCost& cost) {
  return std::isfinite(cost.fixed_s) && cost.fixed_s >= 0 && cost.fixed_s <= kFixedMaxS &&
         std::isfinite(cost.per_byte_s) && cost.per_byte_s >= 0 && cost.per_byte_s <= kPerByteMaxS;
}

}  // namespace

SizeCost SizeCost::through(double small, double small_s, double large, double large_s) {
  if (!(large > small)) return {.per_byte_s = large > 0 ? std::max(0.0, large_s / large) : 0};
  const double slope = std::max(0.0, (large_s - small_s) / (large - small));
  // What would be below 0 at no bytes goes through the larger of the two, which says more.
  const double per_byte_s = std::min(slope, std::max(0.0, large_s) / large);
  return {.fixed_s = std::max(0.0, large_s - per_byte_s * large), .per_byte_s = per_byte_s};
}

bool is_possible(const StorageRates& rates) {
  const auto possible = [](const SizeCost& cost) { return is_possible(cost); };
  return rates.measured_at_s >= 0 && std::ranges::all_of(rates.time, possible) &&
         std::ranges::all_of(rates.cpu, possible) &&
         std::ranges::all_of(rates.time, [](const SizeCost& cost) { return cost.at(1) > 0; });
}

}  // namespace carya::loader
