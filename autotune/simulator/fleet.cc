#include "autotune/simulator/fleet.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autotune/cache/cache_choice.h"
#include "autotune/sharing/sharing.h"
#include "autotune/simulator/knows_all.h"
#include "autotune/simulator/scenario.h"
#include "base/det_math.h"

namespace carya::autotune::simulator {
namespace {

constexpr std::uint32_t kMinuteS = 60;
constexpr std::uint32_t kJobWorkersMax = 64;
constexpr PlacementGoal kGoal{.workers_max = kJobWorkersMax};
constexpr std::uint32_t kCoresMin = 4;
// The workers of the fleet: n2-standard-4 by the list price of n2-standard-8.
constexpr double kWorkerCores = 4, kWorkerPrice = kAssumedPrices.worker_per_hour / 2;
constexpr double kWorkerStartS = 30, kWorkerBilledS = 60;
// As in the loader: what is free of a worker is the mean of so many seconds, and from so much on all of it.
constexpr double kPongs = 4, kAllFree = 0.9;
constexpr double kStarvedPart = 0.1;  // of a worker
constexpr double kNoWeight = 1e-9;    // of who wants nothing

/// The samples that a job keeps: CPU time of a sample on the host, in the mean over those that are kept and the others.
struct Kept {
  double records = 0;  ///< of one epoch; 0: nothing is kept
  double first_s = 0, later_s = 0;
  double first_best_s = 0, later_best_s = 0;  ///< at least what they are with whatever is kept
};

/// A job on its host, from its first second to its last.
class Job {
 public:
  Job(const Scenario& scenario, std::uint32_t whose, const Kept& kept)
      : world(scenario.world),
        controller(Controller::create({.model = scenario.model,
                                       .prices = scenario.world.prices,
                                       .goal = kGoal,
                                       .worker_start_s = scenario.world.fleet.start_s,
                                       .worker_billed_s_min = scenario.world.fleet.billed_s_min})
                       .value()),
        user(whose),
        kept_(kept),
        best_(scenario.world.truth) {}

  /// That it asks, of each of which it has its part.
  std::uint32_t workers() const { return controller.decision().run.workers; }
  const Prices& prices() const { return world.spec().prices; }
  Claim claim(double weight) const {
    return {.facts = controller.facts_to_claim(),
            .prices = prices(),
            .goal = {.workers_max = controller.workers_to_claim(kJobWorkersMax)},
            .weight = weight};
  }
  /// What the last of its workers saves it, as it tells them.
  double worth() const {
    return worth_of_worker({.facts = controller.facts(), .prices = prices(), .goal = kGoal}, workers());
  }
  double part() const { return world.spec().fleet.part; }
  /// `most`: that who knows all may use.
  void set_cores(double cores, double most) {
    if (cores != world.truth().cores) static_cast<void>(controller.set_cores(cores));
    changes_to(world.truth().local_cpu_s, cores, best_.local_cpu_s, most);
  }
  void second() {
    Measurements seen = world.step(controller.decision().run, 1);
    free_ += (part() - free_) / kPongs;
    seen.worker_speeds = {free_ >= kAllFree ? 1 : free_};
    controller.observe(seen, world.now_s());
    if (kept_.records > 0 && !later_ && world.bill().samples >= kept_.records) {
      later_ = true;
      changes_to(kept_.later_s, world.truth().cores, kept_.later_best_s, best_.cores);
    }
  }
  void end() {
    world.close();
    tell();
  }
  /// What its goal calls best, by what is true.
  const Choice& ideal() {
    if (!ideal_) ideal_ = place(world.truth(), prices(), kGoal).value().choice;
    return *ideal_;
  }

  World world;
  Controller controller;
  const std::uint32_t user;
  double starved_s = 0;     ///< without a break until now
  double worker_hours = 0;  ///< paid for
  std::vector<Work> work;
  double cost_local = 0;

 private:
  void changes_to(double local_cpu_s, double cores, double best_cpu_s, double best_cores) {
    PlacementInputs& truth = world.truth();
    if (local_cpu_s == truth.local_cpu_s && cores == truth.cores && best_cores == best_.cores) return;
    tell();
    truth.local_cpu_s = local_cpu_s, truth.cores = cores;
    best_.local_cpu_s = best_cpu_s, best_.cores = best_cores;
    ideal_.reset();
  }
  /// Of what was made since the world changed.
  void tell() {
    const double made = world.bill().samples - told_;
    told_ = world.bill().samples;
    if (!(made > 0)) return;
    const double loss = world.spec().scaling_loss;
    work.emplace_back(made, best_, prices(), loss, kJobWorkersMax);
    cost_local += made * predict(world.truth(), prices(), {}, std::nullopt, 0).cost_per_sample;
  }

