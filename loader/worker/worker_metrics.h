#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "loader/program/http_page.h"
#include "remote/server/server.h"

namespace carya::loader {

/// What a worker says of itself in the text format that Prometheus reads; docs/metrics.md lists it. Names and meanings are
/// stable.
std::string worker_metrics_text(const remote::ServerStats& stats, std::uint32_t threads, double up_s);

/// The pages /metrics, /healthz and /readyz of a worker with so many threads. The server must outlive them. Errors: those
/// of serve_metrics_pages().
Result<std::unique_ptr<HttpPage>> serve_worker_metrics(const std::string& address,
                                                       const remote::ChunkServer& server,
                                                       std::uint32_t threads);

}  // namespace carya::loader
