// faults: random faults under running jobs, each followed by a look at the stream and at what is left. See
// README.md.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/clock.h"
#include "tests/faults/fault_kinds.h"
#include "tests/faults/host.h"
#include "tests/faults/trainer.h"

namespace carya::faults {
namespace {

struct Options {
  std::uint64_t count = 60;
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> only;  ///< replays this one
  std::string kind;                   ///< only kinds whose name has this
  bool verbose = false;
};

struct Tally {
  std::uint64_t count = 0;
  std::vector<double> recover_ms;
};

double percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// One fault and its proof. Adds the milliseconds to recover.
Status run_fault(Host& host, const FaultKind& kind, Random& random, std::vector<double>& recover_ms) {
  TRY(host.wait_progress(2));  // work is in flight
  usleep(static_cast<useconds_t>(random() % 15'000));
  TRY(host.verify());
  ASSIGN(const auto affected, kind.inject(host, random));
  TRY(host.wait_progress(3));
  const std::int64_t end_ns = monotonic_ns() + 40'000'000'000;
  for (const Affected& one : affected) {
    std::optional<std::int64_t> recovered;
    while (!(recovered = host.first_after(one.rank, one.since_ns, one.reattached))) {
      TRY(host.verify());
      if (monotonic_ns() > end_ns)
        return fail(Code::kTimeout, "rank " + std::to_string(one.rank) + " did not attach again");
      usleep(1'000);
    }
    recover_ms.push_back(static_cast<double>(*recovered - one.since_ns) * 1e-6);
  }
  if (const std::string left = host.leaks(); !left.empty())
    return fail(Code::kExhausted, "left over: " + left);
  return host.verify();
}

void print(const std::map<std::string, Tally>& tallies, std::vector<double>& all) {
  std::printf("%-30s %6s %9s %9s %9s\n", "recover, ms", "count", "p50", "p99", "max");
  for (auto [name, tally] : tallies)
    std::printf("%-30s %6llu %9.1f %9.1f %9.1f\n", name.c_str(), static_cast<unsigned long long>(tally.count),
                percentile(tally.recover_ms, 0.5), percentile(tally.recover_ms, 0.99),
                percentile(tally.recover_ms, 1));
  std::printf("%-30s %6zu %9.1f %9.1f %9.1f\n", "all (per reader)", all.size(), percentile(all, 0.5),
              percentile(all, 0.99), percentile(all, 1));
}

/// Those whose name has the word, and that this machine lets us do.
std::vector<FaultKind> choose_kinds(const std::string& word) {
  std::vector<FaultKind> kinds;
  for (const FaultKind& kind : fault_kinds()) {
    if (std::string(kind.name).find(word) == std::string::npos) continue;
    const Status allowed = kind.allowed == nullptr ? Status() : kind.allowed();
    if (allowed)
      kinds.push_back(kind);
    else
      std::printf("left out: %s (%s)\n", kind.name, allowed.error().message.c_str());
  }
  return kinds;
}

int run(const Options& options) {
  const std::vector<FaultKind> kinds = choose_kinds(options.kind);
  if (kinds.empty()) return 2;
  std::printf("faults: seed %llu, %llu faults\n", static_cast<unsigned long long>(options.seed),
              static_cast<unsigned long long>(options.only ? 1 : options.count));
  std::fflush(stdout);
  Host host;
  Status good = host.start();
  if (good)
    if (const std::string left = host.leaks(); !left.empty()) good = fail(Code::kExhausted, left);
  if (!good) {
    std::printf("FAILED before any fault: %s\n%s", good.error().message.c_str(), host.log_tail().c_str());
    return 1;
  }
  std::map<std::string, Tally> tallies;
  std::vector<double> all;
  const std::int64_t begin_ns = monotonic_ns();
  for (std::uint64_t k = options.only.value_or(0); k < (options.only ? *options.only + 1 : options.count);
       ++k) {
    Random random(options.seed * 1'000'003 + k);
    // Every kind once before any twice, in another order each time.
    std::vector<std::size_t> order(kinds.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    Random shuffle(options.seed + k / kinds.size());
    std::shuffle(order.begin(), order.end(), shuffle);
    const FaultKind& kind = kinds[order[k % kinds.size()]];
    std::vector<double> recover_ms;
    good = run_fault(host, kind, random, recover_ms);
    if (options.verbose || !good)
      std::printf("%s %llu %s: %.1f ms\n", good ? "ok" : "FAILED", static_cast<unsigned long long>(k),
                  kind.name, percentile(recover_ms, 1));
    std::fflush(stdout);
    if (!good) {
      std::printf("  %s\n  replay: faults --seed %llu --only %llu\n%s", good.error().message.c_str(),
                  static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(k),
                  host.log_tail().c_str());
      return 1;
    }
    Tally& tally = tallies[kind.name];
    ++tally.count;
    tally.recover_ms.insert(tally.recover_ms.end(), recover_ms.begin(), recover_ms.end());
    all.insert(all.end(), recover_ms.begin(), recover_ms.end());
  }
  print(tallies, all);
  std::uint64_t faults = 0;
  for (const auto& [name, tally] : tallies) faults += tally.count;
  std::printf(
      "%llu faults in %.0f s; %llu batches, each that of the undisturbed stream; leaks 0; seed %llu\n",
      static_cast<unsigned long long>(faults), static_cast<double>(monotonic_ns() - begin_ns) * 1e-9,
      static_cast<unsigned long long>(host.verified()), static_cast<unsigned long long>(options.seed));
  return 0;
}

}  // namespace
}  // namespace carya::faults

int main(int argc, char** argv) {
  using namespace carya::faults;  // NOLINT(google-build-using-namespace): a program's own file
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "--trainer") return run_trainer({words.begin() + 1, words.end()});
  if (!words.empty() && words[0] == "--scribbler") return run_scribbler({words.begin() + 1, words.end()});
  Options options{.seed = static_cast<std::uint64_t>(carya::monotonic_ns()) % 1'000'000};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool more = i + 1 < words.size();
    if (words[i] == "-v") {
      options.verbose = true;
    } else if (words[i] == "-n" && more) {
      options.count = std::stoull(words[++i]);
    } else if (words[i] == "--seed" && more) {
      ++i;
      if (!words[i].empty()) options.seed = std::stoull(words[i]);
    } else if (words[i] == "--only" && more) {
      options.only = std::stoull(words[++i]);
    } else if (words[i] == "--kind" && more) {
      options.kind = words[++i];
    } else {
      std::fprintf(stderr, "faults [-n COUNT] [--seed SEED] [--only K] [--kind NAME] [-v]\n");
      return 2;
    }
  }
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);  // for floods of connections
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return run(options);
}
