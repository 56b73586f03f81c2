#include "loader/plan/cache_places.h"

#include <algorithm>
#include <nlohmann/json.hpp>
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
/// Until a place was filled, that is taken to cost so many times what the model says, which knows neither that a decode index
/// is of no use for a whole picture nor what new pages cost here. Measured for photos: 1.2 to 1.5.
constexpr double kFillsOff = 1.3;

/// Of packed coefficients until samples of the place are timed. Measured: bench/coefficients and README.md of
/// transforms/coefficients: 1.106 of the bytes; 0.51 of the time of an indexed decode with AVX-512's byte permutes, 0.73
/// without, and more where other work is in the same stage; 1.1 to 1.3 ms for packing 106 KB, 0.4 ms for reading them.
constexpr double kEntryBytes = 1.11;
constexpr double kEntryTimeBest = 0.6, kEntryTime = 0.8;
constexpr double kPackSPerByte = 15e-9;
/// The share of a sample that decoding takes where nothing was measured.
constexpr double kDecodeShare = 0.6;
/// Bytes that are kept beside those of a record (source_parts.h).
constexpr double kRecordRoom = 160;
/// Of a store of which too little is known. Source: shared figures of the clouds for objects in the same region, 20 to 50
/// ms to the first byte.
constexpr double kRequestS = 0.03, kRequestsAtOnce = 64;

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
  return {.at = {.form = autotune::CacheForm::kCoefficients},
          .fill_s = hit_s + kPackSPerByte * record_bytes,
          .hit_s = hit_s,
          .bytes = kEntryBytes * record_bytes};
}

/// A record as it was read is computed as any other is.
autotune::CachePlace record_place(double sample_s, double record_bytes) {
  const double hit_s = sample_s + kReadSPerByte * record_bytes;
  return {.at = {.form = autotune::CacheForm::kRecords},
          .fill_s = hit_s + kWriteSPerByte * record_bytes,
          .hit_s = hit_s,
          .bytes = record_bytes + kRecordRoom};
}

/// Whether an op, or one of those inside of it, needs several samples.
bool makes_groups(const transforms::Op& op) {
  return op.traits().kind == transforms::OpKind::kGroup ||
         std::ranges::any_of(op.inner(), [](const auto& inner) { return makes_groups(*inner); });
}

