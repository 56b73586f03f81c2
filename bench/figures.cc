// Question: what do the figures of a stream cost? Of each step: two calls of the trainer's meter. Of who asks
// (stats, explain): reading the local pressure, and the trainer's figures.
// Ceiling: a step's share of 1 % of a batch that takes 100 us; beside it: two clock readings, which next()
// needs anyway, and reading /proc/stat, whose run queue /proc/loadavg has for less.
//
// Usage: bench_figures [--smoke]. One JSON line, then a table.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/cgroup.h"
#include "base/clock.h"
#include "loader/host/pressure.h"
#include "loader/plan/trainer_stats.h"

namespace {

using namespace carya;
using namespace carya::loader;

/// The median of the rounds: CPU nanoseconds of one call.
template <typename Call>
double cpu_ns(int calls, int rounds, Call call) {
  std::vector<double> found;
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t start = thread_cpu_ns();
    for (int i = 0; i < calls; ++i) call(i);
    found.push_back(static_cast<double>(thread_cpu_ns() - start) / calls);
  }
  std::ranges::nth_element(found, found.begin() + rounds / 2);
  return found[static_cast<std::size_t>(rounds / 2)];
}

}  // namespace

int main(int argc, char** argv) {
  const int scale = argc > 1 && std::strcmp(argv[1], "--smoke") == 0 ? 1 : 20;
  const int rounds = 2 * scale + 1;
  TrainerMeter meter;
  std::size_t seen = 0;
  std::int64_t now = 1;
  const double step = cpu_ns(10'000 * scale, rounds, [&](int i) {
    meter.asked(now += 1000 + i % 7, 3);
    meter.delivered(now += 50, 256);
  });
  const double clock = cpu_ns(10'000 * scale, rounds, [&](int) {
    now = std::max(now, monotonic_ns());
    now = std::max(now, monotonic_ns());
  });
  const double ask = cpu_ns(1'000 * scale, rounds, [&](int) { seen += meter.figures(now).asked; });
  const double pressure =
      cpu_ns(20 * scale, rounds, [&](int) { seen += read_local_pressure().runnable.value_or(0); });
  const double loadavg =
      cpu_ns(20 * scale, rounds, [&](int) { seen += kernel_text("/proc/loadavg").size(); });
  const double stat = cpu_ns(20 * scale, rounds, [&](int) { seen += kernel_text("/proc/stat").size(); });
  std::printf(
      "{\"bench\": \"figures\", \"step_ns\": %.1f, \"two_clocks_ns\": %.1f, \"trainer_figures_ns\": %.0f, ",
      step, clock, ask);
  std::printf("\"pressure_us\": %.1f, \"loadavg_us\": %.2f, \"stat_us\": %.2f, \"seen\": %zu}\n",
              pressure / 1e3, loadavg / 1e3, stat / 1e3, seen);
  std::printf("a step's two calls        %9.1f ns\n", step);
  std::printf("two clock readings        %9.1f ns\n", clock);
  std::printf("the trainer's figures     %9.1f ns\n", ask);
  std::printf("local pressure            %9.1f us\n", pressure / 1e3);
  std::printf("/proc/loadavg             %9.2f us\n", loadavg / 1e3);
  std::printf("/proc/stat                %9.2f us\n", stat / 1e3);
  return 0;
}
