#include <cmath>

#include "autotune/controller/controller.h"

// What a controller takes over from an earlier run, and leaves to the next one.

namespace carya::autotune {
namespace {

/// Workers with so much another number of cores are others.
constexpr double kSameCores = 0.01;
/// After an earlier run measured workers, one is tried alone after so long at the earliest.
constexpr double kFirstAgainS = 600;

std::optional<std::size_t> cut_after(const PlacementFacts& facts, std::size_t ops_remote) {
  for (std::size_t cut = 0; cut < facts.cuts.size(); ++cut)
    if (facts.cuts[cut].ops_remote == ops_remote) return cut;
  return std::nullopt;
}

}  // namespace

void Controller::begin() {
  workers_known_ = options_.workers_known;
  as_before_ = options_.earlier.has_value();
  if (!as_before_) return;
  estimate_.begin_with(*options_.earlier);
  workers_known_ = workers_known_ || estimate_.workers_measured();
  serves_ = options_.earlier->serves;
}

/// The earlier run has shown its answer to be the best, so the burden of proof is turned round: it is taken
/// unless another one is better with confidence, or it does not pay in the work left. True: it was asked for.
bool Controller::begin_with_earlier(const PlacementFacts& facts, const Best& best, const Choice& present,
                                    double now_s) {
  const EarlierRun& earlier = *options_.earlier;
  if (workers_known_) first_again_s_ = now_s + kFirstAgainS;
  if (earlier.workers == 0) return false;
  const auto cut = cut_after(facts, earlier.ops_remote);
  const bool same_workers =
      std::abs(facts.worker_cores - earlier.worker_cores) <= kSameCores * facts.worker_cores;
  if (!cut || !same_workers || earlier.workers > workers_allowed(options_.prices, options_.goal))
    return false;
  const Choice again = predict(facts, options_.prices, options_.goal, cut, earlier.workers);
  if (weigh(again, best.choice, best.reachable).worth()) return false;
  const Case change = weigh(present, again, best.reachable);
  const double waits = present.stall - kStallMax;
  const bool ends_waiting = best.reachable && waits > 0 && again.stall - kStallMax < waits / 2;
  if (!change.serves && !ends_waiting && !(change.saving > change.cost)) return false;
  ask(again, change, now_s);
  last_ = {};  // to correct it undoes nothing that was found in this run
  decision_.why = "an earlier run ended so: " + decision_.why;
  return true;
}

std::optional<EarlierRun> Controller::learned() const {
  const bool answered = decision_.phase != Phase::kMeasuring && decision_.phase != Phase::kFirstWorker;
  if (!answered || !estimate_.workers_measured()) return std::nullopt;
  EarlierRun run = estimate_.learned(decision_.run.cut.value_or(estimate_.cut()));
  run.workers = decision_.run.workers;
  run.serves = serves_;
  return run;
}

}  // namespace carya::autotune
