// Question: what would the decision about remote workers cost, beside Pecan's and an oracle that knows all?
// Ceiling: the oracle. Simulated time (autotune/simulator); no figure here is a measurement of a machine.
//
// Usage: bench_overflow_sim [--smoke] [--first SEED] [--scenarios N] [--noise MAX]. Tables, then one JSON
// line.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "autotune/simulator/fleet.h"
#include "autotune/simulator/scenario.h"
#include "autotune/simulator/workload.h"
#include "remote/server/client_shares.h"

namespace {

using namespace carya::autotune;
using namespace carya::autotune::simulator;

constexpr double kEpochs = 20;
constexpr Baseline kBaselines[] = {Baseline::kCollocated,    Baseline::kCachew,    Baseline::kFastFlow,
                                   Baseline::kAutoPlacement, Baseline::kAutoOrder, Baseline::kPecan,
                                   Baseline::kOracle,        Baseline::kOurs};

std::string workloads_table() {
  std::string json;
  for (const Workload& workload : workloads()) {
    std::printf("\n%s   published of Pecan: %.3g workers, epoch %.0f s $%.3f", workload.name.data(),
                workload.pecan_workers, workload.pecan_epoch_s, workload.pecan_epoch_cost);
    if (workload.pecan_converged_s > 0) std::printf(", converged in %.0f s", workload.pecan_converged_s);
    std::printf("\n%-20s %8s %6s %12s %8s %9s %9s %18s\n", "", "workers", "cores", "converged s", "changes",
                "epoch s", "$/epoch", "$/epoch, 20 epochs");
    json += std::string(json.empty() ? "" : ", ") + "\"" + std::string(workload.name) + "\": {";
    for (const Baseline baseline : kBaselines) {
      const WorkloadResult result = run_workload(workload, baseline, kEpochs, 1);
      std::printf("%-20s %8u %6g %12.0f %8u %9.0f %9.3f %18.3f\n", baseline_name(baseline).data(),
                  result.last.workers, result.last.cores, result.converged_s, result.changes, result.epoch_s,
                  result.epoch_cost, result.job_cost);
      char text[160];
      std::snprintf(text, sizeof text, "%s\"%s\": [%u, %.0f, %.1f, %.4f, %.4f]",
                    baseline == Baseline::kCollocated ? "" : ", ", baseline_name(baseline).data(),
                    result.last.workers, result.converged_s, result.epoch_s, result.epoch_cost,
                    result.job_cost);
      json += text;
    }
    json += "}";
  }
  return json;
}

struct Shares {
  std::vector<double> regrets;  // cost against the oracle's, less 1
  std::uint64_t oscillations = 0, over_changes = 0, changes = 0;
};

Shares run_scenarios(std::uint64_t first, std::uint64_t count, double noise_max) {
  Shares shares;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Scenario scenario = random_scenario(seed, noise_max);
    const Outcome ours = play_ours(scenario), oracle = play_oracle(scenario);
    shares.regrets.push_back(ours.cost_per_sample() / oracle.cost_per_sample() - 1);
    shares.oscillations += ours.oscillations;
    shares.changes += ours.changes;
    shares.over_changes += ours.changes_per_world > Controller::kChangesMax ? 1 : 0;
    if (std::getenv("CARYA_SIM_WORST") != nullptr && (shares.regrets.back() > 0.05 || ours.oscillations > 0))
      std::printf("  seed %llu regret %.1f %% changes %u oscillations %u\n",
                  static_cast<unsigned long long>(seed), 100 * shares.regrets.back(), ours.changes,
                  ours.oscillations);
  }
  std::sort(shares.regrets.begin(), shares.regrets.end());
  return shares;
}

