// Production's flow: how much of a step is one chunk, how many chunks are ahead of the threads, and how many
// threads are used.
#include <algorithm>
#include <new>

#include "base/clock.h"
#include "loader/plan/order_choice.h"
#include "loader/stream/scheduler.h"

namespace carya::loader {
namespace {

using Kind = transforms::SourceField::Kind;

/// Records whose sizes stand for those of all.
constexpr std::uint64_t kRecordsLookedAt = 256;

double mean_record_bytes(const Dataset& dataset) {
  const std::uint64_t looked = std::min(dataset.count(), kRecordsLookedAt);
  double bytes = 0;
  for (std::uint64_t i = 0; i < looked; ++i)
    for (const Dataset::Field& field : dataset.fields())
      if (field.kind == Kind::kEncoded)
        bytes += static_cast<double>(
            field.manifest->record(dataset.source_index(i * (dataset.count() / looked))).bytes);
  return looked == 0 ? 0 : bytes / static_cast<double>(looked);
}

}  // namespace

void Production::begin_flow() {
  flow_facts_.record_bytes = has_reads_ ? std::max(mean_record_bytes(*dataset_), 1.0) : 0;
  flow_facts_.row_bytes = static_cast<double>(1 + rows_->bytes());
  for (const Dataset::Field& field : dataset_->fields())
    flow_facts_.row_bytes += static_cast<double>(field.array.row_bytes);
  flow_facts_.batch_rows = options_.shape.rank_rows_max();
  flow_facts_.sample_cpu_s = plan_->earlier_cpu_s;
  flow_facts_.read_latency_s = options_.planner->earlier_read_latency_s();
  flow_facts_.threads = options_.threads + remote_threads_;
  flow_facts_.memory_bytes = options_.read_ahead_bytes;
  flow_ = autotune::flow(flow_facts_);
}

// Each time when twice as much is known of the present plan.
void Production::adjust_flow() {
  const std::uint64_t timed = plan_->profile.timed_samples();
  if (timed < std::max(kTrustedSamples, 2 * flow_samples_)) return;
  flow_samples_ = timed;
  flow_facts_.sample_cpu_s = plan_->profile.cpu_ns() * 1e-9;
  if (stats_.reads > 0) flow_facts_.read_latency_s = stats_.mean_read_s();
  flow_facts_.threads = options_.threads + remote_threads_;
  flow_facts_.memory_bytes = options_.read_ahead_bytes;
  flow_ = autotune::steadied(flow_, autotune::flow(flow_facts_));
}

// A slot is free: the reader gave one back, or has not had it yet.
void Production::look_at_cores() {
  totals_.waited_s = static_cast<double>(ring_->least_waited_ns()) * 1e-9;
  taken_at_ns_ = monotonic_ns();
  try {
    cores_.observe(totals_, static_cast<double>(taken_at_ns_) * 1e-9);
  } catch (const std::bad_alloc&) {  // as many as before, then
  }
}

void Production::note_starved() {
  if (reading_ == 0 || !ready_.empty() || slotted_ == 0 || order_ < next_growth_ ||
      flow_.ahead_chunks >= autotune::kAheadChunksMax)
    return;
  flow_.ahead_chunks += flow_.ahead_chunks / 2;
  next_growth_ = order_ + 2ull * flow_.ahead_chunks;
}

}  // namespace carya::loader
