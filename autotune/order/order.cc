#include "autotune/order/order.h"

#include <fmt/core.h>
#include <algorithm>
#include <string>
#include <utility>

#include "autotune/order/lower_bound.h"
#include "autotune/order/precedence.h"
#include "autotune/order/search.h"
#include "autotune/order/stage_model.h"

namespace carya::autotune {

Result<BestOrder> best_order(const Chain& chain, const Profile& profile, const Machine& machine,
                             const OrderOptions& options) {
  ASSIGN(const StageModel model, StageModel::create(chain, profile, options.fuse));
  const Precedence precedence(chain, options.sense);
  const LowerBound bound(precedence, model);
  Search search(precedence, model, bound);
  BestOrder best;
  best.proven = search.run(0, options.sets_max);
  best.plan = Search::to_plan(search.best());
  ASSIGN(best.cost, cost(model, best.plan, machine));
  ASSIGN(best.declared, cost(model, declared_plan(chain), machine));
  if (!best.proven && best.declared.cpu_s < best.cost.cpu_s) {  // a narrow look may miss even that
    best.plan = declared_plan(chain);
    best.cost = best.declared;
  }
  best.exchanges = exchanges(chain, best.plan);
  constexpr double kNsPerS = 1e9;
  best.least_cpu_s =
      best.proven ? best.cost.cpu_s : bound.rest_ns(0, profile.source) / (kNsPerS * machine.speed);
  return best;
}

Status check_order(const Chain& chain, const Plan& plan, Sense sense) {
  const Precedence precedence(chain, sense);
  OpSet done = 0;
  for (const std::size_t op : plan.order()) {
    if (op >= chain.size() || (done & op_bit(op)) != 0)
      return fail(Code::kInvalidArgument,
                  fmt::format("plan: op {} is none of the chain's {}, or runs twice", op, chain.size()));
    if (const OpSet missing = precedence.before(op) & ~done; missing != 0) {
      const auto other = static_cast<std::size_t>(__builtin_ctzll(missing));
      return fail(Code::kInvalidArgument, "plan: " + chain.label(op) + " runs before " + chain.label(other) +
                                              ", which reorder=\"" + std::string(sense_name(sense)) +
                                              "\" does not allow; make the plan again");
    }
    done |= op_bit(op);
  }
  if (done == chain.all()) return {};
  return fail(
      Code::kInvalidArgument,
      "plan: " + chain.label(static_cast<std::size_t>(__builtin_ctzll(chain.all() & ~done))) + " is missing");
}

std::vector<Exchange> exchanges(const Chain& chain, const Plan& plan) {
  std::vector<Exchange> found;
  const std::vector<std::size_t> order = plan.order();
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::size_t k = i + 1; k < order.size(); ++k)
      if (order[k] < order[i]) found.push_back({order[k], order[i], chain.commutes(order[k], order[i])});
  std::sort(found.begin(), found.end(), [](const Exchange& a, const Exchange& b) {
    return std::pair(a.declared_first, a.declared_second) < std::pair(b.declared_first, b.declared_second);
  });
  return found;
}

}  // namespace carya::autotune