  Kept kept_;
  double free_ = 1;       // of a worker, as it was told
  PlacementInputs best_;  ///< the truth of who knows all
  bool later_ = false;    ///< the first epoch is over
  double told_ = 0;       ///< samples
  std::optional<Choice> ideal_;
};

struct Host {
  double cores = 0;
  std::vector<std::unique_ptr<Job>> jobs;
};

class FleetRun {
 public:
  FleetRun(const FleetOptions& options, const ShareRule& shares)
      : options_(options),
        shares_(shares),
        random_(op_key(options.seed, "autotune/fleet", 0), 0, 0, 0),
        seed_(options.seed * 1'000'000) {
    result_.hosts = options.hosts, result_.workers = options.workers;
    for (std::uint32_t i = 0; i < options.users; ++i)
      result_.users.push_back({.weight = static_cast<double>(1 + i % 4)});
    for (std::uint32_t i = 0; i < options.users; ++i) names_.push_back(std::to_string(i));
    running_.resize(options.users), work_.resize(options.users);
    for (std::uint32_t i = 0; i < options.hosts; ++i) {
      Host& host = hosts_.emplace_back();
      host.cores = static_cast<double>(kCoresMin + random_.next_below(61));
      host.jobs.resize(1 + random_.next_below(options.jobs_per_host_max));
      for (auto& job : host.jobs) job = next_job(host);
    }
  }

  FleetResult run(const std::function<bool(std::uint32_t)>& watch) {
    std::uint32_t minute = 0;
    for (; minute < options_.minutes && (!watch || watch(minute)); ++minute) {
      for (Host& host : hosts_) {
        for (auto& job : host.jobs)
          if (minute > 0 && random_.next_double() < options_.ends_per_minute) end(*job), job = next_job(host);
        share_cores(host);
      }
      parts();
      list_jobs();
      for (std::uint32_t second = 0; second < kMinuteS; ++second) {
        share_workers();
        go();
      }
    }
    for (Host& host : hosts_)
      for (auto& job : host.jobs) end(*job);
    finish(std::max(1U, minute) * kMinuteS);
    return std::move(result_);
  }

 private:
  double scale(double low, double high) { return low * det_exp(random_.next_double() * det_log(high / low)); }

  std::unique_ptr<Job> next_job(const Host& host) {
    ++result_.jobs;
    const auto user = static_cast<std::uint32_t>(random_.next_below(options_.users));
    ++result_.users[user].jobs, ++running_[user];
    Scenario scenario = random_scenario(seed_++, options_.noise_max);
    scenario.world.prices.worker_per_hour = kWorkerPrice;
    scenario.world.fleet = {.start_s = kWorkerStartS,
                            .billed_s_min = kWorkerBilledS,
                            .size = kJobWorkersMax,
                            .fails_per_hour = options_.preempted_per_hour};
    PlacementInputs& truth = scenario.world.truth;
    const double larger = host.cores / static_cast<double>(host.jobs.size()) / truth.cores;
    truth.demand *= larger, truth.source_bytes_per_s *= larger;
    truth.cores = scenario.model.cores = host.cores;
    truth.worker_cores = scenario.model.worker_cores = kWorkerCores;
    const Kept kept = draw_kept(truth);
    if (kept.records > 0) ++result_.jobs_kept, truth.local_cpu_s = kept.first_s;
    return std::make_unique<Job>(scenario, user, kept);
  }

  /// Half of the jobs keep samples, as choose_cache() says; for a third of these another job of the same data did before.
  Kept draw_kept(const PlacementInputs& truth) {
    if (random_.next_double() < 0.5) return {};
    const double cpu_s = truth.local_cpu_s;
    CacheInputs facts{.sample_s = cpu_s,
                      .records = truth.demand * scale(300, 1500),
                      .epochs_left = static_cast<double>(2 + random_.next_below(9))};
    const double bytes = scale(3e4, 6e5);
    const auto place = [&](std::size_t ops, double of_it, double hit) {
      facts.places.push_back({.at = {.ops = ops},
                              .fill_s = cpu_s * (1 + scale(0.01, 0.1)),
                              .hit_s = cpu_s * hit,
                              .bytes = bytes * of_it});
    };
    place(1, scale(0.3, 1), scale(0.4, 0.8));
    if (random_.next_double() < 0.5) place(2, 1, scale(0.02, 0.3));  // else what is finished is random
    facts.capacity_bytes = facts.records * bytes * scale(0.1, 1.5);
    const CacheChoice choice = choose_cache(facts).value();
    if (!choice.chosen.place) return {};
    Kept kept{.records = facts.records, .later_s = choice.chosen.later_s, .first_best_s = cpu_s};
    kept.first_s = cpu_s + choice.chosen.share * (facts.places[*choice.chosen.place].fill_s - cpu_s);
    kept.later_best_s = std::ranges::min_element(choice.all, {}, &CacheCost::later_s)->later_s;
    if (random_.next_double() < 1.0 / 3) kept.first_s = kept.later_s, kept.first_best_s = kept.later_best_s;
    return kept;
  }

