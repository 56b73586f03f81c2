#include "loader/program/metrics_page.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

namespace carya::loader {
namespace {

/// The format knows only three escapes, JSON's for the same characters; one value that is no UTF-8 would cost the whole
/// page.
std::string in_quotes(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void MetricsText::family(const std::string& name, const char* type, const char* help) {
  name_ = name;
  text_ += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

void MetricsText::value(const std::string& labels, double value, const char* suffix) {
  text_ += name_ + suffix + (labels.empty() ? "" : "{" + labels + "}") + " " + metric_number(value) + "\n";
}

std::string metric_label(const char* name, const std::string& value) {
  return std::string(name) + "=" + in_quotes(value);
}

std::string metric_number(double value) {
  std::array<char, 32> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end};
}

void add_process(MetricsText& lines, const ProcessFigures& process, const std::string& program) {
  const auto add = [&](const char* name, const char* type, const std::string& help, double value) {
    lines.family(name, type, help.c_str());
    lines.value("", value);
  };
  add("process_cpu_seconds_total", "counter", "CPU time of the " + program + ", user and system.",
      process.cpu_s);
  add("process_resident_memory_bytes", "gauge", "Memory of the " + program + " that is in RAM.",
      static_cast<double>(process.memory_bytes));
  add("process_open_fds", "gauge", "Descriptors that the " + program + " has open.",
      static_cast<double>(process.descriptors));
  add("process_max_fds", "gauge", "The most descriptors that it may have.",
      static_cast<double>(process.descriptors_limit));
}

Result<std::unique_ptr<HttpPage>> serve_metrics_pages(const std::string& address, MetricsSource source) {
  ASSIGN(HttpListening listening, listen_for_pages(address));
  return HttpPage::create(std::move(listening),
                          [source = std::move(source)](const std::string& path) -> HttpAnswer {
                            if (path == "/metrics") return {200, source.figures()};
                            if (path == "/healthz") return {200, "ok\n"};
                            if (path == "/readyz") {
                              const std::string state = source.state();
                              return {state == "ready" ? 200u : 503u, state + "\n"};
                            }
                            return {404, "pages: /metrics, /healthz, /readyz\n"};
                          });
}

}  // namespace carya::loader
