// Production's plans: which one computes a chunk, and what each cost.
#include <algorithm>
#include <utility>

#include "loader/stream/scheduler.h"

namespace carya::loader {

void Production::give_plan(Chunk& chunk) {
  const std::uint64_t every = options_.forced_every_chunks;
  if (every > 0 && taken_++ % every == 0) set_plan(plans_[taken_ / every % plans_.size()]);
  chunk.plan = plan_;
}

void Production::set_plan(std::shared_ptr<PlanInUse> plan) {
  const auto known = std::ranges::find_if(
      plans_, [&](const auto& other) { return other->profile.order == plan->profile.order; });
  if (known == plans_.end())
    plans_.push_back(plan);
  else
    plan = *known;  // and goes on counting there
  if (plan == plan_) return;
  plan_ = std::move(plan);
  flow_samples_ = 0;
  ++stats_.plan_switches;
}

PlanProfile Production::measured() const {
  PlanProfile measured;
  for (const auto& plan : plans_)
    if (plan != plan_) measured.orders.push_back(plan->profile);
  measured.orders.push_back(plan_->profile);
  if (stats_.reads > 0) {
    ProductionStats reads = stats_;
    reads.reading_ns = reading_ns();
    measured.rates = {.read_latency_s = reads.mean_read_s(),
                      .read_bytes_per_s = reads.read_bytes_per_s(),
                      .reads_at_s = unix_s()};
  }
  return measured;
}

ProductionStats Production::stats() const {
  ProductionStats stats = stats_;
  stats.flow = flow_;
  stats.cores = cores();
  stats.reading_ns = reading_ns();
  for (const auto& plan : plans_) {
    std::vector<bool> taken(stats.ops.size());  // one plan may have several stages of a name
    for (const transforms::OpProfile& stage : plan->profile.stages) {
      std::size_t at = 0;
      while (at < taken.size() && (taken[at] || stats.ops[at].name != stage.name)) ++at;
      if (at == taken.size()) {
        stats.ops.push_back(stage);
        taken.push_back(true);
        continue;
      }
      taken[at] = true;
      add_to(stats.ops[at], stage);
    }
  }
  return stats;
}

}  // namespace carya::loader
