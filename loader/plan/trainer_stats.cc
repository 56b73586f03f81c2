#include "loader/plan/trainer_stats.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace carya::loader {
namespace {

/// More than any storage or trainer does in a second, and any read takes.
constexpr double kFigureMax = 1e15;

double possible(double figure) {
  return std::isfinite(figure) && figure > 0 && figure <= kFigureMax ? figure : 0;
}

std::int64_t past(std::int64_t at_s, std::int64_t now_s) {
  return std::clamp<std::int64_t>(at_s, 0, std::max<std::int64_t>(now_s, 0));
}

/// The lower one where there are two.
template <std::size_t N>
double median(std::array<double, N>& all, std::size_t count) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>((count - 1) / 2);
  std::nth_element(all.begin(), middle, all.begin() + static_cast<std::ptrdiff_t>(count));
  return *middle;
}

}  // namespace

StreamRates checked(const StreamRates& rates, std::int64_t now_s) {
  return {.read_latency_s = possible(rates.read_latency_s),
          .read_bytes_per_s = possible(rates.read_bytes_per_s),
          .reads_at_s = past(rates.reads_at_s, now_s),
          .demand_per_s = possible(rates.demand_per_s),
          .demand_at_s = past(rates.demand_at_s, now_s)};
}

StreamRates joined(const StreamRates& older, const StreamRates& newer) {
  StreamRates all = older;
  if (newer.read_latency_s > 0) {
    all.read_latency_s = newer.read_latency_s;
    all.read_bytes_per_s = newer.read_bytes_per_s;
    all.reads_at_s = newer.reads_at_s;
  }
  if (newer.demand_per_s > 0) {
    all.demand_per_s = newer.demand_per_s;
    all.demand_at_s = newer.demand_at_s;
  }
  return all;
}

void TrainerMeter::asked(std::int64_t now_ns, std::uint32_t ready) {
  if (first_ns_ == 0) first_ns_ = now_ns;
  if (has_batch_) add_step(now_ns - delivered_ns_);
  if (has_batch_ || asked_ == 0) {
    ++asked_;
    ready_ += ready;
  }
  has_batch_ = false;
  asked_ns_ = now_ns;
}

void TrainerMeter::delivered(std::int64_t now_ns, std::uint64_t rows) {
  waited(now_ns);
  ++steps_;
  has_batch_ = true;
  delivered_ns_ = now_ns;
  rows_ = rows;
}

void TrainerMeter::add_step(std::int64_t own_ns) {
  open_.own_ns += std::max<std::int64_t>(own_ns, 1);
  open_.rows += rows_;
  if (++timed_ % kBlockSteps != 0) return;
  blocks_[(timed_ / kBlockSteps - 1) % kBlocks] = open_;
  open_ = {};
}

TrainerStats TrainerMeter::figures(std::int64_t now_ns) const {
  TrainerStats figures{.steps = steps_,
                       .stall_ns = stall_ns_,
                       .lifetime_ns = first_ns_ == 0 ? 0 : now_ns - first_ns_,
                       .asked = asked_,
                       .ready = ready_};
  const std::size_t count = std::min<std::size_t>(timed_ / kBlockSteps, kBlocks);
  if (count == 0) return figures;
  std::array<double, kBlocks> step_ns{}, row_ns{};
  for (std::size_t i = 0; i < count; ++i) {
    const auto own_ns = static_cast<double>(blocks_[i].own_ns);
    step_ns[i] = own_ns / kBlockSteps;
    row_ns[i] = own_ns / static_cast<double>(std::max<std::uint64_t>(blocks_[i].rows, 1));
  }
  figures.step_s = median(step_ns, count) * 1e-9;
  figures.demand_per_s = 1e9 / median(row_ns, count);
  return figures;
}

}  // namespace carya::loader
