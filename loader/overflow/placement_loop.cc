#include "loader/overflow/placement_loop.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "loader/engine/engine.h"
#include "loader/overflow/placement_model.h"
#include "loader/plan/order_choice.h"
#include "loader/stream/scheduler.h"
#include "loader/wire/record_address.h"
#include "remote/fleet/child_fleet.h"
#include "remote/fleet/dns_fleet.h"

namespace carya::loader {
namespace {

/// Workers are waited for so long before anything is decided without them.
constexpr double kWelcomeS = 2;
/// A trainer that waits nearly always is taken to want at most so many times what it gets.
constexpr double kOwnShareMin = 0.05;
/// Threads are taken to wait for cores at most so many times what they compute.
constexpr double kWaitsMax = 20;
/// Storage limits a stream if it was read all the time, and threads were idle.
constexpr double kReadingShareMin = 0.95, kBusyShareMax = 0.5, kWaitShareMin = 0.1;
constexpr double kSecondsPerHour = 3600;
/// In the time of one look later on: an interval is long enough for the means of some chunks, and every
/// second until the answer runs is paid for.
constexpr double kLooksUntilSettled = 2;
/// Workers that run already are tried so many at once: they may be unlike, and each is known after seconds.
constexpr std::uint32_t kFirstWorkers = 4;
/// From asking a fleet for a worker until it works.
constexpr double kFleetStartS = 30;
constexpr std::size_t kEventsKept = 16;

std::string host_name() {
  char name[256] = "";
  static_cast<void>(gethostname(name, sizeof name - 1));
  return name;
}

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

}  // namespace

Result<std::unique_ptr<Overflow>> Overflow::create(const RemoteOptions& options, OverflowStream stream) {
  TRY(autotune::check(options.prices));
  TRY(autotune::check(options.goal));
  std::unique_ptr<Overflow> made(new Overflow(options, std::move(stream)));
  TRY(made->open_fleet());
  // So many chunks are always left for the threads here, what is due first.
  PoolCrewOptions crew{
      .workers = options.workers, .lead = made->stream_.threads + 1, .verify = options.verify};
  crew.log = [self = made.get()](const std::string& line) { self->note_event(line); };
  crew.pool.server_name = options.server_name;
  if (made->fleet_ && crew.pool.server_name.empty()) crew.pool.server_name = made->fleet_->server_name();
  crew.pool.insecure = options.insecure;
  crew.pool.hello.client = "carya host " + host_name() + " pid " + std::to_string(getpid());
  crew.pool.hello.token = options.token;
  if (!options.certificate.empty() || !options.key.empty() || !options.authority.empty())
    crew.pool.tls = remote::TlsFiles{
        .certificate = options.certificate, .key = options.key, .authority = options.authority};
  ASSIGN(made->crew_, PoolCrew::create(crew));
  made->crew_->set_workers(0);
  return made;
}

Status Overflow::open_fleet() {
  const remote::FleetOptions fleet{.price_per_hour = options_.prices.worker_per_hour,
                                   .log = [this](const std::string& line) { note_event(line); }};
  if (!options_.dns.empty()) {
    ASSIGN(fleet_, remote::dns_fleet(options_.dns, {.fleet = fleet}));
  } else if (!options_.fleet_command.empty()) {
    ASSIGN(fleet_,
           remote::child_fleet(
               {.fleet = fleet, .command = options_.fleet_command, .options = options_.fleet_options}));
    options_.worker_start_s = std::max(options_.worker_start_s, kFleetStartS);
  }
  return {};
}

/// The crew knows the workers that the fleet has, and the fleet how many are wanted; before anything was
/// decided, it gives those that there are.
void Overflow::follow_fleet(std::optional<std::uint32_t> wanted) {
  if (!fleet_) return;
  if (wanted) fleet_->scale(*wanted);
  const std::vector<std::string> members = fleet_->members();
  std::erase_if(fleet_members_, [&](const auto& known) {
    if (std::ranges::find(members, known.first) != members.end()) return false;
    crew_->remove_worker(known.second);
    return true;
  });
  for (const std::string& address : members) {
    if (fleet_members_.contains(address)) continue;
    if (const auto added = crew_->add_worker(address)) {
      fleet_members_[address] = *added;
    } else {
      note_event("worker=" + address + " why=\"" + added.error().message + "\"");
      note_none(added.error().message);
    }
  }
}

/// Why no worker is there, as far as those that should be say so; "": one is; none: they say nothing.
std::optional<std::string> Overflow::why_none(const std::vector<remote::WorkerFigures>& workers) {
  using State = remote::WorkerFigures::State;
  std::optional<std::string> why;
  for (const remote::WorkerFigures& worker : workers) {
    if (worker.state == State::kUp || worker.state == State::kDraining) return "";
    if (!worker.reason.empty()) why = "worker " + worker.address + ": " + worker.reason;
  }
  return why;
}

/// It is known until a worker is there: those of a fleet that did not come are forgotten with their reasons.
void Overflow::note_none(const std::string& why) {
  const std::lock_guard lock(saying_);
  none_ = why;
}

std::uint32_t Overflow::workers_there() const {
  return fleet_ ? fleet_->most() : static_cast<std::uint32_t>(crew_->members());
}

/// Within what the user allows, what there can be, and what other streams leave.
autotune::PlacementGoal Overflow::goal() const {
  autotune::PlacementGoal goal = options_.goal;
  goal.workers_there = std::min(workers_there(), workers_share_);
  return goal;
}

Overflow::~Overflow() {
  end();
}

Status Overflow::start(Engine& engine, Production& production, std::uint32_t cores) {
  engine_ = &engine;
  production_ = &production;
  cores_ = cores;
  seen_ = see();
  try {
    if (fleet_) fleet_thread_ = std::thread([this] { fleet_->run(); });
    thread_ = std::thread([this] { loop(); });
  } catch (const std::system_error& refused) {
    return fail(Code::kExhausted,
                std::string("overflow: start of its thread: ") + refused.what() +
                    "; raise the limit of processes (ulimit -u)",
                refused.code().value());
  }
  return {};
}

void Overflow::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (fleet_) fleet_->stop();
  if (fleet_thread_.joinable()) fleet_thread_.join();
}

