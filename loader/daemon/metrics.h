#pragma once

#include <memory>
#include <optional>
#include <span>
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

/// What a user's daemon says of itself.
struct UserMetrics {
  std::string user;
  std::uint32_t number = 1;           ///< of this user's daemons
  std::optional<std::string> text{};  ///< metrics_text(), as the user's process says; none: no answer
};

/// Of one user's text so much counts.
inline constexpr std::size_t kUserMetricsBytesMax = 1 << 20;

/// The figures of all users' daemons as one page: each row has the labels `user` and `daemon` in front. Nothing in a text
/// is trusted: a row that metrics_text() could not have written is left out, so that no user speaks for another one, and
/// none breaks the page.
std::string join_metrics(std::span<const UserMetrics> users);

/// The pages /metrics, /healthz (it answers) and /readyz (503 while it drains). The server must outlive them.
/// Errors: those of listen_for_pages() and HttpPage::create().
Result<std::unique_ptr<HttpPage>> serve_metrics(const std::string& address, const Server& server);

}  // namespace carya::loader
