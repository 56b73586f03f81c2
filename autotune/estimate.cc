#include "autotune/estimate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/det_math.h"
#include "base/philox.h"

namespace carya::autotune {
namespace {

constexpr double kErrors95 = 1.96;
constexpr std::size_t kWholeMin = 4;
/// A drawn factor stays above this: the normal distribution does not know that rates are above 0.
constexpr double kFactorMin = 0.2;

double ratio(double number, double by) {
  return by > 0 ? number / by : 0;
}

/// Numbers of the standard normal distribution, `of_each` per draw (Box and Muller).
std::vector<double> normal_table(std::size_t draws, std::size_t of_each) {
  constexpr double kTwoPi = 6.283185307179586;
  SampleRng random(op_key(0, "autotune/estimate", 0), 0, 0, 0);
  std::vector<double> table(draws * of_each);
  for (double& z : table) {
    const double radius = std::sqrt(-2 * det_log(1 - random.next_double()));
    z = radius * det_cos(kTwoPi * random.next_double());
  }
  return table;
}

}  // namespace

std::string_view Estimate::add(const Measurements& measured, const Running& running) {
  std::string_view broken;
  const auto add = [&](Quantity quantity, double value, std::string_view name) {
    if (series_[quantity].add(value)) broken = name;
  };
  add(kDemand, measured.demand, "the trainer's demand");
  add(kLocal, ratio(ratio(measured.local_thread_s, measured.local_samples), model_.local_cpu_s),
      "the time of a sample on the host");
  if (running.cut && *running.cut < model_.cuts.size()) {
    const RemoteCut& cut = model_.cuts[*running.cut];
    add(kHost, ratio(ratio(measured.remote_host_s, measured.remote_samples), cut.host_cpu_s),
        "the host's time of a remote sample");
    add(kWorker, ratio(ratio(measured.worker_thread_s, measured.remote_samples), cut.worker_cpu_s),
        "the time of a sample on a worker");
  }
  add(kLinkIn, measured.link_in_bytes_per_s, "the link to the host");
  add(kLinkOut, measured.link_out_bytes_per_s, "the link from the host");
  add(kSource, measured.source_bytes_per_s, "the source");
  return broken;
}

void Estimate::add_whole(const Measurements& measured, const Running& running, const PlacementGoal& goal) {
  std::array<double, kCount> means{};
  for (std::size_t i = 0; i < kCount; ++i) means[i] = series_[i].mean();
  means[kWhole] = 1;
  PlacementFacts parts = facts(means);
  parts.cores = std::min(parts.cores, running.cores);
  if (!(parts.cores > 0)) return;
  parts.demand = 0;  // what they could do
  const double sum = predict(parts, {}, {}, running.cut, measured.workers_ready).rate;
  const double rate = ratio(measured.samples, measured.seconds);
  const bool enough = goal.objective == Objective::kCostAtTarget && goal.target > 0 && rate >= goal.target;
  const bool waits = ratio(measured.stall_s, measured.seconds) > kStallMax;
  if ((waits || sum < series_[kDemand].mean() * (1 - kStallMax)) && !enough)
    series_[kWhole].add(ratio(rate, sum));
}

double Estimate::whole() const {
  const Series& whole = series_[kWhole];
  const double share = whole.mean();
  if (whole.count() < kWholeMin) return 1;
  return std::abs(share - 1) > kErrors95 * whole.relative_error() * share ? share : 1;
}

double Estimate::cores_error() const {
  const auto error = [this](Quantity quantity) {
    return series_[quantity].count() > 1 ? series_[quantity].relative_error() : 0;
  };
  return std::sqrt(error(kDemand) * error(kDemand) + error(kLocal) * error(kLocal));
}

PlacementFacts Estimate::facts(const std::array<double, kCount>& factors) const {
  PlacementFacts facts = model_;
  const auto measured = [&factors](Quantity quantity, double otherwise) {
    return factors[quantity] > 0 ? factors[quantity] : otherwise;
  };
  const double whole = measured(kWhole, 1);
  facts.demand = measured(kDemand, model_.demand);
  facts.local_cpu_s *= measured(kLocal, 1) / whole;
  for (RemoteCut& cut : facts.cuts) {
    cut.host_cpu_s *= measured(kHost, 1) / whole;
    cut.worker_cpu_s *= measured(kWorker, 1) / whole;
  }
  facts.link_in_bytes_per_s = measured(kLinkIn, model_.link_in_bytes_per_s) * whole;
  facts.link_out_bytes_per_s = measured(kLinkOut, model_.link_out_bytes_per_s) * whole;
  facts.source_bytes_per_s = measured(kSource, model_.source_bytes_per_s) * whole;
  return facts;
}

PlacementFacts Estimate::facts() const {
  std::array<double, kCount> means{};
  for (std::size_t i = 0; i < kCount; ++i) means[i] = series_[i].mean();
  means[kWhole] = whole();
  return facts(means);
}

PlacementFacts Estimate::drawn(std::size_t draw) const {
  static const std::vector<double> kNormal = normal_table(kDraws, kCount);
  std::array<double, kCount> drawn{};
  for (std::size_t i = 0; i < kCount; ++i) {
    const double z = kNormal[draw % kDraws * kCount + i];
    const double error = series_[i].count() > 1 ? series_[i].relative_error() : 0;
    drawn[i] = series_[i].mean() * std::max(kFactorMin, 1 + error * z);
  }
  // As long as nothing speaks against the sum of the parts it stands: few looks at the whole, which is only
  // seen while the trainer waits, would else leave a doubt for ever.
  if (whole() == 1) drawn[kWhole] = 1;
  return facts(drawn);
}

}  // namespace carya::autotune
