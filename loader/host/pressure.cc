#include "loader/host/pressure.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "base/cgroup.h"
#include "loader/host/host.h"

namespace carya::loader {
namespace {

constexpr double kUsPerS = 1e6, kNsPerS = 1e9;

template <typename Number>
std::optional<Number> number_at(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

/// The number in the line that begins with this word.
std::optional<std::uint64_t> entry(std::string_view text, std::string_view word) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with(word) && line.substr(word.size()).starts_with(' '))
      return number_at<std::uint64_t>(line.substr(word.size() + 1));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return std::nullopt;
}

/// Of the nearest group that has such a file, else of the machine.
std::optional<double> read_psi(const std::string& root, const std::string& path, const std::string& what) {
  std::optional<double> share;
  for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"})
    each_ancestor(root + mount, path, [&](const std::string& folder) {
      if (!share) share = psi_share(kernel_text(folder + "/" + what + ".pressure"));
    });
  return share ? share : psi_share(kernel_text(root + "/proc/pressure/" + what));
}

std::optional<Throttling> read_throttling(const std::string& root, const std::string& groups) {
  std::optional<Throttling> most;
  const auto look = [&](const std::string& folder) {
    const auto found = throttling_from(kernel_text(folder + "/cpu.stat"));
    if (found && (!most || found->throttled_s > most->throttled_s)) most = found;
  };
  each_ancestor(root + "/sys/fs/cgroup", cgroup_path(groups, ""), look);
  for (const char* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"})
    each_ancestor(root + mount, cgroup_path(groups, "cpu"), look);
  return most;
}

}  // namespace

std::optional<double> psi_share(const std::string& text) {
  constexpr std::string_view kStart = "some avg10=";
  if (!text.starts_with(kStart)) return std::nullopt;
  const auto percent = number_at<double>(std::string_view(text).substr(kStart.size()));
  if (!percent || !(*percent >= 0 && *percent <= 100)) return std::nullopt;
  return *percent / 100;
}

std::optional<std::uint64_t> runnable_from(const std::string& text) {
  const auto slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const auto space = text.rfind(' ', slash);
  return number_at<std::uint64_t>(std::string_view(text).substr(space == std::string::npos ? 0 : space + 1));
}

std::optional<Throttling> throttling_from(const std::string& text) {
  const auto periods = entry(text, "nr_periods"), throttled = entry(text, "nr_throttled");
  const auto us = entry(text, "throttled_usec"), ns = entry(text, "throttled_time");
  if (!periods || !throttled || *throttled > *periods || (!us && !ns)) return std::nullopt;
  return Throttling{
      .periods = *periods,
      .throttled = *throttled,
      .throttled_s = us ? static_cast<double>(*us) / kUsPerS : static_cast<double>(*ns) / kNsPerS};
}

LocalPressure read_local_pressure(const std::string& root) {
  const std::string groups = kernel_text(root + "/proc/self/cgroup");
  const std::string path = cgroup_path(groups, "");
  LocalPressure pressure{.cpu = read_psi(root, path, "cpu"),
                         .io = read_psi(root, path, "io"),
                         .memory = read_psi(root, path, "memory"),
                         .runnable = runnable_from(kernel_text(root + "/proc/loadavg")),
                         .cores = cores_allowed()};
  if (const auto throttling = read_throttling(root, groups)) {
    pressure.throttled_s = throttling->throttled_s;
    pressure.throttled_share = throttling->periods == 0 ? 0
                                                        : static_cast<double>(throttling->throttled) /
                                                              static_cast<double>(throttling->periods);
  }
  return pressure;
}

double read_memory_pressure() {
  return 100 * read_psi("", cgroup_path(kernel_text("/proc/self/cgroup"), ""), "memory").value_or(0);
}

}  // namespace carya::loader
