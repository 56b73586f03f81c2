#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/clock.h"
#include "bench/median.h"

namespace carya::bench {

/// What a case measured by itself, round by round; its counters are the medians and spreads.
class Rounds {
 public:
  void add(const std::string& name, double value) { values_[name].push_back(value); }

  /// Counters `name` and `name_spread` of all that was added.
  void report(benchmark::State& state) const {
    for (const auto& [name, values] : values_) {
      state.counters[name] = median(values);
      state.counters[name + "_spread"] = spread(values);
    }
  }
  /// Counter `name_to_base`: the quotient of the two medians.
  void compare(benchmark::State& state, const std::string& name, const std::string& base) const {
    state.counters[name + "_to_" + base] = median(values_.at(name)) / median(values_.at(base));
  }

 private:
  std::map<std::string, std::vector<double>> values_;
};

/// One of several ways to do the same work; run() does all of it once and returns what it costs.
struct Side {
  std::string name;
  std::function<double()> run;
};

/// One round per iteration of the case: each side once, each round another one first, so that what else the
/// machine does is the same for all. The first side is the ceiling, the others are compared to it. The time of
/// an iteration is the last side's. The case has UseManualTime().
inline void run_in_turns(benchmark::State& state, const std::vector<Side>& sides) {
  Rounds rounds;
  std::size_t first = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (std::size_t turn = 0; turn < sides.size(); ++turn) {
      const std::size_t nth = (first + turn) % sides.size();
      const std::int64_t start = monotonic_ns();
      rounds.add(sides[nth].name, sides[nth].run());
      if (nth + 1 == sides.size()) state.SetIterationTime(1e-9 * static_cast<double>(monotonic_ns() - start));
    }
    ++first;
  }
  rounds.report(state);
  for (std::size_t i = 1; i < sides.size(); ++i) rounds.compare(state, sides[i].name, sides[0].name);
}

/// CPU nanoseconds of this thread per item that `work` takes for `items`.
template <typename Work>
double cpu_ns_per_item(std::size_t items, const Work& work) {
  const std::int64_t start = thread_cpu_ns();
  work();
  return static_cast<double>(thread_cpu_ns() - start) / static_cast<double>(items);
}

}  // namespace carya::bench
