// Question: what does one position of the shuffled order cost at a billion records?
// Ceiling: DESIGN section 4 asks for at most 50 ns mean; no memory beyond the object.
//
// Usage: bench_permutation [--smoke]. One JSON line, then a table.

#include "base/permutation.h"

#include <cstdio>
#include <cstring>

#include "base/clock.h"

int main(int argc, char** argv) {
  const bool smoke = argc > 1 && std::strcmp(argv[1], "--smoke") == 0;
  const std::uint64_t positions = smoke ? 100'000 : 20'000'000;
  const std::uint64_t counts[] = {1'000, 1'281'167, 1'000'000'000, (std::uint64_t{1} << 30) + 1,
                                  std::uint64_t{1} << 48};
  double cost_ns[5];
  std::uint64_t sum = 0;  // printed, so that nothing is optimized away
  for (int i = 0; i < 5; ++i) {
    const carya::Permutation permutation(1, 0, counts[i]);
    const std::int64_t start = carya::thread_cpu_ns();
    for (std::uint64_t position = 0, at = 0; position < positions; ++position) {
      sum += permutation(at);
      if (++at == counts[i]) at = 0;
    }
    cost_ns[i] = static_cast<double>(carya::thread_cpu_ns() - start) / static_cast<double>(positions);
  }
  std::printf(
      "{\"bench\": \"permutation\", \"cpu_ns_at_1e9\": %.2f, \"bar_ns\": 50, \"object_bytes\": %zu}\n",
      cost_ns[2], sizeof(carya::Permutation));
  std::printf("%18s %14s   (sum %llx)\n", "records", "CPU ns/position", static_cast<unsigned long long>(sum));
  for (int i = 0; i < 5; ++i)
    std::printf("%18llu %14.2f\n", static_cast<unsigned long long>(counts[i]), cost_ns[i]);
  return 0;
}
