#include "loader/plan/cache_places.h"

#include <algorithm>
#include <utility>

#include "autotune/placement/remote_cut.h"
#include "loader/plan/order_choice.h"
#include "transforms/plan/plan.h"

namespace carya::loader {
namespace {

/// CPU time per byte of a kept sample, beside that of its ops, until samples of the place are timed: new pages are cleared
/// and written; later they are read from memory, not from the processor's cache. Assumed: 5 and 20 GB/s.
constexpr double kWriteSPerByte = 0.2e-9;
constexpr double kReadSPerByte = 0.05e-9;

bool can_part(const std::shared_ptr<const transforms::Pipeline>& pipeline,
              const std::vector<std::size_t>& order, std::size_t ops) {
  return transforms::Plan::compile(pipeline, {.order = order, .last = ops, .packed = true}).has_value() &&
         transforms::Plan::compile(pipeline, {.order = order, .first = ops, .packed = true}).has_value();
}

}  // namespace

bool is_repeatable(const transforms::Op& op) {
  return !op.traits().random && op.traits().kind != transforms::OpKind::kGroup &&
         std::ranges::all_of(op.inner(), [](const auto& inner) { return is_repeatable(*inner); });
}

std::vector<std::size_t> cache_places(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                                      std::span<const std::size_t> order) {
  const std::vector<std::size_t> ops(order.begin(), order.end());
  std::vector<std::size_t> places;
  for (std::size_t count = 1; count <= ops.size(); ++count) {
    if (!is_repeatable(*pipeline->ops()[ops[count - 1]])) break;
    if (can_part(pipeline, ops, count)) places.push_back(count);
  }
  return places;
}

Result<autotune::CacheInputs> cache_facts(const transforms::Pipeline& pipeline, const PlanProfile& profile,
                                          std::span<const std::size_t> order,
                                          std::span<const std::size_t> places) {
  PlannerInput input = planner_input(pipeline, facts_of(pipeline, checked(pipeline, profile)));
  ASSIGN(const autotune::Chain chain, autotune::Chain::create(std::move(input.chain)));
  ASSIGN(const autotune::StageModel model, autotune::StageModel::create(chain, input.profile));
  ASSIGN(const autotune::Plan plan, fused_plan(model, order));
  ASSIGN(const autotune::RemoteCuts cuts, autotune::remote_cuts(model, plan, {}, {}, {}));
  autotune::CacheInputs facts{.sample_s = cuts.local_cpu_s};
  for (const std::size_t ops : places) {
    const auto cut = std::ranges::find(cuts.cuts, ops, &autotune::RemoteCut::ops_remote);
    if (cut == cuts.cuts.end() || !(cut->bytes_in > 0)) continue;
    facts.places.push_back(
        {.ops = ops,
         .fill_s = cut->worker_cpu_s + cut->host_cpu_s + cut->bytes_in * (kWriteSPerByte + kReadSPerByte),
         .hit_s = cut->host_cpu_s + cut->bytes_in * kReadSPerByte,
         .bytes = cut->bytes_in});
  }
  return facts;
}

}  // namespace carya::loader