std::string scenarios_table(std::uint64_t first, std::uint64_t count, double noise_max) {
  const Shares shares = run_scenarios(first, count, noise_max);
  const auto& regrets = shares.regrets;
  const auto within = [&](double limit) {
    return 100.0 *
           static_cast<double>(std::upper_bound(regrets.begin(), regrets.end(), limit) - regrets.begin()) /
           static_cast<double>(regrets.size());
  };
  const auto at = [&](double share) {
    return 100 * regrets[static_cast<std::size_t>(share * static_cast<double>(regrets.size() - 1))];
  };
  char text[400];
  std::snprintf(
      text, sizeof text,
      "{\"noise_max\": %g, \"scenarios\": %zu, \"within_5_percent\": %.2f, \"regret_median\": %.2f, "
      "\"regret_p95\": %.2f, \"regret_p99\": %.2f, \"regret_max\": %.2f, \"changes_mean\": %.2f, "
      "\"worlds_over_3_changes\": %llu, \"oscillations\": %llu}",
      noise_max, regrets.size(), within(0.05), at(0.5), at(0.95), at(0.99), at(1),
      static_cast<double>(shares.changes) / static_cast<double>(regrets.size()),
      static_cast<unsigned long long>(shares.over_changes),
      static_cast<unsigned long long>(shares.oscillations));
  std::printf(
      "\n%zu random scenarios, noise up to %g %%: %.2f %% within 5 %% of the oracle's cost; regret in %%: "
      "median %.2f, p95 %.2f, p99 %.2f, max %.2f; %.2f changes each; over 3 in one world: %llu; "
      "oscillations: %llu\n",
      regrets.size(), 100 * noise_max, within(0.05), at(0.5), at(0.95), at(0.99), at(1),
      static_cast<double>(shares.changes) / static_cast<double>(regrets.size()),
      static_cast<unsigned long long>(shares.over_changes),
      static_cast<unsigned long long>(shares.oscillations));
  return text;
}

double option(int argc, char** argv, const char* name, double otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], name) == 0) return std::strtod(argv[i + 1], nullptr);
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = argc > 1 && std::strcmp(argv[1], "--smoke") == 0;
  const auto first = static_cast<std::uint64_t>(option(argc, argv, "--first", 1));
  const auto count = static_cast<std::uint64_t>(option(argc, argv, "--scenarios", smoke ? 10 : 10'000));
  const double noise = option(argc, argv, "--noise", 0);
  std::string json =
      "{\"bench\": \"overflow_sim\", \"workloads\": {" + workloads_table() + "}, \"random\": [";
  if (noise > 0)
    json += scenarios_table(first, count, noise);
  else
    json += scenarios_table(first, count, 0.1) + ", " + scenarios_table(first, count, 0.3);
  json += "]";
  const FleetResult fleet = run_fleet({.hosts = smoke ? 50U : 1000U, .workers = smoke ? 500U : 10'000U},
                                      share_rule(carya::remote::client_shares));
  std::printf(
      "\nFleet of %u hosts, %u workers, %u jobs in an hour: $%.0f; all local $%.0f; who knows all at least "
      "$%.0f; workers in use %.0f on average, %.0f at most; trainers wait %.1f %%; a job that gains was "
      "allowed "
      "none for %.0f s at most; Jain's index of weighted shares %.4f\n",
      fleet.hosts, fleet.workers, fleet.jobs, fleet.cost, fleet.cost_local, fleet.cost_best,
      fleet.workers_used, fleet.workers_most, 100 * fleet.stall, fleet.starved_s, fleet.jain);
  char text[240];
  std::snprintf(text, sizeof text,
                ", \"fleet\": {\"hosts\": %u, \"workers\": %u, \"cost\": %.1f, \"cost_local\": %.1f, "
                "\"cost_best\": %.1f, \"starved_s\": %.0f, \"jain\": %.4f}}",
                fleet.hosts, fleet.workers, fleet.cost, fleet.cost_local, fleet.cost_best, fleet.starved_s,
                fleet.jain);
  std::printf("%s%s\n", json.c_str(), text);
}
