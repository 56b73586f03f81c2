#include "autotune/controller/controller.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <utility>

namespace carya::autotune {
namespace {

constexpr double kHorizonS = 3600;  // that a change has to pay for itself in, if there is so much work left
constexpr double kConfidence = 0.95;
constexpr double kUndoS = 600;  // a change is not undone for so long, unless the world changed for certain
constexpr double kUndoConfidence = 0.999, kUndoGain = 0.15;
constexpr double kLookS = 60;  // between two looks of a settled controller
/// Turning to another cut empties what was under way.
constexpr double kCutChangeS = 2;
constexpr std::uint64_t kLocalSeenMin = 4;
constexpr std::uint64_t kEarlierSeenMin = 2;  // enough to contradict what an earlier run found
constexpr std::uint64_t kFirstSeenMin = 2;    // enough to ask for a first worker where much speaks for it
constexpr std::uint64_t kFirstLook = 4;
constexpr std::uint64_t kLastLook = 64;  // more observations of one world would hardly tell more
constexpr double kCoresMarginMax = 0.05;
/// A settled controller verifies its answer anew where the whole is so much more or less than was thought.
constexpr double kWholeMatters = 0.1;
/// A neighbour that is better by less is as good: no look would tell them apart, and none is needed.
constexpr double kNoMatter = 0.02;

bool same_answer(const Choice& a, const Choice& b) {
  return a.workers == b.workers && (a.workers == 0 || a.cut == b.cut);
}

Status check_times(const ControllerOptions& options) {
  for (const auto& [name, time] : {std::pair{"worker_start_s", options.worker_start_s},
                                   {"worker_billed_s_min", options.worker_billed_s_min}})
    if (!(time >= 0 && std::isfinite(time)))
      return fail(Code::kInvalidArgument,
                  fmt::format("controller: {} is {}; it must be at least 0 and finite", name, time));
  return {};
}

// A first worker is measured until its speed is known so well, or so often: what is still in doubt then is
// corrected while the answer runs, which costs less than to wait for it.
constexpr double kWorkerErrorMax = 0.05;
constexpr std::size_t kWorkerSeenMin = 4, kWorkerSeenMax = 8;
// After a first worker was tried in vain; twice that after the next, and so on. Also the earliest time at which
// one worker is tried alone after an earlier run measured workers.
constexpr double kFirstAgainS = 600;
constexpr std::uint32_t kVainMax = 6;
// Workers may need so much of what is assumed, in such a share of cases.
constexpr double kHope = 0.6, kHopeShare = 0.1;

/// Workers with so much another number of cores are others.
constexpr double kSameCores = 0.01;

std::optional<std::size_t> cut_after(const PlacementInputs& facts, std::size_t ops_remote) {
  for (std::size_t cut = 0; cut < facts.cuts.size(); ++cut)
    if (facts.cuts[cut].ops_remote == ops_remote) return cut;
  return std::nullopt;
}

}  // namespace

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::kMeasuring:
      return "measuring";
    case Phase::kFirstWorker:
      return "first worker";
    case Phase::kStarting:
      return "starting";
    case Phase::kVerifying:
      return "verifying";
    case Phase::kSettled:
      return "settled";
  }
  return "";
}

Result<Controller> Controller::create(const ControllerOptions& options) {
  TRY(check(options.model));
  TRY(check(options.prices));
  TRY(check(options.goal));
  TRY(check_times(options));
  if (options.earlier) TRY(check(*options.earlier));
  return Controller(options);
}

Controller::Controller(const ControllerOptions& options)
    : options_(options),
      estimate_(options.model),
      workers_known_(options.workers_known),
      horizon_s_(kHorizonS) {
  decision_.run.cores = options.model.cores;
  decision_.why = "all local until the host's part is measured";
  begin();
}

Status Controller::set_prices(const Prices& prices) {
  TRY(check(prices));
  if (prices == options_.prices) return {};
  options_.prices = prices;
  world_changed("the prices");
  return {};
}

Status Controller::set_goal(const PlacementGoal& goal) {
  TRY(check(goal));
  if (goal == options_.goal) return {};
  options_.goal = goal;
  world_changed("the goal");
  return {};
}

Status Controller::set_cores(double cores) {
  PlacementInputs model = options_.model;
  model.cores = cores;
  TRY(check(model));
  options_.model = std::move(model);
  estimate_.set_cores(cores);
  decision_.run.cores = std::min(decision_.run.cores, cores);
  world_changed("the host's cores");
  return {};
}