void Overflow::set_cores(std::uint32_t cores) {
  const std::lock_guard lock(mutex_);
  cores_ = cores;
  cores_used_ = 0;
  if (!controller_) return;
  if (const Status set = controller_->set_cores(cores); !set) note_trouble(set.error());
}

std::optional<autotune::Claim> Overflow::claim() const {
  const std::lock_guard lock(mutex_);
  if (!controller_) return std::nullopt;
  autotune::Claim claim{.facts = controller_->facts(), .prices = options_.prices, .goal = options_.goal};
  claim.goal.workers_max = std::min(claim.goal.workers_max, workers_there());
  return claim;
}

std::uint32_t Overflow::workers_of(const RemoteOptions& host) const {
  const bool own = !options_.fleet_command.empty() || options_.workers_fixed.has_value();
  return !own && options_.workers == host.workers && options_.dns == host.dns ? workers_there() : 0;
}

void Overflow::set_workers_share(std::uint32_t workers) {
  const std::lock_guard lock(mutex_);
  workers_share_ = workers;
}

void Overflow::loop() {
  std::unique_lock lock(mutex_);
  const auto every = [this] {
    const bool settled = controller_ && controller_->decision().phase == autotune::Phase::kSettled;
    return std::chrono::duration<double>(options_.look_every_s / (settled ? 1 : kLooksUntilSettled));
  };
  while (!changed_.wait_for(lock, every(), [this] { return ending_; })) {
    lock.unlock();
    try {
      look();
    } catch (const std::bad_alloc&) {  // it runs on as decided
    }
    lock.lock();
  }
}

void Overflow::look() {
  Seen now = see();
  if (const auto why = why_none(crew_->figures())) note_none(*why);
  {
    const std::lock_guard lock(mutex_);
    const autotune::Measurements measured = measure(seen_, now);
    now_s_ += measured.seconds;
    if (const Status renewed = renew_model(now); !renewed) note_trouble(renewed.error());
    if (controller_) controller_->observe(measured, now_s_);
    learn();
    pay(measured.seconds, measured.samples);
    last_ = measured;
    seen_ = std::move(now);
  }
  follow();
}

Overflow::Seen Overflow::see() const {
  Seen seen{.at_ns = monotonic_ns()};
  {
    const std::lock_guard lock(engine_->mutex());
    const ProductionStats stats = production_->stats();
    seen.taken_at_ns = production_->taken_at_ns();
    seen.taken_samples = production_->totals().taken_samples;
    seen.waited_s = production_->totals().waited_s;
    seen.local_samples = stats.local_samples;
    seen.local_ns = stats.local_ns;
    seen.rest_samples = stats.rest_samples;
    seen.rest_ns = stats.rest_ns;
    seen.cpu_ns = stats.cpu_ns;
    seen.reading_ns = stats.reading_ns;
    seen.bytes_read = stats.bytes_read;
    seen.samples_left = production_->samples_left();
    seen.order = production_->order();
    seen.profile = production_->measured();
  }
  seen.crew = crew_->totals();
  return seen;
}

