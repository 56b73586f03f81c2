#include "autotune/simulator/knows_all.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace carya::autotune::simulator {
namespace {

constexpr int kHalvings = 60;
constexpr double kExtraMax = 1e6;  // $ per worker-hour: nobody pays it

double cross(const Work::Way& a, const Work::Way& b, const Work::Way& c) {
  return (b.worker_hours - a.worker_hours) * (c.dollars - a.dollars) -
         (b.dollars - a.dollars) * (c.worker_hours - a.worker_hours);
}

}  // namespace

Work::Work(double samples, const PlacementInputs& truth, const Prices& prices, double scaling_loss,
           std::uint32_t workers_max)
    : samples_(samples) {
  std::vector<Way> all;
  PlacementInputs facts = truth;
  const auto add = [&](std::optional<std::size_t> cut, std::uint32_t workers) {
    if (cut)
      facts.cuts[*cut].worker_cpu_s = truth.cuts[*cut].worker_cpu_s * (1 + scaling_loss * (workers - 1));
    const Choice choice = predict(facts, prices, {}, cut, workers);
    if (!(choice.rate > 0)) return;
    double used = 0;  // of the workers
    if (cut && workers > 0)
      used = choice.remote_share * choice.rate * facts.cuts[*cut].worker_cpu_s / facts.worker_cores;
    const double dollars = (prices.host_per_hour + used * prices.worker_per_hour) / choice.rate / 3600;
    all.push_back({dollars, used / choice.rate / 3600});
  };
  add(std::nullopt, 0);
  for (std::size_t cut = 0; cut < truth.cuts.size(); ++cut)
    for (std::uint32_t workers = 1; workers <= workers_max; ++workers) add(cut, workers);
  std::ranges::sort(all, {}, [](const Way& way) { return std::pair(way.worker_hours, way.dollars); });
  for (const Way& way : all) {  // the lower hull, as far as it falls
    if (!ways_.empty() && way.dollars >= ways_.back().dollars) continue;
    while (ways_.size() > 1 && cross(ways_[ways_.size() - 2], ways_.back(), way) <= 0) ways_.pop_back();
    ways_.push_back(way);
  }
}

const Work::Way& Work::cheapest(double extra) const {
  return *std::ranges::min_element(ways_, {},
                                   [&](const Way& way) { return way.dollars + extra * way.worker_hours; });
}

double least_cost(std::span<const Work> work, double worker_hours) {
  const auto at = [&](double extra) {
    Work::Way sum;
    for (const Work& one : work) {
      const Work::Way& way = one.cheapest(extra);
      sum.dollars += one.samples() * way.dollars, sum.worker_hours += one.samples() * way.worker_hours;
    }
    return sum;
  };
  const auto bound = [&](double extra) {
    const Work::Way sum = at(extra);
    return sum.dollars + extra * (sum.worker_hours - worker_hours);
  };
  if (at(0).worker_hours <= worker_hours) return bound(0);
  double low = 0, high = 1e-3;  // too cheap, dear enough
  for (; at(high).worker_hours > worker_hours; low = high, high *= 4)
    if (high > kExtraMax) return bound(0);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (at(middle).worker_hours > worker_hours ? low : high) = middle;
  }
  return std::max({bound(0), bound(low), bound(high)});
}

std::vector<double> by_weight(std::span<const double> weights, std::span<const double> least,
                              std::span<const double> most, double total) {
  std::vector<double> shares(weights.size());
  const auto give = [&](double each) {
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i)
      sum += shares[i] = std::max(least[i], std::min(most[i], each * weights[i]));
    return sum;
  };
  double low = 0, high = 1;
  for (std::size_t i = 0; i < weights.size(); ++i) high = std::max(high, most[i] / weights[i]);
  if (give(high) <= total) return shares;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (give(middle) > total ? high : low) = middle;
  }
  give(low);
  return shares;
}

double jain_index(std::span<const double> shares) {
  double sum = 0, squares = 0;
  for (const double share : shares) sum += share, squares += share * share;
  return squares > 0 ? sum * sum / (static_cast<double>(shares.size()) * squares) : 1;
}

}  // namespace carya::autotune::simulator