Status Controller::set_model(const PlacementInputs& model, const std::optional<EarlierRun>& earlier) {
  TRY(check(model));
  if (earlier) TRY(check(*earlier));
  options_.model = model;
  options_.earlier = earlier;
  estimate_ = Estimate(model);
  begin();
  decision_.run.cut =
      model.cuts.empty() || decision_.run.workers == 0 ? std::nullopt : std::optional(model.cuts.size() - 1);
  if (!decision_.run.cut) decision_.run.workers = 0;
  decision_.run.cores = model.cores;
  world_changed("the plan");
  decision_.phase = Phase::kMeasuring;
  return {};
}

const Decision& Controller::observe(const Measurements& measured, double now_s) {
  if (!(measured.seconds > 0 && std::isfinite(measured.seconds) && std::isfinite(now_s))) return decision_;
  horizon_s_ = measured.work_left_s > 0 ? std::min(kHorizonS, measured.work_left_s) : kHorizonS;
  const std::string_view broken = estimate_.add(measured, decision_.run);
  if (steady_ && measured.workers_ready == ready_)
    estimate_.add_whole(measured, decision_.run, options_.goal);
  steady_ = true;
  ready_ = measured.workers_ready;
  ++seen_;
  if (!broken.empty()) world_changed(broken);
  switch (decision_.phase) {
    case Phase::kMeasuring:
      if (estimate_.local_count() >= (as_before_ ? kEarlierSeenMin : kLocalSeenMin))
        look(now_s);
      else if (estimate_.local_count() >= kFirstSeenMin)
        ask_first_early(now_s);
      break;
    case Phase::kFirstWorker:
      measure_first_worker(measured, now_s);
      break;
    case Phase::kStarting:
      if (workers_came(measured, now_s)) start_verifying();
      if (!broken.empty()) look(now_s);
      break;
    case Phase::kVerifying:
      if (!broken.empty() || seen_ >= look_at_seen_)
        look(now_s);
      else
        ask_first_early(now_s);
      break;
    case Phase::kSettled:
      if (contradicted())
        start_verifying();
      else if (now_s >= decision_.looks_again_s)
        look(now_s);
      break;
  }
  tell_prediction();
  return decision_;
}

/// What the parts bring together is another share of their sum than it was when this was settled.
bool Controller::contradicted() const {
  return std::abs(estimate_.whole() / settled_whole_ - 1) > kWholeMatters;
}

// Looks grow rare, and what is predicted for the present placement follows the measurements in between.
void Controller::tell_prediction() {
  if (decision_.phase != Phase::kSettled && decision_.phase != Phase::kVerifying) return;
  decision_.choice =
      predict(estimate_.facts(), options_.prices, options_.goal, decision_.run.cut, decision_.run.workers);
}

void Controller::world_changed(std::string_view what) {
  ++worlds_;
  vain_ = 0;
  decision_.changes = 0;
  // The speed of a worker is one of the parts. How much all parts bring together is another matter.
  if (what != Estimate::kSpeedOfAWorker) estimate_.forget_whole();
  decision_.why = std::string(what) + " changed by more than noise";
  if (decision_.phase == Phase::kSettled || decision_.phase == Phase::kVerifying) start_verifying();
}

void Controller::start_verifying() {
  decision_.phase = Phase::kVerifying;
  decision_.confidence = 0;
  seen_ = 0;
  look_at_seen_ = kFirstLook;
}

/// Those asked for work, or it is no use to wait for them longer.
bool Controller::workers_came(const Measurements& measured, double now_s) const {
  return measured.workers_ready >= decision_.run.workers ||
         now_s - asked_s_ > 3 * options_.worker_start_s + 10;
}

double Controller::confidence_reachable() const {
  std::size_t reached = 0;
  for (std::size_t draw = 0; draw < Estimate::kDraws; ++draw)
    reached += reachable(estimate_.drawn(draw), options_.prices, options_.goal) ? 1 : 0;
  return static_cast<double>(reached) / Estimate::kDraws;
}

/// Money is spent to end waiting only where that can surely be; where it was clear and is in doubt by now, it
/// stays so.
Result<Best> Controller::place_now(const PlacementInputs& facts) {
  const double reach = confidence_reachable();
  if (reach >= kConfidence) serves_ = true;
  if (reach <= 1 - kConfidence) serves_ = false;
  return place(facts, options_.prices, options_.goal, serves_);
}