autotune::Measurements Overflow::measure(const Seen& before, const Seen& now) const {
  autotune::Measurements measured;
  measured.seconds = seconds(now.at_ns - before.at_ns);
  // Of whole steps, as if they had taken as long as the interval: a part of one would be noise.
  const double steps_s = seconds(now.taken_at_ns - before.taken_at_ns);
  if (before.taken_at_ns > 0 && steps_s > 0) {
    const double share = measured.seconds / steps_s;
    const double waited = std::clamp(now.waited_s - before.waited_s, 0.0, steps_s);
    measured.samples = share * (now.taken_samples - before.taken_samples);
    measured.stall_s = share * waited;
    measured.demand =
        measured.samples / std::max(measured.seconds - measured.stall_s, kOwnShareMin * measured.seconds);
  }
  measured.local_samples = static_cast<double>(now.local_samples - before.local_samples);
  measured.local_thread_s = seconds(now.local_ns - before.local_ns);
  measured.remote_samples = static_cast<double>(now.crew.rows - before.crew.rows);
  measured.worker_thread_s = static_cast<double>(now.crew.worker_ns - before.crew.worker_ns) * 1e-9;
  if (measured.remote_samples > 0) {
    // What it is to the threads that compute, who wait for cores too: the CPU time of the crew's is not
    // theirs.
    const double cpu_s = seconds(now.cpu_ns - before.cpu_ns), rest_s = seconds(now.rest_ns - before.rest_ns);
    const double waits =
        cpu_s > 0 ? std::clamp((measured.local_thread_s + rest_s) / cpu_s, 1.0, kWaitsMax) : 1;
    measured.remote_host_s = waits * seconds(now.crew.host_ns - before.crew.host_ns) + rest_s;
  }
  if (const double receiving = seconds(now.crew.receiving_ns - before.crew.receiving_ns); receiving > 0)
    measured.link_in_bytes_per_s =
        static_cast<double>(now.crew.received_bytes - before.crew.received_bytes) / receiving;
  const double reading = seconds(now.reading_ns - before.reading_ns);
  const double busy = measured.local_thread_s / (measured.seconds * std::max(1U, cores_));
  if (reading > kReadingShareMin * measured.seconds && busy < kBusyShareMax &&
      measured.stall_s > kWaitShareMin * measured.seconds)
    measured.source_bytes_per_s = static_cast<double>(now.bytes_read - before.bytes_read) / reading;
  const double rate = measured.samples / measured.seconds;
  if (now.samples_left > 0 && rate > 0) measured.work_left_s = now.samples_left / rate;
  measured.workers_ready = now.crew.ready;
  measured.worker_speeds = now.crew.worker_speeds;
  measured.link_out_bytes_per_s = now.crew.link_out_bytes_per_s;
  return measured;
}

// Another order of ops has other cuts; and what a worker is, is known when the first has come.
Status Overflow::renew_model(const Seen& seen) {
  const bool welcomed = worker_cores_ == 0 && seen.crew.worker_cores > 0;
  if (controller_ && goal() != goal_) TRY(controller_->set_goal(goal_ = goal()));
  if (controller_ && seen.order == order_ && !welcomed) return {};
  const bool may_come = !options_.workers.empty() || !options_.dns.empty();
  if (!controller_ && seen.crew.worker_cores == 0 && now_s_ < kWelcomeS && may_come) return {};
  const PlacementCores cores{.host = static_cast<double>(cores_),
                             .worker = seen.crew.worker_cores > 0 ? seen.crew.worker_cores : 1};
  ASSIGN(autotune::PlacementFacts facts,
         placement_facts(stream_.pipeline, stream_.planner->profile(seen.profile), seen.order, cores));
  order_ = seen.order;
  worker_cores_ = seen.crew.worker_cores;
  cut_ops_ = 0;
  earlier_ = stream_.planner->earlier_overflow(order_);
  if (controller_) return controller_->set_model(facts, earlier_);
  autotune::ControllerOptions options{.model = std::move(facts),
                                      .prices = options_.prices,
                                      .goal = goal_ = goal(),
                                      .worker_start_s = options_.worker_start_s,
                                      .worker_billed_s_min = options_.worker_billed_s_min,
                                      .first_workers = may_come ? kFirstWorkers : 1,
                                      .earlier = earlier_};
  ASSIGN(controller_, autotune::Controller::create(options));
  return {};
}

/// What is known by now is kept for the next run; a placement that was not decided says nothing to it.
void Overflow::learn() {
  if (!controller_ || options_.workers_fixed) return;
  const auto learned = controller_->learned();
  if (!learned) return;
  stream_.planner->note_overflow(
      {.order = order_,
       .run = *learned,
       .samples_away = seconds(seen_.crew.away_p99_ns) * controller_->decision().choice.rate});
}