/// Whether a record comes at most once in an epoch. Of others each row has random numbers of its own, by its position.
bool comes_once(const transforms::Pipeline& pipeline) {
  if (pipeline.records_json().empty()) return true;
  const auto how = nlohmann::json::parse(pipeline.records_json());
  return !how.contains("drawn") && !how.contains("repeated");
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

const EpochGroups* place_groups(const transforms::Pipeline& pipeline, std::span<const std::size_t> order,
                                std::size_t ops) {
  for (const std::size_t op : order.first(ops))
    if (!is_repeatable(*pipeline.ops()[op])) return &pipeline.epoch_groups(op);
  return nullptr;
}

bool can_keep_behind(const transforms::Pipeline& pipeline, std::size_t op) {
  if (is_repeatable(*pipeline.ops()[op])) return true;
  return !pipeline.epoch_groups(op).each_alone() && !makes_groups(*pipeline.ops()[op]) &&
         comes_once(pipeline);
}

std::vector<std::size_t> cache_places(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                                      std::span<const std::size_t> order) {
  const std::vector<std::size_t> ops(order.begin(), order.end());
  std::vector<std::size_t> places;
  for (std::size_t count = 1; count <= ops.size(); ++count) {
    if (!can_keep_behind(*pipeline, ops[count - 1])) break;
    if (can_part(pipeline, ops, count)) places.push_back(count);
  }
  return places;
}

bool can_keep_coefficients(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                           std::span<const std::size_t> order) {
  return transforms::part_at_source(pipeline, {.order = {order.begin(), order.end()}}).has_value();
}

ReadCost read_cost(std::span<const StoreFigures> stores, double core_price, double threads) {
  ReadCost sum;
  std::uint64_t records = 0;  // each has a read in some of the stores, or several in one
  for (const StoreFigures& store : stores) records = std::max(records, store.epoch_records);
  for (const StoreFigures& store : stores) {
    if (store.epoch_reads == 0) continue;
    const auto epoch_reads = static_cast<double>(store.epoch_reads);
    double requests = 1, bytes = static_cast<double>(store.epoch_bytes) / epoch_reads;
    double cpu_s = 0, request_s = kRequestS, at_once = kRequestsAtOnce;
    if (store.reads >= kTrustedSamples && store.answered > 0) {
      const auto reads = static_cast<double>(store.reads);
      requests = static_cast<double>(store.requests) / reads;
      bytes = static_cast<double>(store.bytes) / reads;
      cpu_s = static_cast<double>(store.cpu_ns) * 1e-9 / reads;
      request_s = static_cast<double>(store.answered_ns) * 1e-9 / static_cast<double>(store.answered);
      at_once = std::max(1.0, static_cast<double>(store.allowed));
    }
    const double dollars =
        requests * store.prices.per_1000_requests * 1e-3 + bytes * store.prices.per_gb * 1e-9;
    const double reads = epoch_reads / static_cast<double>(records);  // of a record
    sum.cpu_s += reads * cpu_s;
    sum.money_s += reads * dollars / core_price;
    sum.wait_s += reads * threads * requests * request_s / at_once;
  }
  return sum;
}

Result<autotune::CacheInputs> cache_facts(const transforms::Pipeline& pipeline, const PlanProfile& profile,
                                          std::span<const std::size_t> order,
                                          std::span<const autotune::CachePoint> places, double record_bytes) {
  const PlanProfile believed = checked(pipeline, profile);
  const PipelineInfo info = facts_of(pipeline, believed);
  PlannerInput input = planner_input(pipeline, info);
  ASSIGN(const autotune::Chain chain, autotune::Chain::create(std::move(input.chain)));
  ASSIGN(const autotune::StageModel model, autotune::StageModel::create(chain, input.profile));
  ASSIGN(const autotune::Plan plan, fused_plan(model, order));
  ASSIGN(const autotune::RemoteCuts cuts, autotune::remote_cuts(model, plan, {}, {}, {}));
  autotune::CacheInputs facts{.sample_s = cuts.local_cpu_s};
  for (const autotune::CachePoint& at : places) {
    if (at.form == autotune::CacheForm::kRecords) {
      facts.places.push_back(record_place(facts.sample_s, record_bytes));
      continue;
    }
    if (at.form == autotune::CacheForm::kCoefficients) {
      facts.places.push_back(
          coefficients_place(facts.sample_s, decode_s(believed.find(order)), info.record_bytes));
      continue;
    }
    const auto cut = std::ranges::find(cuts.cuts, at.ops, &autotune::RemoteCut::ops_remote);
    if (cut == cuts.cuts.end() || !(cut->bytes_in > 0)) continue;
    const EpochGroups* const groups = place_groups(pipeline, order, at.ops);
    facts.places.push_back(
        {.at = at,
         .fill_s = cut->worker_cpu_s + cut->host_cpu_s + cut->bytes_in * (kWriteSPerByte + kReadSPerByte),
         .hit_s = cut->host_cpu_s + cut->bytes_in * kReadSPerByte,
         .bytes = cut->bytes_in,
         .groups = groups ? std::optional(*groups) : std::nullopt});
  }
  return facts;
}

void take_measured(autotune::CacheInputs& facts,
                   const std::map<autotune::CachePoint, autotune::CachePlace>& measured) {
  const auto of = [&](const autotune::CachePlace& place) {
    const auto found = measured.find(place.at);
    return found == measured.end() ? autotune::CachePlace{} : found->second;
  };
  const auto is_result = [](const autotune::CachePlace& place) {
    return place.at.form == autotune::CacheForm::kResults;
  };
  double model_s = 0, filled_s = 0;
  for (const autotune::CachePlace& place : facts.places)
    if (const double fill_s = of(place).fill_s; is_result(place) && fill_s > 0)
      model_s += place.fill_s, filled_s += fill_s;
  const double off = model_s > 0 ? filled_s / model_s : kFillsOff;
  for (autotune::CachePlace& place : facts.places) {
    if (is_result(place)) place.fill_s *= off;
    const autotune::CachePlace here = of(place);
    if (here.bytes > 0) place.bytes = here.bytes;
    if (here.hit_s > 0) place.hit_s = here.hit_s;
    if (here.fill_s > 0) place.fill_s = here.fill_s;
    place.fill_s = std::max(place.fill_s, facts.sample_s);  // unread, it is not worth its writing
  }
}

}  // namespace carya::loader