void Controller::look(double now_s) {
  const PlacementInputs facts = estimate_.facts();
  const auto best = place_now(facts);
  if (!best) return;  // what is measured is above 0, so the facts stay what create() checked
  if (now_s - last_.at_s > kHorizonS) decision_.changes = 0;
  const Choice present =
      predict(facts, options_.prices, options_.goal, decision_.run.cut, decision_.run.workers);
  set_choice(present);
  if (std::exchange(as_before_, false) && begin_with_earlier(facts, *best, present, now_s)) return;
  // Workers that were taken to end waiting stay until it is twice what the goal accepts: an answer at its
  // border would come and go.
  const bool forced = present.workers > workers_allowed(options_.prices, options_.goal);
  const bool border = options_.goal.objective == Objective::kCost && serves_ && !best->reachable &&
                      present.workers > 0 && !forced && present.stall <= 2 * kStallMax;
  if (!same_answer(best->choice, present) && !border) {
    Case change = weigh(present, best->choice, best->reachable);
    if (forced) change.confidence = change.saving = 1e300;
    const bool first = best->choice.workers > 0 && !workers_known_;
    if (change.worth() && first && now_s >= first_again_s_) return ask_first(best->choice, now_s);
    if (change.worth() && !first && may_change(best->choice, change, now_s))
      return ask(best->choice, change, now_s);
  }
  if (now_s >= first_again_s_ && best->choice.workers == 0 && decision_.run.workers == 0)
    if (const auto hope = worth_a_trial(present, options_.goal)) return ask_first(*hope, now_s);
  settle(facts, present, best->reachable, now_s);
}

Controller::Case Controller::weigh(const Choice& from, const Choice& to, bool reachable) const {
  const PlacementGoal& goal = options_.goal;
  Case found{.cost = change_cost(from, to)};
  if (goal.objective == Objective::kCost) {
    found.serves = reachable && from.stall > kStallMax && to.stall <= kStallMax;
    found.saving = (from.cost_per_sample - to.cost_per_sample) * to.rate * horizon_s_;
  } else {
    found.serves = to.rate > from.rate * (1 + 1e-9);
    found.saving = (from.cost_per_hour - to.cost_per_hour) * horizon_s_ / kSecondsPerHour;
  }
  found.gain = std::max({to.rate / from.rate - 1, 1 - to.cost_per_sample / from.cost_per_sample,
                         1 - to.cost_per_hour / from.cost_per_hour});
  found.confidence = confidence(to, from, reachable);
  return found;
}

std::size_t Controller::wins(const Choice& choice, const Choice& other, bool reachable,
                             const PlacementInputs& drawn, double matters) const {
  const auto said = [&](const Choice& one) {
    return predict(drawn, options_.prices, options_.goal, one.cut, one.workers);
  };
  const Choice its = said(choice), others = said(other);
  if (std::abs(its.cost_per_sample / others.cost_per_sample - 1) < matters &&
      std::abs(its.rate / others.rate - 1) < matters)
    return 0;
  // The least number that serves the trainer is at its border, which half of the draws put beyond it: to end
  // most of the waiting that is too much is enough.
  const double waits = others.stall - kStallMax;
  if (options_.goal.objective == Objective::kCost && reachable && waits > 0)
    if (its.stall - kStallMax < waits / 2) return 1;
  return better(options_.goal, its, others, reachable) ? 1 : 0;
}

double Controller::confidence(const Choice& choice, const Choice& other, bool reachable) const {
  std::size_t won = 0;
  for (std::size_t draw = 0; draw < Estimate::kDraws; ++draw)
    won += wins(choice, other, reachable, estimate_.drawn(draw));
  return static_cast<double>(won) / Estimate::kDraws;
}

