#include "loader/plan/cache_places.h"

#include <algorithm>
#include <utility>

#include "autotune/placement/remote_cut.h"
#include "loader/plan/order_choice.h"
#include "transforms/plan/plan.h"
#include "transforms/plan/source_parts.h"
#include "transforms/simd/targets.h"

namespace carya::loader {
namespace {

/// CPU time per byte of a kept sample, beside that of its ops, until samples of the place are timed: new pages are cleared
/// and written; later they are read from memory, not from the processor's cache. Assumed: 5 and 20 GB/s.
constexpr double kWriteSPerByte = 0.2e-9;
constexpr double kReadSPerByte = 0.05e-9;

/// Of packed coefficients until samples of the place are timed. Measured: bench/coefficients and README.md of
/// transforms/coefficients: 1.106 of the bytes; 0.51 of the time of an indexed decode with AVX-512's byte permutes, 0.73
/// without, and more where other work is in the same stage; 1.1 to 1.3 ms for packing 106 KB, 0.4 ms for reading them.
constexpr double kEntryBytes = 1.11;
constexpr double kEntryTimeBest = 0.6, kEntryTime = 0.8;
constexpr double kPackSPerByte = 15e-9;
/// The share of a sample that decoding takes where nothing was measured.
constexpr double kDecodeShare = 0.6;

/// CPU seconds of decoding in a sample of this order; 0: nothing was measured.
double decode_s(const OrderProfile* ran) {
  double sum_s = 0;
  for (const transforms::OpProfile& stage : ran ? ran->stages : std::vector<transforms::OpProfile>())
    if (stage.pictures > 0 && stage.timed_samples > 0)
      sum_s += static_cast<double>(stage.cpu_ns) * 1e-9 / static_cast<double>(stage.timed_samples);
  return sum_s;
}

autotune::CachePlace coefficients_place(double sample_s, double decode_s, double record_bytes) {
  const double share = simd_target() == "AVX3_DL" ? kEntryTimeBest : kEntryTime;
  const double decode = decode_s > 0 ? std::min(decode_s, sample_s) : kDecodeShare * sample_s;
  const double hit_s = sample_s - (1 - share) * decode;
  return {.ops = 0,
          .fill_s = hit_s + kPackSPerByte * record_bytes,
          .hit_s = hit_s,
          .bytes = kEntryBytes * record_bytes};
}

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

bool can_keep_coefficients(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                           std::span<const std::size_t> order) {
  return transforms::part_at_source(pipeline, {.order = {order.begin(), order.end()}}).has_value();
}

Result<autotune::CacheInputs> cache_facts(const transforms::Pipeline& pipeline, const PlanProfile& profile,
                                          std::span<const std::size_t> order,
                                          std::span<const std::size_t> places) {
  const PlanProfile believed = checked(pipeline, profile);
  const PipelineInfo info = facts_of(pipeline, believed);
  PlannerInput input = planner_input(pipeline, info);
  ASSIGN(const autotune::Chain chain, autotune::Chain::create(std::move(input.chain)));
  ASSIGN(const autotune::StageModel model, autotune::StageModel::create(chain, input.profile));
  ASSIGN(const autotune::Plan plan, fused_plan(model, order));
  ASSIGN(const autotune::RemoteCuts cuts, autotune::remote_cuts(model, plan, {}, {}, {}));
  autotune::CacheInputs facts{.sample_s = cuts.local_cpu_s};
  for (const std::size_t ops : places) {
    if (ops == 0) {
      facts.places.push_back(
          coefficients_place(facts.sample_s, decode_s(believed.find(order)), info.record_bytes));
      continue;
    }
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
