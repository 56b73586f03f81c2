#include "loader/daemon/job_table.h"

#include <fmt/core.h>
#include <algorithm>

#include "base/clock.h"
#include "base/mutex.h"
#include "io/http/store_client.h"
#include "loader/daemon/job_status.h"
#include "loader/daemon/shared_streams.h"
#include "loader/host/host.h"
#include "loader/host/pressure.h"
#include "loader/plan/order_report.h"

namespace carya::loader {
namespace {

constexpr std::size_t kJobNameMax = 200;
constexpr std::size_t kClassNameBytesMax = 16 << 10;  // of an answer
constexpr std::size_t kExampleBytesMax = 1 << 10;

std::string store_key(const AttachCall& call) {
  return call.access ? call.access->terms().key() : "";
}

std::unexpected<Error> stopped(const Seat& seat) {
  return fail(Code::kClosed, "job " + seat.job->name + ": was stopped; make a new Loader from its state");
}

constexpr std::int64_t kRateNs = 1'000'000'000;

}  // namespace

JobTable::JobTable(const JobLimits& limits, Log log)
    : limits_(limits),
      budget_(SharedBudget::create(limits.shared_bytes)),
      cache_budget_(SharedBudget::create(limits.cache.memory_bytes)),
      write_budget_(std::make_shared<WriteBudget>(limits.cache.write_bytes_per_day)),
      cores_(cores_now()),
      outages_(std::move(log)) {}

JobTable::~JobTable() {
  stop_all();
}

std::uint64_t JobTable::readers() const {
  std::uint64_t count = 0;
  for (const auto& [name, job] : jobs_)
    for (const auto& [number, rank] : job->ranks) count += rank.members.size();
  return count;
}

bool JobTable::in_use(const std::shared_ptr<const Dataset>& dataset) const {
  return std::ranges::any_of(jobs_, [&](const auto& job) { return job.second->dataset == dataset; });
}

bool JobTable::is_read(const std::shared_ptr<const Dataset>& dataset) const {
  return std::ranges::any_of(jobs_, [&](const auto& job) {
    return job.second->dataset == dataset && std::ranges::any_of(job.second->ranks, [](const auto& rank) {
             return !rank.second.members.empty();
           });
  });
}

void JobTable::share_memory(HostRank& rank) const {
  rank.stream->set_memory_share(memory_.read_ahead(), memory_.slots());
}

Result<std::shared_ptr<const Dataset>> JobTable::open_dataset(const AttachCall& call,
                                                              const transforms::Pipeline& pipeline,
                                                              const AllowedFolders& folders,
                                                              const std::string& cache_dir,
                                                              const io::Progress& progress) {
  const AttachRequest& request = call.request;
  const auto rights = [&] { return call.access ? call.access->rights() : std::optional<std::string>(""); };
  // Whether somebody else who lends the same may take it without asking the stores.
  const std::optional<std::string> asked_by = call.arrays.empty() ? rights() : std::nullopt;
  const std::string key = cache_dir + '\0' + pipeline.source_json() + '\0' + pipeline.views_json() + '\0' +
                          pipeline.records_json() + '\0' + asked_by.value_or("");
  {
    const MutexLock lock(mutex_);
    // One that is read now is not looked at again: the ranks of a job must agree. Otherwise the manifest is
    // reopened, which checks the folders' times.
    const auto found = asked_by ? datasets_.find(key) : datasets_.end();
    if (found != datasets_.end() && is_read(found->second.dataset)) {
      for (const Dataset::Field& field : found->second.dataset->fields())
        if (field.manifest) TRY(folders.check_source(field.manifest->root(), call.access.get()));
      found->second.used_ns = monotonic_ns();
      return found->second.dataset;
    }
  }
  DatasetOptions options;
  options.listing = {.cache_dir = cache_dir, .progress = progress};
  const auto check = [&](const std::string& root) { return folders.check_source(root, call.access.get()); };
  if (!folders.roots.empty()) options.listing.may_read = check;
  if (call.access) {
    ASSIGN(options.listing.stores, io::StoreClient::create(call.access));
  }
  for (std::size_t i = 0; i < request.arrays.size(); ++i) {
    const ArrayInfo& facts = request.arrays[i];
    const std::span<const std::byte> bytes = call.arrays[i]->bytes();
    if (facts.row_bytes == 0 ? facts.rows != 0 : facts.rows > bytes.size() / facts.row_bytes)
      return fail(Code::kCorrupt, "arrays: " + facts.field + " is shorter than its rows");
    options.arrays[facts.field] = {bytes.data(), facts.row_bytes, facts.rows};
  }
  ASSIGN(auto dataset, Dataset::open(pipeline, options));
  if (asked_by && rights() == asked_by) {  // else other grants than those may have opened it
    const MutexLock lock(mutex_);
    OpenDataset& listed = datasets_[key];
    if (listed.dataset && listed.dataset->fingerprint() == dataset->fingerprint()) dataset = listed.dataset;
    listed = {dataset, monotonic_ns()};
  }
  return dataset;
}

/// The job of that name, made when there is none.
Result<std::shared_ptr<HostJob>> JobTable::find_job(const AttachCall& call,
                                                    std::shared_ptr<const transforms::Pipeline> pipeline,
                                                    std::shared_ptr<const Dataset> dataset) {
  const AttachRequest& request = call.request;
  if (const auto found = jobs_.find(request.job); found != jobs_.end()) {
    if (found->second->share != request.share)
      return refuse(request.job, "is not of those that share these batches; give this one another name");
    TRY(found->second->check_same(call.request, store_key(call), *pipeline, *dataset));
    return found->second;
  }
  if (draining_)
    return fail(
        Code::kClosed,
        "caryad: is draining and takes no new jobs; wait for the next one, or give daemon=\"embedded\"");
  if (jobs_.size() >= limits_.jobs)
    return fail(
        Code::kExhausted,
        fmt::format("caryad: {} jobs of at most {}; stop one (carya job stop NAME) or raise [limits] jobs",
                    jobs_.size(), limits_.jobs));
  std::uint64_t array_bytes = 0;  // the client's memory, and kept by the job
  for (const auto& rows : call.arrays) array_bytes += rows->bytes().size();
  auto part = budget_->reserve(array_bytes);
  if (!part)
    return fail(
        Code::kExhausted,
        fmt::format("arrays: {} MiB are more than the {} MiB of shared memory that are left; raise [limits] "
                    "shared_memory in caryad.toml, or use the loader with daemon=\"embedded\"",
                    array_bytes >> 20, budget_->left() >> 20));
  auto job = std::make_shared<HostJob>();
  job->number = ++last_job_;
  job->name = request.job;
  job->share = request.share;
  job->pipeline = std::move(pipeline);
  job->dataset = std::move(dataset);
  job->memory = call.arrays;
  job->memory_part = std::move(*part);
  job->world_size = request.options.world_size;
  job->store_key = store_key(call);
  job->order = order_with_other_bits(request.options);
  jobs_[job->name] = job;
  return job;
}

/// A successor that wants something else: what lingers is of no use to it.
void JobTable::drop_unlike(const AttachCall& call, const transforms::Pipeline& pipeline,
                           const Dataset& dataset, std::vector<std::shared_ptr<LocalStream>>& ended) {
  const AttachRequest& request = call.request;
  const auto found = jobs_.find(request.job);
  if (found == jobs_.end()) return;
  const std::shared_ptr<HostJob> job = found->second;  // it may leave the table
  const auto lingers = [](const auto& rank) { return rank.second.members.empty(); };
  if (!job->check_same(call.request, store_key(call), pipeline, dataset) &&
      std::ranges::all_of(job->ranks, lingers))
    while (!job->ranks.empty()) end_rank(*job, job->ranks.begin()->first, ended);
  const auto rank = job->ranks.find(request.options.rank);
  if (rank != job->ranks.end() && lingers(*rank) &&
      !difference(rank->second.options, request.options).empty())
    end_rank(*job, request.options.rank, ended);
}

Result<JobTable::Attachment> JobTable::attach(const AttachCall& call, const io::Progress& progress) {
  const AttachRequest& request = call.request;
  if (request.job.empty() || request.job.size() > kJobNameMax)
    return fail(Code::kInvalidArgument,
                fmt::format("job: got a name of {} bytes; give 1 to {}", request.job.size(), kJobNameMax));
  if (request.replicas < 1 || request.replicas > shm::kReadersMax || request.replica >= request.replicas)
    return refuse(request.job, fmt::format("got replica {} of {}; give 1 to {} replicas, counted from 0",
                                           request.replica, request.replicas, shm::kReadersMax));
  if (request.share.size() > kJobNameMax || (!request.share.empty() && request.replicas != 1))
    return refuse(request.job,
                  fmt::format("got share of {} bytes and {} replicas; give a name of at most {}, and "
                              "no replicas",
                              request.share.size(), request.replicas, kJobNameMax));
  const std::span<const std::byte> text = call.document->bytes();
  ASSIGN(auto pipeline,
         transforms::Pipeline::parse({reinterpret_cast<const char*>(text.data()), text.size()}));
  AllowedFolders folders;
  CacheLimits cache;
  {
    const MutexLock lock(mutex_);
    folders = limits_.folders, cache = limits_.cache;
    if (request.options.remote) TRY(folders.check_remote(*request.options.remote, limits_.remote));
  }
  if (call.access) TRY(folders.check_terms(call.access->terms()));
  if (call.access) TRY(call.access->read_authorities());
  ASSIGN(const std::string cache_dir, folders.cache_dir(request.cache_dir));
  ASSIGN(auto dataset, open_dataset(call, *pipeline, folders, cache_dir, progress));
  JobOptions options = request.options;
  options.decode_index.cache_dir = options.cache_dir = cache_dir;
  for (const auto& [asked, limit] :
       {std::pair{&options.cache.disk, &cache.disk}, std::pair{&options.cache.shared, &cache.shared}}) {
    if (!limit->path.empty()) asked->path.clear();  // never looked at, also after a reload
    if (!asked->path.empty()) {
      ASSIGN(asked->path, folders.cache_dir(asked->path));
    }
  }
  options.beneath = !folders.roots.empty();
  return request.share.empty() ? attach_to(call, std::move(pipeline), std::move(dataset), std::move(options))
                               : attach_shared(call, std::move(pipeline), std::move(dataset), options);
}

/// To a stream that makes the same and has this place, or is about to begin there; else to a new one.
Result<JobTable::Attachment> JobTable::attach_shared(AttachCall call,
                                                     std::shared_ptr<const transforms::Pipeline> pipeline,
                                                     std::shared_ptr<const Dataset> dataset,
                                                     const JobOptions& options) {
  const MutexLock one_at_a_time(sharing_);
  AttachRequest& request = call.request;
  Family family;
  {
    const MutexLock lock(mutex_);
    family = streams_like(call, *pipeline, *dataset, options);
  }
  for (const std::string& name : family.names) {
    request.job = name;
    auto attached = attach_to(call, pipeline, dataset, options);
    if (attached || attached.error().code != Code::kNotFound) return attached;
  }
  {
    const MutexLock lock(mutex_);
    request.job = free_name(jobs_, request.share);
  }
  // Nobody is waited for by one who comes late. One that seeks before the first batch waits as it did.
  request.share_jobs = family.begun ? 1 : std::max(request.share_jobs, family.waited_for);
  return attach_to(call, std::move(pipeline), std::move(dataset), options);
}

JobTable::Family JobTable::streams_like(const AttachCall& call, const transforms::Pipeline& pipeline,
                                        const Dataset& dataset, const JobOptions& options) const {
  Family family;
  for (const auto& [name, job] : jobs_) {
    if (job->share != call.request.share ||
        !job->check_same(call.request, store_key(call), pipeline, dataset))
      continue;
    const auto rank = job->ranks.find(options.rank);
    if (rank != job->ranks.end() && !makes_the_same(rank->second.options, options)) continue;
    family.names.push_back(name);
    family.begun = family.begun || (rank != job->ranks.end() && rank->second.started);
    if (rank != job->ranks.end()) family.waited_for = std::max(family.waited_for, rank->second.replicas);
  }
  return family;
}

Result<JobTable::Attachment> JobTable::attach_to(const AttachCall& call,
                                                 std::shared_ptr<const transforms::Pipeline> pipeline,
                                                 std::shared_ptr<const Dataset> dataset, JobOptions options) {
  const AttachRequest& request = call.request;
  const bool shared = !request.share.empty();
  std::vector<std::shared_ptr<LocalStream>> ended;  // closed without the lock: declared before it
  std::shared_ptr<HostJob> job;
  bool threads_auto = false;
  std::uint32_t cores = 0;
  JobOptions given;  // of what was asked for
  std::vector<std::string> bounded;
  {
    const MutexLock lock(mutex_);
    if (readers() >= limits_.readers)
      return fail(Code::kExhausted,
                  fmt::format("caryad: {} readers, the limit; raise [limits] readers", limits_.readers));
    drop_unlike(call, *pipeline, *dataset, ended);
    ASSIGN(job, find_job(call, pipeline, dataset));
    if (const auto found = job->ranks.find(options.rank); found != job->ranks.end()) {
      HostRank& rank = found->second;
      TRY(rank.check_place(request));
      const std::string differs = shared ? "" : difference(rank.options, options);
      if (differs.empty()) return take_seat(job, rank, call);
      return refuse(request.job, fmt::format("rank {} has another {}", options.rank, differs));
    }
    if (!options.remote && (!limits_.remote.workers.empty() || !limits_.remote.dns.empty() ||
                            !limits_.remote.fleet_command.empty()))
      options.remote = limits_.remote;
    threads_auto = options.threads == 0 && limits_.threads == 0;
    cores = cores_;
    if (options.threads == 0) options.threads = threads_auto ? cores_ : limits_.threads;
    if (limits_.cores != 0) options.threads = std::min(options.threads, limits_.cores);
    given = options;
    given.cache = limits_.cache.bound(options.cache, request.options.cache, bounded);
  }
  ended.clear();  // what lingered gives its memory back before more is made
  // Members that come later lend for the rank, never for who made it.
  const auto access = call.access ? call.access->apart() : nullptr;
  // Made without the lock: the kernel clears and fills hundreds of megabytes.
  Result<std::shared_ptr<LocalStream>> stream =
      LocalStream::create(job->pipeline, job->dataset, given,
                          {.readers = shared ? shm::kReadersMax : request.replicas,
                           .budget = budget_,
                           .cache_budget = cache_budget_,
                           .write_budget = write_budget_,
                           .bounded = std::move(bounded),
                           .access = access,
                           .cores = cores,
                           .workers_of_host = given.remote && !request.options.remote,
                           .job = job->number});
  const MutexLock lock(mutex_);
  if (!stream && !job->ended && job->ranks.contains(options.rank)) {  // another replica took what was left
    HostRank& rank = job->ranks.at(options.rank);
    TRY(rank.check_place(request));
    return take_seat(job, rank, call);
  }
  if (!stream) {
    if (job->ranks.empty() && !job->ended) {
      job->ended = true;
      jobs_.erase(job->name);
    }
    return std::unexpected(std::move(stream.error()));
  }
  if (job->ended)
    return fail(Code::kClosed, "job " + job->name + ": was stopped; make a new Loader from its state");
  const auto [found, fresh] = job->ranks.try_emplace(options.rank);
  HostRank& rank = found->second;
  if (fresh) {
    rank.stream = std::move(*stream);
    rank.access = access;
    rank.options = options;
    rank.threads_auto = threads_auto;
    rank.shared = shared;
    rank.replicas = shared ? request.share_jobs : request.replicas;
    rank.gathers_until_ns = monotonic_ns() + kGatherNs;
    share_memory(rank);
    rank.stream->set_workers_allowed(workers_allowed(limits_.remote));
  } else {  // another replica was faster
    TRY(rank.check_place(request));
  }
  return take_seat(job, rank, call);
}

void JobTable::end_rank(HostJob& job, std::uint64_t rank, std::vector<std::shared_ptr<LocalStream>>& ended) {
  const auto found = job.ranks.find(rank);
  if (found == job.ranks.end()) return;
  ended.push_back(std::move(found->second.stream));
  job.ranks.erase(found);
  if (!job.ranks.empty() || job.ended) return;
  job.ended = true;
  jobs_.erase(job.name);
}

HostRank* JobTable::rank_of(const Seat& seat) const {
  const auto found = seat.job->ranks.find(seat.rank);
  return found != seat.job->ranks.end() && found->second.stream == seat.stream ? &found->second : nullptr;
}

Result<JobTable::Attachment> JobTable::take_seat(const std::shared_ptr<HostJob>& job, HostRank& rank,
                                                 const AttachCall& call) {
  const AttachRequest& request = call.request;
  ASSIGN(const HostRank::Joined joined, rank.join(request, call.pid, limits_.linger_s));
  if (rank.access && call.access) rank.access->join(*call.access);
  Attachment result{.seat = {job, request.options.rank, joined.replica, joined.reader, rank.stream}};
  result.answer = {.job = job->name,
                   .dataset = job->dataset->fingerprint(),
                   .shape = rank.stream->shape(),
                   .seed = rank.stream->seed(),
                   .threads = rank.stream->threads(),
                   .slots = rank.stream->slots(),
                   .session = rank.session};
  result.answer.order = rank.options.order;
  result.answer.traced_as = rank.stream->traced_as();
  const io::ListingReport& listing = job->dataset->report();
  result.answer.skipped_count = listing.skipped_count;
  for (const std::string& name : listing.skipped_examples)
    result.answer.skipped_examples.push_back(name.substr(0, kExampleBytesMax));
  std::size_t name_bytes = 0;
  for (const std::string& name : job->dataset->class_names()) name_bytes += name.size() + 9;
  if (name_bytes <= kClassNameBytesMax) result.answer.class_names = job->dataset->class_names();
  return result;
}

Result<std::uint64_t> JobTable::seek(const Seat& seat, const SeekRequest& request) {
  const MutexLock lock(mutex_);
  HostRank* const rank = rank_of(seat);
  if (rank == nullptr) return stopped(seat);
  return rank->seek(seat.job->name, seat.rank, seat.replica, request);
}

Result<DeliveredErrors> JobTable::take_errors(const Seat& seat, std::uint64_t sequence) {
  const MutexLock lock(mutex_);
  HostRank* const rank = rank_of(seat);
  return rank != nullptr ? rank->take_errors(seat.replica, sequence) : seat.stream->take_errors(sequence);
}

Result<bool> JobTable::set_on_error(const Seat& seat, transforms::OnError policy) {
  const MutexLock lock(mutex_);
  HostRank* const rank = rank_of(seat);
  if (rank == nullptr) return stopped(seat);
  return rank->set_on_error(seat.job->name, seat.replica, policy);
}

void JobTable::leave(const Seat& seat, DetachReason how, const std::string& reason, UniqueFd process) {
  std::vector<std::shared_ptr<LocalStream>> ended;  // closed without the lock
  {
    const MutexLock lock(mutex_);
    HostRank* const rank = rank_of(seat);
    if (rank == nullptr) return;
    const auto member = rank->members.extract(seat.replica);
    if (how == DetachReason::kClosed && rank->members.empty())
      // Arrays of this reader may live on: no slot of its ring is ever written again.
      end_rank(*seat.job, seat.rank, ended);
    else
      rank->part({seat.reader, seat.replica, member ? member.mapped().pid : 0, std::move(process)}, how,
                 reason, limits_.linger_s);
  }
  for (const auto& stream : ended) stream->close();
}

SeatState JobTable::state(const Seat& seat) const {
  const MutexLock lock(mutex_);
  if (seat.job->stopped) return SeatState::kJobStopped;
  const HostRank* const rank = rank_of(seat);
  if (rank == nullptr) return SeatState::kRankEnded;
  const auto member = rank->members.find(seat.replica);
  return member != rank->members.end() && member->second.parted ? SeatState::kParted : SeatState::kLive;
}

std::string JobTable::lie(const Seat& seat) const {
  // Of one that was sent away the ring has a reason too; it may hold slots, which only a liar loses.
  return state(seat) == SeatState::kParted ? "" : seat.stream->detach_reason(seat.reader);
}

std::optional<std::int64_t> JobTable::tick(std::int64_t now_ns) {
  std::vector<std::shared_ptr<LocalStream>> ended;
  bool busy = false;
  {
    const MutexLock lock(mutex_);
    follow_cores();
    if (now_ns - shared_ns_ >= kRateNs) {
      shares_.look(jobs_, limits_.remote, cores_);
      look_after_shares(jobs_, now_ns);
      look_for_outages(jobs_, outages_, now_ns);
      shared_ns_ = now_ns;
    }
    follow_memory();
    std::vector<std::pair<std::shared_ptr<HostJob>, std::uint64_t>> over;
    for (const auto& [name, job] : jobs_) {
      for (auto& [number, rank] : job->ranks) {
        busy = true;
        rank.end_departed();
        if (rank.lingers_until_ns != 0 && now_ns >= rank.lingers_until_ns) over.emplace_back(job, number);
        if (now_ns - rank.before_ns < kRateNs) continue;
        const std::uint64_t samples = rank.stream->figures().scheduler.samples;
        if (rank.before_ns != 0)
          rank.samples_per_s = static_cast<double>(samples - rank.samples_before) * 1e9 /
                               static_cast<double>(now_ns - rank.before_ns);
        rank.samples_before = samples;
        rank.before_ns = now_ns;
      }
    }
    for (const auto& [job, number] : over) end_rank(*job, number, ended);
    std::erase_if(datasets_, [&](const auto& entry) REQUIRES(mutex_) {
      return !in_use(entry.second.dataset) &&
             now_ns - entry.second.used_ns > static_cast<std::int64_t>(limits_.linger_s * 1e9);
    });
    busy = busy || !datasets_.empty();
  }
  for (const auto& stream : ended) stream->close();
  return busy ? std::optional(kRateNs) : std::nullopt;
}

/// Those that the process may use, and the configuration gives it.
std::uint32_t JobTable::cores_now() const {
  return limits_.cores == 0 ? cores_allowed() : std::min(limits_.cores, cores_allowed());
}

/// Affinity and quota may change at any time.
void JobTable::follow_cores() {
  const std::uint32_t now = cores_now();
  if (now == cores_) return;
  bool followed = true;
  for (const auto& [name, job] : jobs_)
    for (auto& [number, rank] : job->ranks)
      followed =
          (rank.threads_auto ? rank.stream->set_threads(now) : rank.stream->set_cores(now)) && followed;
  if (followed) cores_ = now;  // else again at the next tick
}

void JobTable::follow_memory() {
  const bool changed = memory_.follow(read_memory_pressure());
  // A ring of fewer slots is not told of takes: it is looked at here.
  if (!changed && memory_.slots() == 1) return;
  for (const auto& [name, job] : jobs_)
    for (auto& [number, rank] : job->ranks) share_memory(rank);
}

void JobTable::set_limits(const JobLimits& limits) {
  const MutexLock lock(mutex_);
  limits_ = limits;
  budget_->set_limit(limits.shared_bytes);
  cache_budget_->set_limit(limits.cache.memory_bytes);
  write_budget_->set_limit(limits.cache.write_bytes_per_day);
}

void JobTable::drain() {
  const MutexLock lock(mutex_);
  draining_ = true;
}

Result<WatchIs> JobTable::watch(const std::string& name) const {
  struct Found {
    std::shared_ptr<LocalStream> stream;
    autotune::Sense sense;
  };
  std::vector<Found> found;
  std::shared_ptr<const transforms::Pipeline> pipeline;
  WatchIs watched;
  {
    const MutexLock lock(mutex_);
    const auto job = jobs_.find(name);
    if (job == jobs_.end())
      return fail(Code::kNotFound, "job " + name + ": not here; carya status lists those that are");
    pipeline = job->second->pipeline;
    for (const auto& [number, rank] : job->second->ranks) {
      if (!rank.stream) continue;
      found.push_back({rank.stream, rank.options.reorder});
      watched.ranks.push_back({.rank = number, .broken = {rank.broken.begin(), rank.broken.end()}});
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    RankWatched& one = watched.ranks[i];
    ASSIGN(const StreamStats stats, found[i].stream->stats());
    one.stats = encode(stats);
    const auto report = explain_order(*pipeline, {.orders = stats.plan_profile, .rates = stats.rates},
                                      {.sense = found[i].sense, .running = stats.indices});
    if (report) one.explanation = *report;
  }
  return watched;
}

Result<std::vector<std::uint64_t>> JobTable::traced_as(const std::string& name) const {
  const MutexLock lock(mutex_);
  const auto found = jobs_.find(name);
  if (found == jobs_.end())
    return fail(Code::kNotFound, "job " + name + ": not here; carya status lists those that are");
  std::vector<std::uint64_t> streams;
  for (const auto& [number, rank] : found->second->ranks)
    if (rank.stream) streams.push_back(rank.stream->traced_as());
  return streams;
}

Status JobTable::stop(const std::string& name) {
  std::vector<std::shared_ptr<LocalStream>> ended;
  {
    const MutexLock lock(mutex_);
    const auto found = jobs_.find(name);
    if (found == jobs_.end())
      return fail(Code::kNotFound, "job " + name + ": not here; carya status lists those that are");
    const std::shared_ptr<HostJob> job = found->second;
    for (auto& [number, rank] : job->ranks) ended.push_back(std::move(rank.stream));
    job->ranks.clear();
    job->ended = job->stopped = true;
    jobs_.erase(found);
  }
  for (const auto& stream : ended) stream->close();
  return {};
}

void JobTable::stop_all() {
  std::vector<std::string> names;
  {
    const MutexLock lock(mutex_);
    for (const auto& [name, job] : jobs_) names.push_back(name);
  }
  for (const std::string& name : names) static_cast<void>(stop(name));
}

std::uint64_t JobTable::held() const {
  const MutexLock lock(mutex_);
  std::uint64_t held = 0;
  for (const auto& [name, job] : jobs_)
    for (const auto& [number, rank] : job->ranks)
      for (const auto& [replica, member] : rank.members) held += rank.stream->held_by(member.reader);
  return held;
}

void JobTable::describe(DaemonStatus& status) const {
  const MutexLock lock(mutex_);
  status.shared_bytes = budget_->used();
  status.shared_bytes_limit = limits_.shared_bytes;
  status.cache_bytes = cache_budget_->used();
  status.cache_bytes_limit = limits_.cache.memory_bytes;
  status.cache_written_bytes = write_budget_->written(WriteBudget::Moment::now());
  if (limits_.cache.write_bytes_per_day != WriteBudget::kNoLimit)
    status.cache_write_budget = limits_.cache.write_bytes_per_day;
  describe_jobs(jobs_, status);
}

}  // namespace carya::loader