/// That the likeliest of its neighbours to be better than `present` is not.
double Controller::confidence_beside(const PlacementInputs& facts, const Choice& present,
                                     bool reachable) const {
  const auto beside = autotune::neighbours(facts, options_.prices, options_.goal, present, reachable);
  const std::uint32_t allowed = workers_allowed(options_.prices, options_.goal);
  std::vector<std::size_t> won(beside.size());
  for (std::size_t draw = 0; draw < Estimate::kDraws; ++draw) {
    const PlacementInputs drawn = estimate_.drawn(draw);
    for (std::size_t i = 0; i < beside.size(); ++i)
      if (!beside[i].choice.all_remote && beside[i].choice.workers <= allowed)
        won[i] += wins(beside[i].choice, present, reachable, drawn, kNoMatter);
  }
  const auto most = std::max_element(won.begin(), won.end());
  return most == won.end() ? 1 : 1 - static_cast<double>(*most) / Estimate::kDraws;
}

double Controller::change_cost(const Choice& from, const Choice& to) const {
  const double more = to.workers > from.workers ? to.workers - from.workers : 0;
  const double unused_s = options_.worker_start_s + std::max(0.0, options_.worker_billed_s_min - horizon_s_);
  double cost = more * options_.prices.worker_per_hour * unused_s / kSecondsPerHour;
  if (to.cut && from.cut && to.cut != from.cut) cost += to.cost_per_hour * kCutChangeS / kSecondsPerHour;
  return cost;
}

/// Within the number of changes; not what undoes the last one; not before dismissed workers are paid off.
bool Controller::may_change(const Choice& to, const Case& change, double now_s) {
  if (decision_.changes >= kChangesMax) return false;
  // Part of the way back corrects the last change; all of it, or more, undoes it.
  const std::uint32_t before = last_.before.workers, after = last_.after.workers;
  const bool undoes = (after > before && to.workers <= before) || (after < before && to.workers >= before) ||
                      (last_.before.cut && to.cut == last_.before.cut && to.cut != last_.after.cut);
  const bool corrects = (after > before && to.workers < after) || (after < before && to.workers > after);
  if (corrects && !change.serves && change.gain < kNoMatter && now_s - last_.at_s < kUndoS) return false;
  // What the model is wrong by was seen where the other answer ran, and is no reason to go back.
  // Workers that would get nothing are no part of what runs, however little they cost.
  const bool unused = decision_.choice.remote_share <= 0 && to.workers == 0;
  const bool certain = change.confidence >= kUndoConfidence && (change.gain >= kUndoGain || unused);
  if (undoes && now_s - last_.at_s < kUndoS && (last_.world == worlds_ || !certain)) return false;
  std::erase_if(paid_, [now_s](const Paid& paid) { return paid.until_s <= now_s; });
  std::uint32_t paid = 0;
  for (const Paid& some : paid_) paid += some.workers;
  return to.workers >= decision_.run.workers || to.workers >= paid;
}

void Controller::ask_first(const Choice& choice, double now_s) {
  decision_.phase = Phase::kFirstWorker;
  // Of workers that are tried together the fastest stay, so more are tried than would help.
  const std::uint32_t tried =
      options_.first_workers <= 1
          ? 1
          : std::min(options_.first_workers, workers_allowed(options_.prices, options_.goal));
  decision_.run = {.cut = choice.cut, .workers = tried, .cores = options_.model.cores};
  decision_.why = worded("%u workers would help; %u %s measured before", choice.workers, tried,
                         tried == 1 ? "is" : "are");
  workers_known_ = false;
  estimate_.forget_workers();
  estimate_.forget_whole();
  pay(tried, now_s);
  asked_s_ = now_s;
  steady_ = false;
}

void Controller::pay(std::uint32_t workers, double now_s) {
  paid_.push_back({workers, now_s + options_.worker_start_s + options_.worker_billed_s_min});
}

void Controller::ask(const Choice& choice, const Case& change, double now_s) {
  const Running before = decision_.run;
  if (choice.workers > 0) vain_ = 0;
  if (choice.workers > before.workers) pay(choice.workers - before.workers, now_s);
  decision_.run.cut = choice.cut;
  decision_.run.workers = choice.workers;
  set_choice(choice);
  estimate_.forget_whole();
  last_ = {before, decision_.run, now_s, worlds_};
  asked_s_ = now_s;
  steady_ = false;
  ++decision_.changes;
  start_verifying();
  if (choice.workers > before.workers) decision_.phase = Phase::kStarting;
  decision_.why = choice_text(estimate_.facts(), choice) +
                  (change.serves ? std::string("; it ends the trainer's waiting")
                   : !std::isfinite(change.saving)
                       ? std::string("; nothing was made before")
                       : worded("; it saves $%.3g in %.3g h", change.saving, horizon_s_ / kSecondsPerHour)) +
                  worded(", the change costs $%.3g; %.3g %% sure", change.cost, 100 * change.confidence);
}

