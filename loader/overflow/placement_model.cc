#include "loader/overflow/placement_model.h"

#include <utility>
#include <vector>

#include "autotune/placement/remote_cut.h"
#include "loader/plan/order_choice.h"
#include "transforms/plan/plan.h"

namespace carya::loader {
namespace {

/// Until it is measured. Source: bench_remote over a veth, Sapphire Rapids, November 2026.
constexpr autotune::Transfer kTransfer{.receive_s_per_byte = 0.3e-9,
                                       .reply_s_per_byte = 0.3e-9,
                                       .sends_records = true,
                                       .request_s_per_byte = 0.3e-9};

bool can_end_at(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                const std::vector<std::size_t>& order, std::size_t ops) {
  return transforms::Plan::compile(pipeline, {.order = order, .last = ops}).has_value() &&
         (ops == order.size() ||
          transforms::Plan::compile(pipeline, {.order = order, .first = ops}).has_value());
}

}  // namespace

Result<autotune::PlacementInputs> placement_facts(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                                                  const PlanProfile& given,
                                                  std::span<const std::size_t> order,
                                                  const PlacementCores& cores) {
  const PlanProfile profile = checked(*pipeline, given);
  PlannerInput input = planner_input(*pipeline, facts_of(*pipeline, profile));
  ASSIGN(const autotune::Chain chain, autotune::Chain::create(std::move(input.chain)));
  ASSIGN(const autotune::StageModel model, autotune::StageModel::create(chain, input.profile));
  ASSIGN(const autotune::Plan plan, fused_plan(model, order));
  ASSIGN(autotune::RemoteCuts found,
         autotune::remote_cuts(model, plan, {.cores = cores.host}, {.cores = cores.worker}, kTransfer));
  const std::vector<std::size_t> ops(order.begin(), order.end());
  std::erase_if(found.cuts,
                [&](const autotune::RemoteCut& cut) { return !can_end_at(pipeline, ops, cut.ops_remote); });
  return autotune::PlacementInputs{.local_cpu_s = found.local_cpu_s,
                                   .cuts = std::move(found.cuts),
                                   .cores = cores.host,
                                   .worker_cores = cores.worker,
                                   .source_bytes = found.source_bytes};
}

}  // namespace carya::loader