  double weight_of(const Job& job) const { return result_.users[job.user].weight / running_[job.user]; }

  /// By share_threads(); where its limits are more than the cores, jobs take turns by weight.
  void share_cores(Host& host) {
    std::vector<Claim> claims;
    std::vector<double> weights, limits, needs;
    double all = 0;
    for (const auto& job : host.jobs) {
      claims.push_back(job->claim(weight_of(*job)));
      weights.push_back(weight_of(*job));
      all += weights.back();
      const PlacementInputs& truth = job->world.truth();
      needs.push_back(predict_rate_wanted(truth) * truth.local_cpu_s);
    }
    const auto threads = share_threads(claims, static_cast<std::uint32_t>(host.cores)).value();
    for (const std::uint32_t one : threads) limits.push_back(one);
    const std::vector<double> cores = by_weight(weights, limits, host.cores);
    for (std::size_t i = 0; i < host.jobs.size(); ++i) {
      // Others have at least what they need of their rights.
      double most = host.cores;
      for (std::size_t j = 0; j < host.jobs.size(); ++j)
        if (j != i) most -= std::min(needs[j], host.cores * weights[j] / all);
      host.jobs[i]->set_cores(cores[i], std::max(most, cores[i]));
    }
  }

  static double predict_rate_wanted(const PlacementInputs& truth) {
    const double source =
        truth.source_bytes_per_s > 0 ? truth.source_bytes_per_s / truth.source_bytes : 1e300;
    return std::min(truth.demand, source);
  }

  /// The part of the workers that each job has: users take turns by what their jobs may have together, and a user's jobs
  /// by theirs. Who needs less leaves the rest to others.
  std::vector<double> by_turns(std::span<const double> shares, std::span<const double> busy) const {
    const std::size_t users = result_.users.size();
    std::vector<std::vector<std::size_t>> jobs_of(users);
    std::vector<double> weights(users, kNoWeight), of_users(users), has(jobs_.size());
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!claims_[i].asks) continue;
      const std::uint32_t user = user_for_workers(*jobs_[i]);
      jobs_of[user].push_back(i);
      weights[user] += shares[i], of_users[user] += busy[i];
    }
    const std::vector<double> users_have = by_weight(weights, of_users, options_.workers);
    for (std::size_t user = 0; user < users; ++user) {
      std::vector<double> theirs, wanted;
      for (const std::size_t i : jobs_of[user]) theirs.push_back(shares[i]), wanted.push_back(busy[i]);
      const std::vector<double> given = by_weight(theirs, wanted, users_have[user]);
      for (std::size_t k = 0; k < given.size(); ++k) has[jobs_of[user][k]] = given[k];
    }
    return has;
  }
  static std::vector<double> by_weight(std::span<const double> weights, std::span<const double> most,
                                       double total) {
    return simulator::by_weight(weights, std::vector<double>(weights.size()), most, total);
  }

  /// How many workers each pays of those that run because they are asked for: what it has, and of what nobody uses what is
  /// idle for it.
  std::vector<double> bill(std::span<const double> has, std::span<const double> asked) const {
    const double used = std::accumulate(has.begin(), has.end(), 0.0);
    const double all = std::accumulate(asked.begin(), asked.end(), 0.0);
    const double run = std::min<double>(options_.workers, all);
    const double idle = all > used ? (run - used) / (all - used) : 0;
    std::vector<double> paid;
    for (std::size_t i = 0; i < has.size(); ++i) paid.push_back(has[i] + idle * (asked[i] - has[i]));
    return paid;
  }

  /// Whose a job is to the workers.
  std::uint32_t user_for_workers(const Job& job) const { return options_.by_weight ? job.user : 0; }

  void list_jobs() {
    jobs_.clear(), claims_.clear();
    for (const Host& host : hosts_)
      for (const auto& job : host.jobs) {
        jobs_.push_back(job.get());
        claims_.push_back(
            {.user = names_[user_for_workers(*job)], .weight = weight_of(*job), .worth = job->worth()});
      }
  }