void Controller::set_choice(const Choice& choice) {
  decision_.choice = choice;
  const double margin = std::min(kCoresMarginMax, estimate_.cores_error());
  const double all = options_.model.cores;
  const double cores = choice.limit == Limit::kDemand || choice.limit == Limit::kSource
                           ? std::min(all, std::max(1.0, std::ceil(choice.cores * (1 + margin) - 1e-9)))
                           : all;
  if (cores != decision_.run.cores) steady_ = false;
  decision_.run.cores = cores;
}

void Controller::settle(const PlacementInputs& facts, const Choice& present, bool reachable, double now_s) {
  if (decision_.phase != Phase::kSettled) decision_.confidence = confidence_beside(facts, present, reachable);
  // While none works after a first one did, no further look tells more of what they would bring.
  const std::uint64_t looks = decision_.run.workers == 0 && vain_ > 0 ? kFirstLook : kLastLook;
  if (decision_.confidence < kConfidence && seen_ < looks && decision_.phase != Phase::kSettled) {
    if (decision_.phase != Phase::kVerifying) start_verifying();
    look_at_seen_ = std::max(kFirstLook, 2 * seen_);
    decision_.looks_again_s = now_s;
    return;
  }
  decision_.phase = Phase::kSettled;
  settled_whole_ = estimate_.whole();
  decision_.looks_again_s = now_s + kLookS;
  decision_.why = choice_text(facts, present) +
                  worded("; %.3g %% sure that no neighbour is better", 100 * decision_.confidence);
}

Choice Controller::choice_of(const Running& run) const {
  const PlacementInputs facts = estimate_.facts();
  Choice choice = predict(facts, options_.prices, options_.goal, run.cut, run.workers);
  if (choice.workers >= workers_allowed(options_.prices, options_.goal))
    name_limit(choice, facts, options_.prices, options_.goal, serves_);
  return choice;
}

std::vector<Neighbour> Controller::neighbours(const Choice& chosen) const {
  const PlacementInputs facts = estimate_.facts();
  return autotune::neighbours(facts, options_.prices, options_.goal, chosen,
                              reachable(facts, options_.prices, options_.goal));
}

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
  const PlacementInputs facts = estimate_.facts();
  const auto best = place_now(facts);
  if (!best || best->choice.workers == 0) return;
  const Choice local = predict(facts, options_.prices, options_.goal, std::nullopt, 0);
  if (weigh(local, best->choice, best->reachable).worth()) ask_first(best->choice, now_s);
}

void Controller::measure_first_worker(const Measurements& measured, double now_s) {
  if (first_measured()) {
    if (!workers_known_) serves_ = false;  // costs that were assumed said so
    workers_known_ = true;
    const PlacementInputs facts = estimate_.facts();
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
std::optional<Choice> Controller::worth_a_trial(const Choice& present, const PlacementGoal& goal) const {
  const auto best = place(hoped(estimate_.facts_of_this_run()), options_.prices, goal);
  if (!best || best->choice.workers == 0) return std::nullopt;
  const double saving =
      (present.cost_per_sample - best->choice.cost_per_sample) * best->choice.rate * horizon_s_;
  const double paid_s = options_.worker_start_s + options_.worker_billed_s_min;
  const double cost = options_.prices.worker_per_hour * paid_s / kSecondsPerHour;
  return kHopeShare * saving > cost ? std::optional(best->choice) : std::nullopt;
}

PlacementInputs Controller::hoped(PlacementInputs facts) const {
  for (RemoteCut& cut : facts.cuts) cut.worker_cpu_s *= kHope, cut.host_cpu_s *= kHope;
  return facts;
}

PlacementInputs Controller::facts_to_claim() const {
  PlacementInputs facts = estimate_.facts();
  if (workers_known_ || estimate_.workers_measured() || decision_.run.workers > 0) return facts;
  PlacementGoal goal = options_.goal;
  goal.workers_max = std::max(1U, goal.workers_max);
  goal.workers_there = std::max(1U, goal.workers_there);
  return worth_a_trial(choice_of(decision_.run), goal) ? hoped(std::move(facts)) : facts;
}

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
bool Controller::begin_with_earlier(const PlacementInputs& facts, const Best& best, const Choice& present,
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
