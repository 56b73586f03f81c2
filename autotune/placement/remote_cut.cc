#include "autotune/placement/remote_cut.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace carya::autotune {
namespace {

Status check(const Transfer& transfer) {
  const std::pair<const char*, double> numbers[] = {
      {"receive_s_per_byte", transfer.receive_s_per_byte},
      {"reply_s_per_byte", transfer.reply_s_per_byte},
      {"request_s_per_byte", transfer.request_s_per_byte},
      {"compressed_share", transfer.compressed_share},
      {"compress_s_per_byte", transfer.compress_s_per_byte},
      {"decompress_s_per_byte", transfer.decompress_s_per_byte},
  };
  for (const auto& [name, number] : numbers)
    if (!(number >= 0 && std::isfinite(number)))
      return fail(Code::kInvalidArgument,
                  fmt::format("transfer: {} is {}; it must be at least 0 and finite", name, number));
  return {};
}

/// The plan with a stage that begins with its op `first` (of the plan's order).
Plan split_before(const Plan& plan, std::size_t first) {
  Plan split;
  std::size_t done = 0;
  for (const Stage& stage : plan.stages) {
    const std::size_t here = first - std::min(first, done);  // ops of this stage before the cut
    done += stage.ops.size();
    if (here == 0 || here >= stage.ops.size()) {
      split.stages.push_back(stage);
      continue;
    }
    const auto middle = stage.ops.begin() + static_cast<std::ptrdiff_t>(here);
    split.stages.push_back({{stage.ops.begin(), middle}});
    split.stages.push_back({{middle, stage.ops.end()}});
  }
  return split;
}

/// The cut of a plan after its first `ops` ops; there is one.
const Cut& cut_after(const Plan& plan, const PlanCost& cost, std::size_t ops) {
  std::size_t done = 0, stages = 0;
  while (done < ops) done += plan.stages[stages++].ops.size();
  return cost.cuts[stages];
}

RemoteCut plain_cut(double rest_s, double worker_s, double bytes, double record_bytes, const Transfer& way) {
  const double sent = way.sends_records ? record_bytes : 0;
  return {.host_cpu_s = rest_s + bytes * way.receive_s_per_byte + sent * way.request_s_per_byte,
          .worker_cpu_s = worker_s + bytes * way.reply_s_per_byte,
          .bytes_in = bytes,
          .bytes_out = sent};
}

RemoteCut compressed_cut(const RemoteCut& plain, const Transfer& way) {
  RemoteCut cut = plain;
  const double saved = plain.bytes_in * (1 - way.compressed_share);
  cut.compressed = true;
  cut.bytes_in -= saved;
  cut.host_cpu_s += plain.bytes_in * way.decompress_s_per_byte - saved * way.receive_s_per_byte;
  cut.worker_cpu_s += plain.bytes_in * way.compress_s_per_byte - saved * way.reply_s_per_byte;
  return cut;
}

}  // namespace

Result<RemoteCuts> remote_cuts(const StageModel& model, const Plan& plan, const Machine& host,
                               const Machine& worker, const Transfer& transfer) {
  TRY(check(transfer));
  ASSIGN(const PlanCost local, cost(model, plan, host));
  RemoteCuts found{.local_cpu_s = local.cpu_s, .source_bytes = local.cuts.front().bytes};
  for (std::size_t ops = 1; ops <= model.chain().size(); ++ops) {
    const Plan split = split_before(plan, ops);
    ASSIGN(const PlanCost here, cost(model, split, host));
    ASSIGN(const PlanCost there, cost(model, split, worker));
    const Cut& cut = cut_after(split, here, ops);
    const double worker_s = cut_after(split, there, ops).cpu_s_before;
    RemoteCut plain =
        plain_cut(here.cpu_s - cut.cpu_s_before, worker_s, cut.bytes, found.source_bytes, transfer);
    if (!(plain.worker_cpu_s > 0)) continue;
    plain.ops_remote = ops;
    found.cuts.push_back(plain);
    if (transfer.compressed_share > 0 && transfer.compressed_share < 1)
      found.cuts.push_back(compressed_cut(plain, transfer));
  }
  return found;
}

}  // namespace carya::autotune
