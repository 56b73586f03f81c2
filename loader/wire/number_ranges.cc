#include "loader/wire/number_ranges.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <sstream>

#include "autotune/placement/placement.h"
#include "loader/host/host.h"
#include "loader/host/nodes.h"
#include "loader/trace/trace.h"
#include "loader/wire/chunk_message.h"
#include "shm/slot_ring.h"
#include "transforms/kernels/codec/field_index.h"
#include "transforms/ops/geometry.h"

namespace carya::loader {
namespace {

constexpr double kWhole = 4611686018427387904.0;  // 2^62: 64 bits, with room to add
constexpr double kWord = 18446744073709551616.0;  // 2^64: all 64 bits; only compared or hashed
constexpr double kFinite = std::numeric_limits<double>::max();
constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kArrayBytes = 1099511627776.0;  // 2^40
constexpr double kOps = transforms::kOpsMax;
constexpr double kLongSeconds = 1e9;

// Sorted by field.
constexpr std::array kRanges{
    NumberRange{"Attach.arrays[].row_bytes", 0, kArrayBytes},
    NumberRange{"Attach.arrays[].rows", 0, kWhole},
    NumberRange{"Attach.options.cache.bytes", 0, kWhole},
    NumberRange{"Attach.options.cache.disk.bytes", 0, kWhole},
    NumberRange{"Attach.options.cache.share", 0, 1},
    NumberRange{"Attach.options.cache.shared.bytes", 0, kWhole},
    NumberRange{"Attach.options.cache.write_bytes_per_day", 0, kWhole},
    NumberRange{"Attach.options.decode_index.budget_share", 0, 1},
    NumberRange{"Attach.options.decode_index.spacing", 0, transforms::kIndexSpacingMax},
    NumberRange{"Attach.options.epoch", 0, kWhole},
    NumberRange{"Attach.options.epochs", 1, kWhole},
    NumberRange{"Attach.options.io_timeout_s", 0, kFinite},
    NumberRange{"Attach.options.node", kNoNode, kNodeMax},
    NumberRange{"Attach.options.order[]", 0, kOps - 1},
    NumberRange{"Attach.options.position", 0, kWhole},
    NumberRange{"Attach.options.rank", 0, kWhole},
    NumberRange{"Attach.options.read_ahead_bytes", 1, kWhole},
    NumberRange{"Attach.options.remote.cut_fixed", 0, kWhole},
    NumberRange{"Attach.options.remote.goal.target", 0, kFinite},
    NumberRange{"Attach.options.remote.goal.workers_cost_per_hour_max", 0, kInfinite},
    NumberRange{"Attach.options.remote.goal.workers_max", 0, autotune::kAnyWorkersMax},
    NumberRange{"Attach.options.remote.prices.host", 0, kFinite},
    NumberRange{"Attach.options.remote.prices.worker", 0, kFinite},
    NumberRange{"Attach.options.remote.verify", 0, 1},
    NumberRange{"Attach.options.remote.worker_billed_s_min", 0, kLongSeconds},
    NumberRange{"Attach.options.remote.worker_start_s", 0, kLongSeconds},
    NumberRange{"Attach.options.remote.workers_fixed", 0, autotune::kAnyWorkersMax},
    NumberRange{"Attach.options.seed", 0, kWord},
    NumberRange{"Attach.options.slots", 0, shm::kSlotsMax},
    NumberRange{"Attach.options.store_prices.per_1000_requests", 0, kFinite},
    NumberRange{"Attach.options.store_prices.per_gb", 0, kFinite},
    NumberRange{"Attach.options.threads", 0, kThreadsMax},
    NumberRange{"Attach.options.weight", kWeightMin, kWeightMax},
    NumberRange{"Attach.options.world_size", 1, kWhole},
    NumberRange{"Attach.replica", 0, shm::kReadersMax - 1},
    NumberRange{"Attach.replicas", 1, shm::kReadersMax},
    NumberRange{"Attach.share_jobs", 1, shm::kReadersMax},
    NumberRange{"Detach.demand_per_s", 0, kFinite},
    NumberRange{"Lend.grants[].grant.expires_s", 0, kWhole},
    NumberRange{"Logs.lines", 0, kWhole},
    NumberRange{"RemoteChunk.epoch", 0, kWhole},
    NumberRange{"RemoteChunk.plan", 0, kWord},
    NumberRange{"RemoteChunk.rows", 1, kRemoteRowsMax},
    NumberRange{"RemotePlan.cut", 1, kOps},
    NumberRange{"RemotePlan.files[].bytes", 0, kWord},
    NumberRange{"RemotePlan.files[].mtime_ns", -kWord, kWord},
    NumberRange{"RemotePlan.fingerprint.high", 0, kWord},
    NumberRange{"RemotePlan.fingerprint.low", 0, kWord},
    NumberRange{"RemotePlan.id", 0, kWord},
    NumberRange{"RemotePlan.order[]", 0, kOps - 1},
    NumberRange{"RemotePlan.seed", 0, kWord},
    NumberRange{"Seek.epoch", 0, kWhole},
    NumberRange{"Seek.position", 0, kWhole},
    NumberRange{"TakeFound.sequence", 0, kWord},
    NumberRange{"Trace.session", 0, kWhole},
    NumberRange{"Trace.thread_events", 1, kTraceThreadEventsMax},
    NumberRange{"Turn.used_ns", 0, kWhole},
    NumberRange{"Turn.wants", 0, kThreadsMax},
    NumberRange{"Turn.weight", kWeightMin, kWeightMax},
};
static_assert(std::ranges::is_sorted(kRanges, {}, &NumberRange::field));

std::string text(double number) {
  std::ostringstream out;
  out.precision(20);
  out << number;
  return out.str();
}

}  // namespace

std::span<const NumberRange> number_ranges() {
  return kRanges;
}

Status check_number(std::string_view field, double number) {
  const auto found = std::ranges::lower_bound(kRanges, field, {}, &NumberRange::field);
  const std::string subject(field.substr(field.find('.') + 1));
  if (found == kRanges.end() || found->field != field)
    return fail(Code::kInvalidArgument, subject + ": has no range in loader/wire/number_ranges.cc; add one");
  if (number >= found->lowest && number <= found->highest) return {};  // false for what is no number
  return fail(Code::kInvalidArgument, subject + ": got " + text(number) + "; give " + text(found->lowest) +
                                          " to " + text(found->highest));
}

}  // namespace carya::loader