  /// All workers share themselves by the same rule, and the chunks of a job go to all that it uses, so that the fleet is
  /// one worker with many cores.
  void share_workers() {
    std::vector<double> busy, asked;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const bool asks = jobs_[i]->workers() > 0;
      if (asks != claims_[i].asks) claims_[i].worth = jobs_[i]->worth(), claims_[i].asks = asks;
      busy.push_back(jobs_[i]->world.workers_busy(jobs_[i]->controller.decision().run));
      asked.push_back(jobs_[i]->workers());
    }
    const std::vector<double> shares = shares_(claims_), has = by_turns(shares, busy),
                              paid = bill(has, asked);
    const double free = options_.workers - std::accumulate(has.begin(), has.end(), 0.0);
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const double workers = std::max(1.0, asked[i]);
      const double least = std::min(1.0, shares[i] * options_.workers / workers);
      jobs_[i]->world.set_part(std::clamp((free + has[i]) / workers, least, 1.0), paid[i] / workers);
    }
  }

  /// Of who knows all, for the minute that begins.
  void parts() {
    const std::size_t users = result_.users.size();
    std::vector<double> weights(users, kNoWeight), busy(users), asked(users);
    for (const Host& host : hosts_)
      for (const auto& job : host.jobs)
        if (const Choice& best = job->ideal(); best.workers > 0) {
          const Running run{best.cut, best.workers, best.cores};
          weights[job->user] += weight_of(*job);
          busy[job->user] += job->world.workers_busy(run), asked[job->user] += best.workers;
        }
    const std::vector<double> has = by_weight(weights, busy, options_.workers), part = bill(has, asked);
    for (std::size_t i = 0; i < users; ++i) {
      FleetUser& user = result_.users[i];
      user.part.push_back(part[i]);
      user.workers.push_back(0);
      user.part_hours += part[i] / 60;
      user.limited = user.limited && has[i] < busy[i] - 1e-6;
    }
  }

  void go() {
    double used = 0;
    for (Job* const job : jobs_) {
      const double has = job->workers() * job->world.spec().fleet.paid;
      used += has;
      FleetUser& user = result_.users[job->user];
      user.workers.back() += has / kMinuteS;
      user.worker_hours += has / 3600;
      job->worker_hours += has / 3600;
      const bool starves =
          job->workers() > 0 && job->workers() * job->part() < kStarvedPart && job->ideal().workers > 0;
      job->starved_s = starves ? job->starved_s + 1 : 0;
      result_.starved_s = std::max(result_.starved_s, job->starved_s);
      job->second();
    }
    result_.workers_used += used;
    result_.workers_most = std::max(result_.workers_most, used);
  }

  void end(Job& job) {
    job.end();
    --running_[job.user];
    result_.users[job.user].cost += job.world.bill().total();
    result_.cost_local += job.cost_local;
    result_.cost_best_jobs += least_cost(job.work, job.worker_hours);
    stall_s_ += job.world.bill().stall_s;
    std::ranges::move(job.work, std::back_inserter(work_[job.user]));
  }

  void finish(double seconds) {
    std::vector<double> of_part, of_weight;
    std::vector<Work> all;
    double hours = 0, jobs = 0;
    for (std::size_t i = 0; i < result_.users.size(); ++i) {
      FleetUser& user = result_.users[i];
      double hours_most = 0;  // never less than it had: no bound is above what was paid
      for (std::size_t m = 0; m < user.part.size(); ++m)
        hours_most += std::max(user.part[m], user.workers[m]) / 60;
      user.cost_best = least_cost(work_[i], hours_most);
      std::ranges::copy(work_[i], std::back_inserter(all));
      result_.cost += user.cost, result_.cost_best += user.cost_best;
      hours += user.worker_hours;
      if (user.part_hours > 0) of_part.push_back(user.worker_hours / user.part_hours);
      if (user.limited) of_weight.push_back(user.worker_hours / user.weight);
    }
    for (const Host& host : hosts_) jobs += static_cast<double>(host.jobs.size());
    result_.cost_best_money = least_cost(all, std::max(hours, options_.workers * seconds / 3600));
    result_.jain = jain_index(of_part), result_.jain_limited = jain_index(of_weight);
    result_.workers_used /= seconds;
    result_.stall = stall_s_ / (seconds * jobs);
  }

  FleetOptions options_;
  const ShareRule& shares_;
  SampleRng random_;
  std::uint64_t seed_;
  FleetResult result_;
  double stall_s_ = 0;
  std::vector<Host> hosts_;
  std::vector<std::string> names_;       // of the users
  std::vector<double> running_;          // jobs of each user
  std::vector<std::vector<Work>> work_;  // of the jobs that ended, by user
  // Of this minute.
  std::vector<Job*> jobs_;
  std::vector<FleetClaim> claims_;
};

}  // namespace

FleetResult run_fleet(const FleetOptions& options, const ShareRule& shares,
                      const std::function<bool(std::uint32_t)>& watch) {
  return FleetRun(options, shares).run(watch);
}

}  // namespace carya::autotune::simulator
