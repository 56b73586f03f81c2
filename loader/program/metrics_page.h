#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "loader/program/http_page.h"
#include "loader/program/process_figures.h"

namespace carya::loader {

/// Figures in the text format that Prometheus reads: one line per value, all of a name behind each other. Source:
/// Prometheus text-based format, version 0.0.4. Threads: owner only.
class MetricsText {
 public:
  /// The values that follow are of this name. `type`: "gauge", "counter" or "histogram".
  void family(const std::string& name, const char* type, const char* help);
  /// `labels`: those of metric_label(), with commas between them.
  void value(const std::string& labels, double value, const char* suffix = "");
  std::string take() { return std::move(text_); }

 private:
  std::string name_, text_;
};

/// A label with its value, which may be anything: quoted, and made well-formed.
std::string metric_label(const char* name, const std::string& value);
/// A value, as short as it can be.
std::string metric_number(double value);

/// What the kernel says of the process. `program`: "daemon" or "worker".
void add_process(MetricsText& lines, const ProcessFigures& process, const std::string& program);

/// What a program says of itself. The page's thread calls both; they must outlive the page.
struct MetricsSource {
  std::function<std::string()> figures;  ///< in Prometheus' text format
  std::function<std::string()> state;    ///< "ready" while it takes new work
};

/// The pages /metrics, /healthz (it answers) and /readyz (503 while it is not ready). Errors: those of
/// listen_for_pages() and HttpPage::create().
Result<std::unique_ptr<HttpPage>> serve_metrics_pages(const std::string& address, MetricsSource source);

}  // namespace carya::loader
