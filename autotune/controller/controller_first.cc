#include <algorithm>

#include "autotune/controller/controller.h"

// The first worker of a controller: when one is worth a trial, and what comes of it.

namespace carya::autotune {
namespace {

constexpr double kConfidence = 0.95;
constexpr double kSecondsPerHour = 3600;
// A first worker is measured until its speed is known so well, or so often: what is still in doubt then is
// corrected while the answer runs, which costs less than to wait for it.
constexpr double kWorkerErrorMax = 0.05;
constexpr std::size_t kWorkerSeenMin = 4, kWorkerSeenMax = 8;
// After a first worker was tried in vain; twice that after the next, and so on.
constexpr double kFirstAgainS = 600;
constexpr std::uint32_t kVainMax = 6;
// Workers may need so much of what is assumed, in such a share of cases.
constexpr double kHope = 0.6, kHopeShare = 0.1;

}  // namespace

/// Its speed is known well enough, and whether workers can serve the trainer.
bool Controller::first_measured() const {
  const std::size_t seen = estimate_.worker_count();
  if (seen < kWorkerSeenMin || seen >= kWorkerSeenMax) return seen >= kWorkerSeenMax;
  const double reach = confidence_reachable();
  return estimate_.worker_error() <= kWorkerErrorMax && (reach >= kConfidence || reach <= 1 - kConfidence);
}

/// Between two looks: as soon as workers would surely pay one is tried, for a trial is undone for little.
void Controller::ask_first_early(double now_s) {
  if (workers_known_ || as_before_ || now_s < first_again_s_ || decision_.run.workers > 0) return;
  if (workers_allowed(options_.prices, options_.goal) == 0) return;
  const PlacementFacts facts = estimate_.facts();
  const auto best = place_now(facts);
  if (!best || best->choice.workers == 0) return;
  const Choice local = predict(facts, options_.prices, options_.goal, std::nullopt, 0);
  if (weigh(local, best->choice, best->reachable).worth()) ask_first(best->choice, now_s);
}

void Controller::measure_first_worker(const Measurements& measured, double now_s) {
  if (first_measured()) {
    if (!workers_known_) serves_ = false;  // costs that were assumed said so
    workers_known_ = true;
    const PlacementFacts facts = estimate_.facts();
    const auto best = place_now(facts);
    const Choice local = predict(facts, options_.prices, options_.goal, std::nullopt, 0);
    const bool pays = best && best->choice.workers > 0 && weigh(local, best->choice, best->reachable).worth();
    // It costs the same until its minimum is over, so it works on.
    if (!pays && !paid_.empty() && now_s < paid_.back().until_s) return;
    dismiss_first(now_s);  // if it is part of the answer, the look asks for it before it has gone
    decision_.why = "a first worker was measured";
    return look(now_s);
  }
  if (measured.workers_ready > 0 || estimate_.worker_count() > 0 || !workers_came(measured, now_s)) return;
  dismiss_first(now_s);
  decision_.why = "no worker came; all local";
}

void Controller::dismiss_first(double now_s) {
  first_again_s_ = now_s + kFirstAgainS * (1U << std::min(vain_++, kVainMax));
  decision_.run = {.cores = options_.model.cores};
  estimate_.forget_whole();  // that was with the worker
  steady_ = false;
  paid_.clear();
  start_verifying();
}

/// The answer if workers were much better than they are thought to be, as long as nobody has measured one: if
/// it saves so much that a trial pays though it will mostly fail.
std::optional<Choice> Controller::worth_a_trial(const Choice& present) const {
  PlacementFacts facts = estimate_.facts_of_this_run();
  for (RemoteCut& cut : facts.cuts) cut.worker_cpu_s *= kHope, cut.host_cpu_s *= kHope;
  const auto best = place(facts, options_.prices, options_.goal);
  if (!best || best->choice.workers == 0) return std::nullopt;
  const double saving =
      (present.cost_per_sample - best->choice.cost_per_sample) * best->choice.rate * horizon_s_;
  const double paid_s = options_.worker_start_s + options_.worker_billed_s_min;
  const double cost = options_.prices.worker_per_hour * paid_s / kSecondsPerHour;
  return kHopeShare * saving > cost ? std::optional(best->choice) : std::nullopt;
}

}  // namespace carya::autotune
