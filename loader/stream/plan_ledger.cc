#include "loader/stream/plan_ledger.h"

#include <algorithm>
#include <utility>

namespace carya::loader {

PlanLedger::PlanLedger(std::shared_ptr<PlanInUse> first, PlanChooser chooser)
    : present_(std::move(first)), plans_{present_}, chooser_(std::move(chooser)) {}

std::shared_ptr<PlanInUse> PlanLedger::next() {
  if (chooser_)
    if (auto chosen = chooser_()) set(std::move(chosen));
  return present_;
}

void PlanLedger::set(std::shared_ptr<PlanInUse> plan) {
  const auto known = std::ranges::find_if(
      plans_, [&](const auto& other) { return other->profile.order == plan->profile.order; });
  if (known == plans_.end())
    plans_.push_back(plan);
  else
    plan = *known;  // its profile goes on counting
  if (plan == present_) return;
  present_ = std::move(plan);
  ++switches_;
}

std::vector<OrderProfile> PlanLedger::measured() const {
  std::vector<OrderProfile> orders;
  for (const auto& plan : plans_)
    if (plan != present_) orders.push_back(plan->profile);
  orders.push_back(present_->profile);
  return orders;
}

std::vector<transforms::OpProfile> PlanLedger::ops() const {
  std::vector<transforms::OpProfile> ops;
  for (const auto& plan : plans_) {
    std::vector<bool> taken(ops.size());  // one plan may have several stages of the same name
    for (const transforms::OpProfile& stage : plan->profile.stages) {
      std::size_t at = 0;
      while (at < taken.size() && (taken[at] || ops[at].name != stage.name)) ++at;
      if (at == taken.size()) {
        ops.push_back(stage);
        taken.push_back(true);
        continue;
      }
      taken[at] = true;
      add_to(ops[at], stage);
    }
  }
  return ops;
}

}  // namespace carya::loader
