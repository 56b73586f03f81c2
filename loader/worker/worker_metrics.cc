#include "loader/worker/worker_metrics.h"

#include "base/clock.h"
#include "loader/program/metrics_page.h"

namespace carya::loader {
namespace {

double real(std::uint64_t count) {
  return static_cast<double>(count);
}

}  // namespace

std::string worker_metrics_text(const remote::ServerStats& stats, std::uint32_t threads, double up_s) {
  MetricsText lines;
  const auto add = [&lines](const char* name, const char* type, const char* help, double value) {
    lines.family(name, type, help);
    lines.value("", value);
  };
  add("carya_serving_threads", "gauge", "Threads that compute chunks.", threads);
  add("carya_serving_connections", "gauge", "Connections of hosts.", real(stats.connections));
  add("carya_serving_connections_total", "counter", "Connections since the worker's start.",
      real(stats.connections_so_far));
  add("carya_serving_refused_total", "counter", "Hosts that were refused.", real(stats.refused));
  add("carya_serving_waiting_chunks", "gauge", "Chunks that wait for a thread.", real(stats.queued));
  add("carya_serving_computing_chunks", "gauge", "Chunks that threads have.", real(stats.handling));
  add("carya_serving_chunks_total", "counter", "Chunks that were answered with their samples.",
      real(stats.answered));
  add("carya_serving_failed_total", "counter", "Chunks that were answered with an error.",
      real(stats.failed));
  add("carya_serving_late_total", "counter", "Chunks that were done when nobody waited for them any more.",
      real(stats.late));
  add("carya_serving_request_bytes", "gauge", "Bytes of records that are held.", real(stats.request_bytes));
  add("carya_serving_result_bytes", "gauge", "Bytes of samples that are not sent yet.",
      real(stats.result_bytes));
  add("carya_serving_draining", "gauge", "1 while it takes nothing new.", stats.drains ? 1 : 0);
  add("carya_serving_uptime_seconds", "gauge", "Seconds since the worker's start.", up_s);
  add_process(lines, process_figures(), "worker");
  return lines.take();
}

Result<std::unique_ptr<HttpPage>> serve_worker_metrics(const std::string& address,
                                                       const remote::ChunkServer& server,
                                                       std::uint32_t threads) {
  const std::int64_t begun_ns = monotonic_ns();
  return serve_metrics_pages(
      address, {.figures =
                    [&server, threads, begun_ns] {
                      const double up_s = static_cast<double>(monotonic_ns() - begun_ns) * 1e-9;
                      return worker_metrics_text(server.stats(), threads, up_s);
                    },
                .state = [&server] { return std::string(server.stats().drains ? "draining" : "ready"); }});
}

}  // namespace carya::loader