/// The cut of a placement that is not decided here.
std::optional<std::size_t> Overflow::fixed_cut() const {
  const autotune::PlacementFacts facts = controller_->facts();
  std::optional<std::size_t> best;
  std::optional<autotune::Choice> choice;
  for (std::size_t cut = 0; cut < facts.cuts.size(); ++cut) {
    if (options_.cut_fixed && facts.cuts[cut].ops_remote != *options_.cut_fixed) continue;
    if (facts.cuts[cut].ops_remote == cut_ops_) return cut;  // it stays what it is
    const autotune::Choice here =
        autotune::predict(facts, options_.prices, options_.goal, cut, *options_.workers_fixed);
    if (choice && !autotune::better({.objective = autotune::Objective::kSpeed}, here, *choice, true))
      continue;
    best = cut;
    choice = here;
  }
  return best;
}

// Has the stream run as decided.
void Overflow::follow() {
  std::uint32_t cores = 0, workers = 0;
  std::uint64_t ops = 0;
  double worth = 0;
  {
    std::unique_lock lock(mutex_);
    if (!controller_) {
      lock.unlock();
      return follow_fleet(std::nullopt);
    }
    running_ = controller_->decision().run;
    if (options_.workers_fixed) {
      running_.workers = *options_.workers_fixed;
      running_.cut = running_.workers > 0 ? fixed_cut() : std::nullopt;
      running_.cores = cores_;
    }
    const autotune::PlacementFacts facts = controller_->facts();
    if (running_.cut && *running_.cut < facts.cuts.size()) ops = facts.cuts[*running_.cut].ops_remote;
    workers = ops > 0 ? running_.workers : 0;
    autotune::Claim host{.facts = facts, .prices = options_.prices, .goal = options_.goal};
    if (!(host.prices.host_per_hour > 0)) host.prices.host_per_hour = 1;
    worth = autotune::worth_of_worker(host, workers);
    const auto wanted = static_cast<std::uint32_t>(std::max(1.0, std::ceil(running_.cores)));
    if (wanted != cores_used_) cores = cores_used_ = wanted;
    if (ops == cut_ops_) ops = 0;
  }
  if (ops > 0) set_cut(ops);
  crew_->set_workers(workers);
  crew_->set_worth(worth);
  follow_fleet(workers);
  const std::lock_guard lock(engine_->mutex());
  if (cores > 0) production_->set_threads(cores);
  production_->set_remote_threads(
      static_cast<std::uint32_t>(std::ceil(workers * std::max(1.0, worker_cores_))));
  engine_->pump(*production_);
}

void Overflow::set_cut(std::size_t ops) {
  std::vector<std::size_t> order;
  {
    const std::lock_guard lock(mutex_);
    order = order_;
  }
  const auto set = [&]() -> Status {
    std::shared_ptr<PlanInUse> rest;
    if (ops < order.size()) {
      ASSIGN(auto plan, transforms::Plan::compile(stream_.pipeline,
                                                  {.seed = stream_.seed, .order = order, .first = ops}));
      rest = std::make_shared<PlanInUse>(PlanInUse{.plan = std::move(plan), .profile = {.order = order}});
    }
    const RemotePlan plan{.id = ++plans_,
                          .pipeline = stream_.pipeline->to_json(),
                          .fingerprint = stream_.pipeline->fingerprint(transforms::OnError::kRaise),
                          .seed = stream_.seed,
                          .order = {order.begin(), order.end()},
                          .cut = ops,
                          .files = source_files(*production_->dataset())};
    return crew_->set_plan(plan, std::move(rest));
  }();
  const std::lock_guard lock(mutex_);
  if (set)
    cut_ops_ = ops;
  else
    note_trouble(set.error());
}

void Overflow::pay(double seconds, double samples) {
  if (!controller_) return;
  const double hours = seconds / kSecondsPerHour;
  bill_.host += options_.prices.host_per_hour * hours;
  bill_.workers += options_.prices.worker_per_hour * hours * seen_.crew.used;
  const autotune::PlacementFacts facts = controller_->facts();
  const auto add = [samples](double& sum, const autotune::Choice& choice) {
    if (const double cost = choice.cost_per_sample * samples; std::isfinite(cost)) sum += cost;
  };
  add(bill_.all_local, autotune::predict(facts, options_.prices, options_.goal, std::nullopt, 0));
  const bool reachable = autotune::reachable(facts, options_.prices, goal_);
  if (const auto all = autotune::best_all_remote(facts, options_.prices, goal_, reachable))
    add(bill_.all_remote, *all);
}

void Overflow::note_event(const std::string& line) {
  const std::lock_guard lock(saying_);
  if (!events_.empty() && events_.back() == line) return;
  events_.push_back(line);
  if (events_.size() > kEventsKept) events_.pop_front();
}

void Overflow::note_trouble(const Error& error) {
  trouble_ = error.message;
}

}  // namespace carya::loader
