#pragma once

#include <memory>
#include <string>

#include "loader/control/documents.h"
#include "loader/daemon/server.h"
#include "loader/program/http_page.h"

namespace carya::loader {

/// The daemon's figures in the text format that Prometheus reads; docs/metrics.md lists them. Names and
/// meanings are stable. Labels: carya_job (`job` is Prometheus' own) and rank, and what a name's own section
/// there says; their values come from clients and are made well-formed. Source: Prometheus text-based format,
/// version 0.0.4.
std::string metrics_text(const DaemonStatus& status);

/// The pages /metrics, /healthz (it answers) and /readyz (503 while it drains). The server must outlive them.
/// Errors: those of HttpPage::create.
Result<std::unique_ptr<HttpPage>> serve_metrics(const std::string& address, const Server& server);

}  // namespace carya::loader
