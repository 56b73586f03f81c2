#include "autotune/controller/estimate.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/det_math.h"
#include "base/philox.h"

namespace carya::autotune {
namespace {

constexpr double kErrors95 = 1.96;
constexpr std::size_t kWholeMin = 4;
/// A worker that has so many times the speed that it had, or had so many times what it has, is another.
constexpr double kAnotherSpeed = 1.6;
/// So many standard errors from what an earlier run measured are another world.
constexpr double kContradiction = 3;
/// A drawn factor stays above this: the normal distribution does not know that rates are above 0.
constexpr double kFactorMin = 0.2;

double ratio(double number, double by) {
  return by > 0 ? number / by : 0;
}

/// One of those that were known has become another.
bool differ(const std::vector<double>& before, const std::vector<double>& now) {
  const auto like = [](double a, double b) { return std::max(a, b) <= kAnotherSpeed * std::min(a, b); };
  return before.size() == now.size() && !std::ranges::equal(before, now, like);
}

double root_of_squares(double a, double b) {
  return std::sqrt(a * a + b * b);
}

/// Numbers of the standard normal distribution, `of_each` per draw (Box and Muller).
std::vector<double> normal_table(std::size_t draws, std::size_t of_each) {
  constexpr double kTwoPi = 6.283185307179586;
  SampleRng random(op_key(0, "autotune/controller/estimate", 0), 0, 0, 0);
  std::vector<double> table(draws * of_each);
  for (double& z : table) {
    const double radius = std::sqrt(-2 * det_log(1 - random.next_double()));
    z = radius * det_cos(kTwoPi * random.next_double());
  }
  return table;
}

}  // namespace

Status check(const EarlierRun& earlier) {
  constexpr double kLeast = 1e-12, kMost = 1e15;
  for (const double number :
       {earlier.demand, earlier.local_cpu_s, earlier.link_in_bytes_per_s, earlier.link_out_bytes_per_s,
        earlier.source_bytes_per_s, earlier.host_cpu_s, earlier.worker_cpu_s, earlier.worker_cores})
    if (number != 0 && !(number >= kLeast && number <= kMost))
      return fail(Code::kInvalidArgument,
                  fmt::format("earlier run: {}; it must be 0, or from 1e-12 to 1e15", number));
  if (earlier.workers > kAnyWorkersMax)
    return fail(Code::kInvalidArgument,
                fmt::format("earlier run: {} workers; at most 100,000", earlier.workers));
  return {};
}

std::string_view Estimate::add(const Measurements& measured, const Running& running) {
  std::string_view broken;
  if (!measured.worker_speeds.empty()) {
    if (differ(model_.worker_speeds, measured.worker_speeds)) broken = kSpeedOfAWorker;
    model_.worker_speeds = measured.worker_speeds;
  }
  const auto add = [&](Quantity quantity, double value, std::string_view name) {
    const bool changed = series_[quantity].add(value);
    if (!changed && !contradicts_earlier(quantity)) return;
    earlier_[quantity] = 0;
    broken = name;
  };
  add(kDemand, measured.demand, "the trainer's demand");
  add(kLocal, ratio(ratio(measured.local_thread_s, measured.local_samples), model_.local_cpu_s),
      "the time of a sample on the host");
  if (running.cut && *running.cut < model_.cuts.size()) {
    const RemoteCut& cut = model_.cuts[*running.cut];
    if (measured.remote_samples > 0) cut_ = *running.cut;
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
  std::array<double, kCount> of_parts = means();
  of_parts[kWhole] = 1;
  PlacementInputs parts = facts(of_parts);
  parts.cores = std::min(parts.cores, running.cores);
  if (!(parts.cores > 0)) return;
  parts.demand = 0;  // what they could do
  const double sum = predict(parts, {}, {}, running.cut, measured.workers_ready).rate;
  const double rate = ratio(measured.samples, measured.seconds);
  const bool enough = goal.objective == Objective::kCostAtTarget && goal.target > 0 && rate >= goal.target;
  const bool waits = ratio(measured.stall_s, measured.seconds) > kStallMax;
  if ((waits || sum < of_parts[kDemand] * (1 - kStallMax)) && !enough) series_[kWhole].add(ratio(rate, sum));
}

double Estimate::whole() const {
  const Series& whole = series_[kWhole];
  const double share = whole.mean();
  if (whole.count() < kWholeMin) return 1;
  return std::abs(share - 1) > kErrors95 * whole.relative_error() * share ? share : 1;
}

double Estimate::cores_error() const {
  return root_of_squares(known(kDemand).error, known(kLocal).error);
}

void Estimate::begin_with(const EarlierRun& earlier) {
  earlier_ = {};
  earlier_[kDemand] = earlier.demand;
  earlier_[kLocal] = ratio(earlier.local_cpu_s, model_.local_cpu_s);
  earlier_[kLinkIn] = earlier.link_in_bytes_per_s;
  earlier_[kLinkOut] = earlier.link_out_bytes_per_s;
  earlier_[kSource] = earlier.source_bytes_per_s;
  for (const RemoteCut& cut : model_.cuts) {
    if (cut.ops_remote != earlier.ops_remote) continue;
    cut_ = static_cast<std::size_t>(&cut - model_.cuts.data());
    earlier_[kHost] = ratio(earlier.host_cpu_s, cut.host_cpu_s);
    earlier_[kWorker] = ratio(earlier.worker_cpu_s, cut.worker_cpu_s);
  }
}

EarlierRun Estimate::learned(std::size_t cut) const {
  const std::array<double, kCount> found = means();
  EarlierRun run{.demand = found[kDemand],
                 .local_cpu_s = found[kLocal] * model_.local_cpu_s,
                 .link_in_bytes_per_s = found[kLinkIn],
                 .link_out_bytes_per_s = found[kLinkOut],
                 .source_bytes_per_s = found[kSource],
                 .worker_cores = model_.worker_cores};
  if (cut >= model_.cuts.size()) return run;
  run.ops_remote = model_.cuts[cut].ops_remote;
  run.host_cpu_s = found[kHost] * model_.cuts[cut].host_cpu_s;
  run.worker_cpu_s = found[kWorker] * model_.cuts[cut].worker_cpu_s;
  return run;
}

Estimate::Known Estimate::known(Quantity quantity) const {
  const Series& series = series_[quantity];
  const Known now{series.mean(), series.count() > 1 ? series.relative_error() : 0};
  const double earlier = earlier_[quantity];
  if (!(earlier > 0)) return now;
  if (!(now.error > 0)) return {earlier, kEarlierError};
  // Each counts by its certainty.
  const double weight = 1 / (now.error * now.error * now.mean * now.mean);
  const double weight_earlier = 1 / (kEarlierError * kEarlierError * earlier * earlier);
  const double mean = (weight * now.mean + weight_earlier * earlier) / (weight + weight_earlier);
  return {mean, 1 / (std::sqrt(weight + weight_earlier) * mean)};
}

bool Estimate::contradicts_earlier(Quantity quantity) const {
  const Series& series = series_[quantity];
  const double earlier = earlier_[quantity], now = series.mean();
  if (!(earlier > 0) || series.count() < 2) return false;
  return std::abs(now - earlier) >
         kContradiction * root_of_squares(kEarlierError * earlier, series.relative_error() * now);
}

std::array<double, Estimate::kCount> Estimate::means() const {
  std::array<double, kCount> found{};
  for (std::size_t i = 0; i < kCount; ++i) found[i] = known(static_cast<Quantity>(i)).mean;
  return found;
}

PlacementInputs Estimate::facts(const std::array<double, kCount>& factors) const {
  PlacementInputs facts = model_;
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

PlacementInputs Estimate::facts() const {
  std::array<double, kCount> found = means();
  found[kWhole] = whole();
  return facts(found);
}

PlacementInputs Estimate::facts_of_this_run() const {
  Estimate alone = *this;
  alone.earlier_ = {};
  return alone.facts();
}

PlacementInputs Estimate::drawn(std::size_t draw) const {
  static const std::vector<double> kNormal = normal_table(kDraws, kCount);
  std::array<double, kCount> drawn{};
  for (std::size_t i = 0; i < kCount; ++i) {
    const double z = kNormal[draw % kDraws * kCount + i];
    const Known about = known(static_cast<Quantity>(i));
    drawn[i] = about.mean * std::max(kFactorMin, 1 + about.error * z);
  }
  // As long as nothing speaks against the sum of the parts it stands: few looks at the whole, which is only
  // seen while the trainer waits, would else leave a doubt for ever.
  if (whole() == 1) drawn[kWhole] = 1;
  return facts(drawn);
}

}  // namespace carya::autotune
