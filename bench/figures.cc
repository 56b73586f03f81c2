// Question: what do the figures of a stream cost? Of each step: two calls of the trainer's meter. Of who asks
// (stats, explain): reading the local pressure, and the trainer's figures.
// Ceiling: a step's share of 1 % of a batch that takes 100 us; beside it: two clock readings, which next()
// needs anyway, and reading /proc/stat, whose run queue /proc/loadavg has for less.

#include <algorithm>
#include <cstdint>

#include "base/cgroup.h"
#include "base/clock.h"
#include "bench/program.h"
#include "loader/host/pressure.h"
#include "loader/plan/trainer_stats.h"

namespace {

using namespace carya;
using namespace carya::loader;

void step(benchmark::State& state) {
  TrainerMeter meter;
  std::int64_t now = 1;
  std::int64_t i = 0;
  for ([[maybe_unused]] auto _ : state) {
    meter.asked(now += 1000 + i++ % 7, 3);
    meter.delivered(now += 50, 256);
  }
}
BENCHMARK(step);

void two_clocks(benchmark::State& state) {
  std::int64_t now = 1;
  for ([[maybe_unused]] auto _ : state) {
    now = std::max(now, monotonic_ns());
    now = std::max(now, monotonic_ns());
  }
  benchmark::DoNotOptimize(now);
}
BENCHMARK(two_clocks);

void trainer_figures(benchmark::State& state) {
  TrainerMeter meter;
  std::int64_t now = 1;
  for (int i = 0; i < 200'000; ++i) {
    meter.asked(now += 1000 + i % 7, 3);
    meter.delivered(now += 50, 256);
  }
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(meter.figures(now).asked);
}
BENCHMARK(trainer_figures);

void pressure(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(read_local_pressure().runnable.value_or(0));
}
BENCHMARK(pressure)->Unit(benchmark::kMicrosecond);

void file(benchmark::State& state, const char* path) {
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(kernel_text(path).size());
}
BENCHMARK_CAPTURE(file, loadavg, "/proc/loadavg")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(file, stat, "/proc/stat")->Unit(benchmark::kMicrosecond);

}  // namespace

int main(int argc, char** argv) {
  return bench::Program(argc, argv).run();
}
