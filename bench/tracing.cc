// Question: what does an event of a trace cost, when nobody traces and when somebody does?
// Ceiling: a loop without it, and clock_gettime, which an event with a time of its own calls once.
// Bound: at most 1 ns off, at most 30 ns on.

#include <cstdint>

#include "base/clock.h"
#include "bench/program.h"
#include "loader/trace/trace.h"

namespace {

using carya::loader::TraceEvent;
using carya::loader::TraceKind;

void nothing(benchmark::State& state) {
  std::uint64_t at = 0;
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(++at);
}
BENCHMARK(nothing);

void clock(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(carya::monotonic_ns());
}
BENCHMARK(clock);

void note(std::uint64_t at, std::int64_t now_ns) {
  carya::loader::trace_note({.kind = TraceKind::kRead, .begin_ns = now_ns, .end_ns = now_ns, .of = at});
}

void off(benchmark::State& state) {
  std::uint64_t at = 0;
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(++at);
    if (carya::loader::trace_on()) note(at, carya::monotonic_ns());
  }
}
BENCHMARK(off);

/// The time of an event is known already, as that of a read or a chunk is.
void on(benchmark::State& state) {
  static_cast<void>(carya::loader::start_trace({}));
  std::uint64_t at = 0;
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(++at);
    if (carya::loader::trace_on()) note(at, 1);
  }
  static_cast<void>(carya::loader::stop_trace());
}
BENCHMARK(on);

void on_with_clock(benchmark::State& state) {
  static_cast<void>(carya::loader::start_trace({}));
  std::uint64_t at = 0;
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(++at);
    if (carya::loader::trace_on()) note(at, carya::monotonic_ns());
  }
  static_cast<void>(carya::loader::stop_trace());
}
BENCHMARK(on_with_clock);

}  // namespace

int main(int argc, char** argv) {
  return carya::bench::Program(argc, argv).run();
}
