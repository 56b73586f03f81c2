#include "loader/overflow/placement_loop.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <new>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "loader/host/accounts.h"
#include "loader/host/secret_file.h"
#include "loader/overflow/placement_model.h"
#include "loader/plan/order_choice.h"
#include "loader/wire/record_address.h"
#include "remote/fleet/child_fleet.h"
#include "remote/fleet/dns_fleet.h"

namespace carya::loader {
namespace {

/// The loop waits at most this long for workers before it decides without them.
constexpr double kWelcomeS = 2;
/// The least share of its time that a trainer is assumed to work by itself, which bounds the demand of one that nearly
/// always waits.
constexpr double kOwnShareMin = 0.05;
/// The largest assumed ratio of a thread's time, with its waits for a core, to its computing.
constexpr double kWaitsMax = 20;
/// Storage limits a stream if it was read all the time, and threads were idle.
constexpr double kReadingShareMin = 0.95, kBusyShareMax = 0.5, kWaitShareMin = 0.1;
constexpr double kSecondsPerHour = 3600;
/// Looks in the time of one later look, until the placement has settled. Such an interval is long enough for the means
/// of some chunks, and every second until the answer runs has a price.
constexpr double kLooksUntilSettled = 2;
/// At most this many running workers are tried at once: they may differ, and each is known after seconds.
constexpr std::uint32_t kFirstWorkers = 4;
/// The time from the request for a worker of a fleet until the worker works.
constexpr double kFleetStartS = 30;
/// What a worker has that its fleet gave up comes home within this time, or is done elsewhere.
constexpr std::int64_t kLeaveNs = 10'000'000'000;
constexpr std::size_t kEventsKept = 16;
constexpr std::uint64_t kTokenBytesMax = 4096;

std::string host_name() {
  char name[256] = "";
  static_cast<void>(gethostname(name, sizeof name - 1));
  return name;
}

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

}  // namespace

Result<std::unique_ptr<PlacementLoop>> PlacementLoop::create(const RemoteOptions& options,
                                                             OverflowStream stream) {
  TRY(autotune::check(options.prices));
  TRY(autotune::check(options.goal));
  std::unique_ptr<PlacementLoop> made(new PlacementLoop(options, std::move(stream)));
  TRY(made->open_fleet());
  // The chunks that are due first always stay for the threads of this machine: one for each thread, and one more.
  RemoteExecutorOptions crew{
      .workers = options.workers, .lead = made->stream_.threads + 1, .verify = options.verify};
  crew.log = [self = made.get()](const std::string& line) { self->note_event(line); };
  crew.pool.server_name = options.server_name;
  if (made->fleet_ && crew.pool.server_name.empty()) crew.pool.server_name = made->fleet_->server_name();
  crew.pool.insecure = options.insecure;
  crew.pool.hello.client = fmt::format("carya host {} pid {}", host_name(), getpid());
  crew.pool.hello.token = options.token;
  if (!options.token_file.empty()) {
    crew.pool.renew_token = [file = std::make_shared<SecretFile>("[remote] in caryad.toml: token_file",
                                                                 options.token_file, kTokenBytesMax)] {
      return file->read();
    };
    ASSIGN(const auto token, crew.pool.renew_token());
    crew.pool.hello.token = *token;
  }
  crew.pool.hello.user = options.user.empty() ? user_name(geteuid()) : options.user;
  if (!options.certificate.empty() || !options.key.empty() || !options.authority.empty())
    crew.pool.tls = remote::TlsFiles{
        .certificate = options.certificate, .key = options.key, .authority = options.authority};
  // Those of a fleet are added again as long as their names are unknown, also long after the executor has begun.
  crew.pool.unknown_names = made->stream_.workers_of_host && !made->fleet_;
  auto executor = RemoteExecutor::create(crew);
  if (!executor && made->stream_.workers_of_host)
    executor.error().message = "[remote] in caryad.toml: " + executor.error().message;
  ASSIGN(made->executor_, std::move(executor));
  made->executor_->set_workers(0);
  return made;
}

Status PlacementLoop::open_fleet() {
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

/// Tell the executor which workers the fleet has, and the fleet how many are wanted. Without a number nothing is
/// decided yet, and the fleet gives the workers that it has.
void PlacementLoop::follow_fleet(std::optional<std::uint32_t> wanted) {
  if (!fleet_) return;
  if (wanted) fleet_->scale(*wanted);
  const std::vector<std::string> members = fleet_->members();
  const std::int64_t now_ns = monotonic_ns();
  for (auto known = fleet_members_.begin(); known != fleet_members_.end();) {
    FleetMember& one = known->second;
    const bool gone = std::ranges::find(members, known->first) == members.end();
    if (gone != (one.gone_at_ns > 0)) {
      one.gone_at_ns = gone ? now_ns : 0;
      executor_->set_retired(one.member, gone);
    }
    const bool ends = gone && (now_ns - one.gone_at_ns >= kLeaveNs || executor_->is_idle(one.member));
    if (ends) executor_->remove_worker(one.member);
    known = ends ? fleet_members_.erase(known) : std::next(known);
  }
  for (const std::string& address : members) {
    if (fleet_members_.contains(address)) continue;
    if (const auto added = executor_->add_worker(address)) {
      fleet_members_[address] = {.member = *added};
    } else {
      note_event("worker=" + address + " why=\"" + added.error().message + "\"");
      note_none(added.error().message);
    }
  }
}

/// The reason why no worker is there, as far as the expected workers say one. Returns "" if one is there, and nothing
/// if they say nothing.
std::optional<std::string> PlacementLoop::why_none(const std::vector<remote::WorkerStats>& workers) {
  using State = remote::WorkerStats::State;
  std::optional<std::string> why;
  for (const remote::WorkerStats& worker : workers) {
    if (worker.state == State::kUp || worker.state == State::kDraining) return "";
    if (!worker.reason.empty()) why = "worker " + worker.address + ": " + worker.reason;
  }
  return why;
}

/// Keep the reason until a worker is there, since a fleet forgets workers that did not come together with their
/// reasons.
void PlacementLoop::note_none(const std::string& why) {
  const MutexLock lock(saying_);
  none_ = why;
}

std::uint32_t PlacementLoop::workers_there() const {
  return fleet_ ? fleet_->most() : static_cast<std::uint32_t>(executor_->members());
}

/// The goal within the user's limits, the workers that may exist, and those that other streams leave.
autotune::PlacementGoal PlacementLoop::goal() const {
  autotune::PlacementGoal goal = options_.goal;
  goal.workers_there = std::min({workers_there(), workers_share_, workers_allowed_});
  return goal;
}

PlacementLoop::~PlacementLoop() {
  end();
}

Status PlacementLoop::start(StreamControl& control, std::uint32_t cores) {
  control_ = &control;
  Seen now = see();
  {
    const MutexLock lock(mutex_);
    cores_ = cores;
    seen_ = std::move(now);
  }
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

void PlacementLoop::end() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (fleet_) fleet_->stop();
  if (fleet_thread_.joinable()) fleet_thread_.join();
}

void PlacementLoop::set_cores(std::uint32_t cores) {
  const MutexLock lock(mutex_);
  cores_ = cores;
  cores_used_ = 0;
  if (!controller_) return;
  if (const Status set = controller_->set_cores(cores); !set) note_trouble(set.error());
}

std::optional<autotune::Claim> PlacementLoop::claim() const {
  const MutexLock lock(mutex_);
  if (!controller_) return std::nullopt;
  autotune::Claim claim{
      .facts = controller_->facts_to_claim(), .prices = options_.prices, .goal = options_.goal};
  claim.goal.workers_max = controller_->workers_to_claim(std::min(claim.goal.workers_max, workers_there()));
  return claim;
}

std::uint32_t PlacementLoop::workers_of(const RemoteOptions& host) const {
  const bool own = !options_.fleet_command.empty() || options_.workers_fixed.has_value();
  return !own && options_.workers == host.workers && options_.dns == host.dns ? workers_there() : 0;
}

void PlacementLoop::set_workers_share(std::uint32_t workers) {
  const MutexLock lock(mutex_);
  workers_share_ = workers;
}

void PlacementLoop::set_workers_allowed(std::uint32_t workers) {
  const MutexLock lock(mutex_);
  workers_allowed_ = workers;
}

void PlacementLoop::loop() {
  MutexLock lock(mutex_);
  while (true) {
    const bool settled = controller_ && controller_->decision().phase == autotune::Phase::kSettled;
    const double wait_s = options_.look_every_s / (settled ? 1 : kLooksUntilSettled);
    const auto next = std::chrono::steady_clock::now() + std::chrono::nanoseconds(std::llround(wait_s * 1e9));
    while (!ending_ && changed_.wait_until(lock, next)) {
    }
    if (ending_) return;
    lock.unlock();
    try {
      look();
    } catch (const std::bad_alloc&) {  // the stream runs on as was decided before
    }
    lock.lock();
  }
}

void PlacementLoop::look() {
  Seen now = see();
  if (const auto why = why_none(executor_->figures())) note_none(*why);
  {
    const MutexLock lock(mutex_);
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

PlacementLoop::Seen PlacementLoop::see() const {
  return {.at_ns = monotonic_ns(), .stream = control_->observe(), .remote = executor_->totals()};
}

autotune::Measurements PlacementLoop::measure(const Seen& before, const Seen& now) const {
  autotune::Measurements measured;
  measured.seconds = seconds(now.at_ns - before.at_ns);
  // Only whole steps count, scaled to the interval: a part of a step would be noise.
  const double steps_s = seconds(now.stream.taken_at_ns - before.stream.taken_at_ns);
  if (before.stream.taken_at_ns > 0 && steps_s > 0) {
    const double share = measured.seconds / steps_s;
    const double waited =
        std::clamp(now.stream.totals.waited_s - before.stream.totals.waited_s, 0.0, steps_s);
    measured.samples = share * (now.stream.totals.taken_samples - before.stream.totals.taken_samples);
    measured.stall_s = share * waited;
    measured.demand =
        measured.samples / std::max(measured.seconds - measured.stall_s, kOwnShareMin * measured.seconds);
  }
  measured.local_samples =
      static_cast<double>(now.stream.compute.local_samples - before.stream.compute.local_samples);
  measured.local_thread_s = seconds(now.stream.compute.local_ns - before.stream.compute.local_ns);
  measured.remote_samples = static_cast<double>(now.remote.rows - before.remote.rows);
  measured.worker_thread_s = static_cast<double>(now.remote.worker_ns - before.remote.worker_ns) * 1e-9;
  if (measured.remote_samples > 0) {
    // The executor's CPU time costs the compute threads more than itself, since they wait for cores too. So it is
    // scaled by their ratio of time to CPU time.
    const double cpu_s = seconds(now.stream.compute.cpu_ns - before.stream.compute.cpu_ns),
                 rest_s = seconds(now.stream.compute.rest_ns - before.stream.compute.rest_ns);
    const double waits =
        cpu_s > 0 ? std::clamp((measured.local_thread_s + rest_s) / cpu_s, 1.0, kWaitsMax) : 1;
    measured.remote_host_s = waits * seconds(now.remote.host_ns - before.remote.host_ns) + rest_s;
  }
  if (const double receiving = seconds(now.remote.receiving_ns - before.remote.receiving_ns); receiving > 0)
    measured.link_in_bytes_per_s =
        static_cast<double>(now.remote.received_bytes - before.remote.received_bytes) / receiving;
  const double reading = seconds(now.stream.reads.reading_ns - before.stream.reads.reading_ns);
  const double busy = measured.local_thread_s / (measured.seconds * std::max(1U, cores_));
  if (reading > kReadingShareMin * measured.seconds && busy < kBusyShareMax &&
      measured.stall_s > kWaitShareMin * measured.seconds)
    measured.source_bytes_per_s =
        static_cast<double>(now.stream.reads.bytes_read - before.stream.reads.bytes_read) / reading;
  const double rate = measured.samples / measured.seconds;
  if (now.stream.samples_left > 0 && rate > 0) measured.work_left_s = now.stream.samples_left / rate;
  measured.workers_ready = now.remote.ready;
  measured.worker_speeds = now.remote.worker_speeds;
  measured.link_out_bytes_per_s = now.remote.link_out_bytes_per_s;
  return measured;
}

// The model is made anew for another order of ops, which has other cuts, and when the first worker has come, which
// shows what workers are.
Status PlacementLoop::renew_model(const Seen& seen) {
  const bool welcomed = worker_cores_ == 0 && seen.remote.worker_cores > 0;
  if (controller_ && goal() != goal_) TRY(controller_->set_goal(goal_ = goal()));
  if (controller_ && seen.stream.order == order_ && !welcomed) return {};
  const bool may_come = !options_.workers.empty() || !options_.dns.empty();
  if (!controller_ && seen.remote.worker_cores == 0 && now_s_ < kWelcomeS && may_come) return {};
  const PlacementCores cores{.host = static_cast<double>(cores_),
                             .worker = seen.remote.worker_cores > 0 ? seen.remote.worker_cores : 1};
  ASSIGN(autotune::PlacementInputs facts,
         placement_facts(stream_.pipeline, stream_.planner->profile(seen.stream.profile), seen.stream.order,
                         cores));
  order_ = seen.stream.order;
  worker_cores_ = seen.remote.worker_cores;
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

/// Keep what is known by now for the next run. A placement that was not decided says nothing to it.
void PlacementLoop::learn() {
  if (!controller_ || options_.workers_fixed) return;
  const auto learned = controller_->learned();
  if (!learned) return;
  stream_.planner->note_overflow(
      {.order = order_,
       .run = *learned,
       .samples_away = seconds(seen_.remote.away_p99_ns) * controller_->decision().choice.rate});
}

/// The cut for a number of workers that the user fixed.
std::optional<std::size_t> PlacementLoop::fixed_cut() const {
  const autotune::PlacementInputs facts = controller_->facts();
  std::optional<std::size_t> best;
  std::optional<autotune::Choice> choice;
  for (std::size_t cut = 0; cut < facts.cuts.size(); ++cut) {
    if (options_.cut_fixed && facts.cuts[cut].ops_remote != *options_.cut_fixed) continue;
    if (facts.cuts[cut].ops_remote == cut_ops_) return cut;  // the cut does not change
    const autotune::Choice here =
        autotune::predict(facts, options_.prices, options_.goal, cut, *options_.workers_fixed);
    if (choice && !autotune::better({.objective = autotune::Objective::kSpeed}, here, *choice, true))
      continue;
    best = cut;
    choice = here;
  }
  return best;
}

// Make the stream run as was decided.
void PlacementLoop::follow() {
  std::uint32_t cores = 0, workers = 0, remote_threads = 0;
  std::uint64_t ops = 0;
  double worth = 0;
  {
    MutexLock lock(mutex_);
    if (!controller_) {
      lock.unlock();
      return follow_fleet(std::nullopt);
    }
    running_ = controller_->decision().run;
    if (options_.workers_fixed) {
      running_.workers = std::min({*options_.workers_fixed, workers_share_, workers_allowed_});
      running_.cut = running_.workers > 0 ? fixed_cut() : std::nullopt;
      running_.cores = cores_;
    }
    const autotune::PlacementInputs facts = controller_->facts();
    if (running_.cut && *running_.cut < facts.cuts.size()) ops = facts.cuts[*running_.cut].ops_remote;
    workers = ops > 0 ? running_.workers : 0;
    remote_threads = static_cast<std::uint32_t>(std::ceil(workers * std::max(1.0, worker_cores_)));
    autotune::Claim host{.facts = facts, .prices = options_.prices, .goal = options_.goal};
    if (!(host.prices.host_per_hour > 0)) host.prices.host_per_hour = 1;
    worth = autotune::worth_of_worker(host, workers);
    const auto wanted = static_cast<std::uint32_t>(std::max(1.0, std::ceil(running_.cores)));
    if (wanted != cores_used_) cores = cores_used_ = wanted;
    if (ops == cut_ops_) ops = 0;
  }
  if (ops > 0) set_cut(ops);
  executor_->set_workers(workers);
  executor_->set_worth(worth);
  follow_fleet(workers);
  control_->set_parallelism(cores > 0 ? std::optional(cores) : std::nullopt, remote_threads);
}

void PlacementLoop::set_cut(std::size_t ops) {
  std::vector<std::size_t> order;
  {
    const MutexLock lock(mutex_);
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
                          .files = source_files(control_->dataset())};
    return executor_->set_plan(plan, std::move(rest));
  }();
  const MutexLock lock(mutex_);
  if (set)
    cut_ops_ = ops;
  else
    note_trouble(set.error());
}

void PlacementLoop::pay(double seconds, double samples) {
  if (!controller_) return;
  const double hours = seconds / kSecondsPerHour;
  bill_.host += options_.prices.host_per_hour * hours;
  bill_.workers += options_.prices.worker_per_hour * hours * seen_.remote.used;
  const autotune::PlacementInputs facts = controller_->facts();
  const auto add = [samples](double& sum, const autotune::Choice& choice) {
    if (const double cost = choice.cost_per_sample * samples; std::isfinite(cost)) sum += cost;
  };
  add(bill_.all_local, autotune::predict(facts, options_.prices, options_.goal, std::nullopt, 0));
  const bool reachable = autotune::reachable(facts, options_.prices, goal_);
  if (const auto all = autotune::best_all_remote(facts, options_.prices, goal_, reachable))
    add(bill_.all_remote, *all);
}

PlacementReport PlacementLoop::report() const {
  PlacementReport report{.workers = executor_->figures(),
                         .events = {},
                         .objective = options_.goal.objective,
                         .prices = options_.prices,
                         .fixed = options_.workers_fixed.has_value(),
                         .pipeline = stream_.pipeline->fingerprint(transforms::OnError::kRaise).hex(),
                         .phase = "connecting",
                         .why = "waiting for the first workers to answer"};
  std::optional<std::string> none = why_none(report.workers);
  {
    const MutexLock lock(saying_);
    report.events.assign(events_.begin(), events_.end());
    if (!none) none = none_;
  }
  const MutexLock lock(mutex_);
  report.trouble = !trouble_.empty() || none->empty()
                       ? trouble_
                       : "no worker is there, this machine makes all samples: " + *none;
  if (!controller_) return report;
  const autotune::Decision& decision = controller_->decision();
  // The placement that runs, with at most the workers that there can be: a fixed number may be larger.
  autotune::Running now = running_;
  now.workers = std::min(now.workers, goal_.workers_there);
  const autotune::Choice choice = controller_->choice_of(now);
  report.phase = report.fixed ? "fixed" : autotune::phase_name(decision.phase);
  report.why = report.fixed ? "as placement= says" : decision.why;
  report.decided = {.facts = controller_->facts(),
                    .choice = choice,
                    .workers = running_.workers,
                    .cores = cores_used_,
                    .ops_remote = cut_ops_,
                    .earlier = earlier_,
                    .changes = decision.changes,
                    .confidence = decision.confidence,
                    .looks_again_in_s = std::max(0.0, decision.looks_again_s - now_s_),
                    .measured = last_,
                    .neighbours = controller_->neighbours(choice),
                    .order = order_,
                    .seconds = now_s_,
                    .bill = bill_};
  for (const std::size_t op : order_) report.decided->op_names.push_back(stream_.pipeline->ops()[op]->name());
  return report;
}

void PlacementLoop::note_event(const std::string& line) {
  const MutexLock lock(saying_);
  if (!events_.empty() && events_.back() == line) return;
  events_.push_back(line);
  if (events_.size() > kEventsKept) events_.pop_front();
}

void PlacementLoop::note_trouble(const Error& error) {
  trouble_ = error.message;
}

}  // namespace carya::loader
