// Question: what does one position of the shuffled order cost at a billion records?
// Ceiling: DESIGN section 4 asks for at most 50 ns mean; no memory beyond the object.

#include "base/permutation.h"

#include <cstdint>

#include "bench/program.h"

namespace {

void position(benchmark::State& state) {
  const auto records = static_cast<std::uint64_t>(state.range(0));
  const carya::Permutation permutation(1, 0, records);
  std::uint64_t sum = 0;
  std::uint64_t at = 0;
  for ([[maybe_unused]] auto _ : state) {
    sum += permutation(at);
    if (++at == records) at = 0;
  }
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations());
  state.counters["object_bytes"] = sizeof(carya::Permutation);
}
BENCHMARK(position)
    ->ArgName("records")
    ->Arg(1'000)
    ->Arg(1'281'167)
    ->Arg(1'000'000'000)
    ->Arg((std::int64_t{1} << 30) + 1)
    ->Arg(std::int64_t{1} << 48);

}  // namespace

int main(int argc, char** argv) {
  return carya::bench::Program(argc, argv).run();
}
