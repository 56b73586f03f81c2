// Question: how long does it take to find the best order and fusion of a chain, and the alternatives?
// Ceiling: 8, 12, 16 free ops in 5, 50, 500 ms; 40 ops with constraints in 50 ms; the slowest of several
// chains made by chance counts. Beside it: all orders of 8 free ops tried one by one, without any fusion.
//
// Usage: bench_planning [--smoke]. One JSON line, then a table.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "autotune/order/alternatives.h"
#include "autotune/order/order.h"
#include "base/clock.h"

namespace {

using namespace carya;
using namespace carya::autotune;

struct Kind {
  const char* name;
  std::size_t ops;
  double commuting;      // share of pairs
  std::size_t barriers;  // one every so many ops; 0: none
  double fusing;         // share of ordered pairs
  double bar_ms;
  bool equal = false;  // every order costs the same, so that no bound drops any
};

constexpr Kind kKinds[] = {
    {"8 free", 8, 1, 0, 0, 5},
    {"8 free, all fuse", 8, 1, 0, 1, 5},
    {"12 free", 12, 1, 0, 0, 50},
    {"12 free, all fuse", 12, 1, 0, 1, 50},
    {"16 free", 16, 1, 0, 0, 500},
    {"16 free, all fuse", 16, 1, 0, 1, 500},
    {"16 free, all tie", 16, 1, 0, 1, 500, true},
    {"40, barrier each 8", 40, 1, 8, 0.5, 50},
    {"40, half of pairs", 40, 0.5, 0, 0.5, 50},
    {"40, most pairs", 40, 0.8, 0, 0.5, 50},
};

struct Problem {
  ChainSpec spec;
  Profile profile;
};

Problem make(const Kind& kind, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> share(0, 1);
  Problem problem;
  for (std::size_t i = 0; i < kind.ops; ++i) {
    OpModel op{.name = "op" + std::to_string(i)};
    op.cost = {.fixed_ns = 2'000, .per_element_in_ns = 0.1 + 3 * share(random)};
    const double what = share(random);
    if (kind.equal)
      op.cost = {.fixed_ns = 1'000};
    else if (what < 0.3)
      op.size.pixels = Change::scaled(0.5 + 0.6 * share(random));
    else if (what < 0.4)
      op.size.channels = Change::set(1);
    else if (what < 0.6)
      op.size.element_bytes = Change::set(4);
    problem.spec.ops.push_back(std::move(op));
    if (kind.barriers != 0 && i % kind.barriers == 0) problem.spec.barriers.push_back(i);
    for (std::size_t k = 0; k < kind.ops; ++k) {
      if (k < i && share(random) < kind.commuting) problem.spec.commuting.push_back({k, i, Commutes::kExact});
      if (k != i && share(random) < kind.fusing) problem.spec.fusing.push_back({i, k});
    }
  }
  problem.profile.source = {.pixels = 200'000, .channels = 3};
  if (!kind.equal) problem.profile.estimate = {.boundary_ns = 1'000, .boundary_ns_per_byte = 0.2};
  if (kind.fusing == 1 && !kind.equal)
    for (std::size_t i = 0; i + 3 < kind.ops; i += 3)
      problem.profile.fused.push_back({.ops = {i, i + 2, i + 1}, .cost = {.per_byte_in_ns = 1}});
  return problem;
}

/// Milliseconds of CPU that trying all orders of the chain takes.
double try_all_ms(const Problem& problem) {
  const auto chain = Chain::create(problem.spec);
  const auto model = StageModel::create(*chain, problem.profile);
  std::vector<std::size_t> order(chain->size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const std::int64_t start = thread_cpu_ns();
  double least_ns = 1e300;
  do {
    StageModel::Walk walk = StageModel::begin(problem.profile.source);
    double ns = 0;
    for (const std::size_t op : order) {
      const Size out = chain->op(op).size(walk.at);
      ns += model->first_ns(op, walk.at, out);
      walk.at = out;
    }
    least_ns = std::min(least_ns, ns);
  } while (std::next_permutation(order.begin(), order.end()));
  const double ms = static_cast<double>(thread_cpu_ns() - start) * 1e-6;
  return least_ns < 1e300 ? ms : 0;
}

struct Times {
  double order_ms = 0;
  double alternatives_ms = 0;
  bool proven = true;
};

Times slowest(const Kind& kind, std::uint64_t chains) {
  Times times;
  for (std::uint64_t seed = 0; seed < chains; ++seed) {
    const Problem problem = make(kind, seed);
    const auto chain = Chain::create(problem.spec);
    CHECK(chain.has_value());
    std::int64_t start = thread_cpu_ns();
    const auto best = best_order(*chain, problem.profile, {}, {});
    times.order_ms = std::max(times.order_ms, static_cast<double>(thread_cpu_ns() - start) * 1e-6);
    CHECK(best.has_value());
    times.proven = times.proven && best->proven;
    start = thread_cpu_ns();
    const auto others = alternatives(*chain, problem.profile, {}, {});
    times.alternatives_ms =
        std::max(times.alternatives_ms, static_cast<double>(thread_cpu_ns() - start) * 1e-6);
    CHECK(others.has_value());
  }
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = argc > 1 && std::strcmp(argv[1], "--smoke") == 0;
  std::vector<Times> times;
  for (const Kind& kind : kKinds)
    times.push_back(smoke && kind.ops > 8 ? Times{} : slowest(kind, smoke ? 2 : 20));
  std::printf("{\"bench\": \"planning\", \"try_all_8_ms\": %.3f", try_all_ms(make(kKinds[0], 0)));
  for (std::size_t i = 0; i < std::size(kKinds); ++i)
    std::printf(", \"%s\": {\"order_ms\": %.3f, \"alternatives_ms\": %.3f, \"bar_ms\": %.0f, \"proven\": %s}",
                kKinds[i].name, times[i].order_ms, times[i].alternatives_ms, kKinds[i].bar_ms,
                times[i].proven ? "true" : "false");
  std::printf("}\n%20s %12s %8s %16s %8s\n", "chain", "order, ms", "bar", "alternatives, ms", "proven");
  for (std::size_t i = 0; i < std::size(kKinds); ++i)
    std::printf("%20s %12.3f %8.0f %16.3f %8s\n", kKinds[i].name, times[i].order_ms, kKinds[i].bar_ms,
                times[i].alternatives_ms, times[i].proven ? "yes" : "no");
  return 0;
}
