// Seeded histories of one stream's scheduling: a storage, threads, workers and a reader that do whatever
// they may, in any order, on one thread. After each event a plain account (stream_account.h) says whether
// all is as it must be; now and then the world answers everything, and a batch must come.
//
// CARYA_MODEL_SEED=n runs the one history of that seed; a failure prints its seed and its last events.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "tests/amount.h"
#include "tests/loader/scheduler_history.h"

namespace carya::loader {
namespace {

/// Runs the history of a seed; the events that happened.
std::uint64_t run_history(const Sources& sources, std::uint64_t seed, int steps) {
  Journal journal;
  try {
    History history(sources.all[seed % sources.all.size()], seed, journal);
    history.run(steps);
  } catch (const Violation& violation) {
    ADD_FAILURE() << "CARYA_MODEL_SEED=" << seed << ": " << violation.what()
                  << "\nlast events:" << journal.text();
  }
  return journal.count();
}

TEST(SchedulerModel, RandomHistoriesKeepEveryInvariant) {
  constexpr int kSteps = 2000;
  const std::uint64_t histories = long_tests() ? 20'000 : 1500 / static_cast<std::uint64_t>(one_case_of(20));
  const Sources sources;
  if (const char* seed = std::getenv("CARYA_MODEL_SEED")) {
    run_history(sources, std::strtoull(seed, nullptr, 10), kSteps);
    return;
  }
  std::uint64_t events = 0;
  for (std::uint64_t seed = 0; seed < histories && !::testing::Test::HasFailure(); ++seed)
    events += run_history(sources, seed, kSteps);
  std::cout << "  " << events << " events\n";
}

}  // namespace
}  // namespace carya::loader
