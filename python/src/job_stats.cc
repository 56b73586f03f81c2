#include "job_stats.h"

#include <pybind11/stl.h>

#include "text.h"
#include "transforms/simd/targets.h"

namespace carya::python {
namespace {

namespace py = pybind11;

/// "rows", 8 or 16; None when off.
py::object spacing_name(const loader::DecodeIndexStats& stats) {
  if (!stats.on) return py::none();
  if (stats.spacing == 0) return py::str("rows");
  return py::int_(stats.spacing);
}

/// None for 0: nobody measured it.
py::object known(double figure) {
  return figure > 0 ? py::object(py::float_(figure)) : py::object(py::none());
}

void add_trainer(py::dict& all, py::dict& slots, const loader::TrainerStats& trainer) {
  const auto share = [](auto part, auto whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  };
  all["stall_seconds"] = static_cast<double>(trainer.stall_ns) * 1e-9;
  all["stall_share"] = trainer.lifetime_ns == 0 ? 0.0 : share(trainer.stall_ns, trainer.lifetime_ns);
  all["step_seconds"] = known(trainer.step_s);
  all["demand_per_second"] = known(trainer.demand_per_s);
  slots["ready_mean"] = trainer.asked == 0 ? py::object(py::none())
                                           : py::object(py::float_(share(trainer.ready, trainer.asked)));
}

/// None where it could not be read.
py::dict pressure_figures(const loader::LocalPressure& pressure) {
  py::dict line;
  line["cpu"] = pressure.cpu;
  line["io"] = pressure.io;
  line["memory"] = pressure.memory;
  line["runnable"] = pressure.runnable;
  line["cores"] = pressure.cores;
  line["throttled_share"] = pressure.throttled_share;
  line["throttled_seconds"] = pressure.throttled_s;
  return line;
}

py::list op_figures(const std::vector<transforms::OpProfile>& profiles) {
  py::list ops;
  for (const transforms::OpProfile& op : profiles) {
    const double timed = op.timed_samples == 0 ? 1.0 : static_cast<double>(op.timed_samples);
    py::dict line;
    line["name"] = op.name;
    line["samples"] = op.samples;
    line["timed_samples"] = op.timed_samples;
    line["cpu_ns_per_sample"] = static_cast<double>(op.cpu_ns) / timed;
    line["bytes_in_per_sample"] = static_cast<double>(op.bytes_in) / timed;
    line["bytes_out_per_sample"] = static_cast<double>(op.bytes_out) / timed;
    ops.append(line);
  }
  return ops;
}

py::list store_figures(const std::vector<loader::StoreFigures>& stores) {
  py::list lines;
  for (const loader::StoreFigures& store : stores) {
    py::dict prices;
    prices["request"] = store.prices.per_1000_requests;
    prices["gb"] = store.prices.per_gb;
    py::dict line;
    line["source"] = path_text(store.source);
    line["requests"] = store.requests;
    line["bytes"] = store.bytes;
    line["reads"] = store.reads;
    line["retries"] = store.failed;
    line["throttled"] = store.throttled;
    line["hedged"] = store.hedged;
    line["request_seconds"] = known(store.answered == 0 ? 0
                                                        : static_cast<double>(store.answered_ns) * 1e-9 /
                                                              static_cast<double>(store.answered));
    line["cpu_seconds"] = static_cast<double>(store.cpu_ns) * 1e-9;
    line["requests_allowed"] = store.allowed;
    line["epoch_reads"] = store.epoch_reads;
    line["epoch_bytes"] = store.epoch_bytes;
    line["prices"] = prices;
    line["cost"] = store.cost();
    lines.append(line);
  }
  return lines;
}

}  // namespace

py::dict index_figures(const loader::DecodeIndexStats& stats) {
  py::dict line;
  line["spacing"] = spacing_name(stats);
  line["entries"] = stats.entries;
  line["points_known_share"] = stats.points_known_share;
  line["hits"] = stats.hits;
  line["made"] = stats.made;
  line["refused"] = stats.refused;
  line["mismatches"] = stats.mismatches;
  line["mismatch_record"] =
      stats.mismatch_record < 0 ? py::object(py::none()) : py::object(py::int_(stats.mismatch_record));
  line["dropped"] = stats.dropped;
  line["bytes"] = stats.bytes;
  line["reason"] = message_text(stats.reason);
  return line;
}

py::dict quarantine_entry(const loader::RecordError& failure) {
  py::dict entry;
  entry["record"] = failure.record;
  entry["path"] = path_text(failure.path);
  entry["member"] = path_text(failure.member);
  entry["offset"] = failure.offset;
  entry["stage"] = failure.stage;
  entry["reason"] = message_text(failure.reason);
  entry["epoch"] = failure.epoch;
  entry["position"] = failure.position;
  entry["substitute"] =
      failure.substitute < 0 ? py::object(py::none()) : py::object(py::int_(failure.substitute));
  return entry;
}

py::dict stream_figures(const loader::JobStats& stats) {
  py::dict slots;
  slots["count"] = stats.slots;
  slots["free"] = stats.ring.free;
  slots["filling"] = stats.ring.filling;
  slots["ready"] = stats.ring.ready;
  slots["held"] = stats.ring.held;
  slots["bytes"] = stats.ring.bytes;
  slots["node"] = stats.slots_node == loader::kNoNode ? py::object(py::none()) : py::int_(stats.slots_node);
  py::dict nodes;
  for (const auto& [node, share] : stats.slots_nodes) nodes[py::int_(node)] = share;
  slots["nodes"] = nodes;
  py::dict all;
  all["batches"] = stats.trainer.steps;
  all["samples_produced"] = stats.scheduler.samples;
  all["bytes_read"] = stats.scheduler.bytes_read;
  all["reads"] = stats.scheduler.reads;
  all["cached_reads"] = stats.scheduler.cached_reads;
  all["cached_bytes"] = stats.scheduler.cached_bytes;
  all["read_retries"] = stats.scheduler.read_retries;
  all["store"] = store_figures(stats.scheduler.stores);
  all["read_latency_seconds"] = stats.scheduler.mean_read_s();
  all["read_bytes_per_second"] = known(stats.scheduler.read_bytes_per_s());
  all["read_buffer_bytes_max"] = stats.scheduler.buffered_bytes_max;
  py::dict decodes;
  decodes["own"] = stats.scheduler.decodes.own;
  decodes["packed"] = stats.scheduler.decodes.packed;
  decodes["libjpeg_turbo"] = stats.scheduler.decodes.turbo;
  decodes["warnings"] = stats.scheduler.decodes.warnings;
  decodes["indexed"] = stats.scheduler.decodes.indexed;
  decodes["scan_bytes"] = stats.scheduler.decodes.scan_bytes;
  decodes["pixels"] = stats.scheduler.decodes.pixels;
  all["jpeg_decodes"] = decodes;
  all["decode_index"] = index_figures(stats.decode_index);
  all["replaced"] = stats.scheduler.replaced;
  all["masked"] = stats.scheduler.masked;
  all["quarantine_left_out"] = stats.quarantine_left_out;
  add_trainer(all, slots, stats.trainer);
  all["pressure"] = pressure_figures(stats.pressure);
  all["cache"] = stats.cache;  // JSON
  all["slots"] = slots;
  all["huge_share"] = stats.ring.bytes == 0 ? 0.0
                                            : static_cast<double>(stats.ring.huge_bytes) /
                                                  static_cast<double>(stats.ring.bytes);
  all["io_engine"] = stats.io_engine;
  all["threads"] = stats.threads;
  all["threads_used"] = stats.scheduler.cores;
  all["simd"] = simd_target();
  all["ops"] = op_figures(stats.scheduler.ops);
  all["order"] = stats.order;
  all["plan_switches"] = stats.scheduler.plan_switches;
  all["chunk_rows"] = stats.scheduler.flow.chunk_rows;
  all["ahead_chunks"] = stats.scheduler.flow.ahead_chunks;
  all["plan_log"] = stats.plan_lines;
  all["remote_chunks"] = stats.scheduler.remote_chunks;
  all["remote_bytes"] = stats.scheduler.remote_bytes;
  return all;
}

}  // namespace carya::python
