#include "loader/daemon/job_table.h"

#include <algorithm>

#include "base/clock.h"
#include "loader/host/host.h"

namespace carya::loader {
namespace {

constexpr std::size_t kJobNameMax = 200;
std::unexpected<Error> refuse(const std::string& job, const std::string& what) {
  return fail(Code::kInvalidArgument, "job " + job + ": " + what);
}

std::vector<std::size_t> order_with_other_bits(const JobOptions& options) {
  return options.reorder > autotune::Sense::kExact ? options.order : std::vector<std::size_t>{};
}

/// Whether a stream made with `have` serves one who asks for `want`; else what differs.
std::string difference(const JobOptions& have, const JobOptions& want) {
  if (have.world_size != want.world_size) return "world_size";
  if (have.epochs != want.epochs) return "epochs";
  if (have.seed != want.seed) return "seed";
  if (have.on_error != want.on_error) return "on_error";
  if (have.prefetch_epochs != want.prefetch_epochs) return "prefetch_epochs";
  if (have.label_int32 != want.label_int32) return "dtype of labels";
  if (have.order != want.order) return "order of ops";
  return "";
}

/// Whether a job is that of who asks for it by name.
Status check_same(const HostJob& job, const AttachRequest& request, const transforms::Pipeline& pipeline,
                  const Dataset& dataset) {
  if (job.pipeline->to_json() != pipeline.to_json())
    return refuse(request.job, "is another pipeline; give this one another name with job=");
  if (job.dataset->fingerprint() != dataset.fingerprint())
    return refuse(request.job,
                  "reads another state of the dataset: it changed since the job began; "
                  "stop the job, then start all its ranks");
  if (job.world_size != request.options.world_size)
    return refuse(request.job, "has world_size " + std::to_string(job.world_size) + ", this rank says " +
                                   std::to_string(request.options.world_size));
  if (job.order != order_with_other_bits(request.options))
    return refuse(request.job,
                  "runs its ops in another order; give all its ranks the same reorder=, plan= and state=");
  return {};
}

}  // namespace

JobTable::JobTable(const JobLimits& limits)
    : limits_(limits), budget_(SharedBudget::create(limits.shared_bytes)), cores_(cores_allowed()) {}

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

Result<std::shared_ptr<const Dataset>> JobTable::open_dataset(const Arrival& arrival,
                                                              const transforms::Pipeline& pipeline,
                                                              const AllowedFolders& folders,
                                                              const std::string& cache_dir,
                                                              const io::Progress& progress) {
  const AttachRequest& request = arrival.request;
  const std::string key = cache_dir + '\0' + pipeline.source_json() + '\0' + pipeline.views_json();
  {
    const std::lock_guard lock(mutex_);
    // One that is read now is not looked at again: the ranks of a job must agree. Otherwise the manifest is
    // reopened, which checks the folders' times.
    const auto found = arrival.arrays.empty() ? datasets_.find(key) : datasets_.end();
    if (found != datasets_.end() && is_read(found->second.dataset)) {
      for (const Dataset::Field& field : found->second.dataset->fields())
        if (field.manifest) TRY(folders.check_root(field.manifest->root()));
      found->second.used_ns = monotonic_ns();
      return found->second.dataset;
    }
  }
  DatasetOptions options;
  options.listing = {.cache_dir = cache_dir, .progress = progress};
  if (!folders.roots.empty())
    options.listing.may_read = [&folders](const std::string& folder) { return folders.check_root(folder); };
  for (std::size_t i = 0; i < request.arrays.size(); ++i) {
    const ArrayFacts& facts = request.arrays[i];
    const std::span<const std::byte> bytes = arrival.arrays[i]->bytes();
    if (facts.row_bytes == 0 ? facts.rows != 0 : facts.rows > bytes.size() / facts.row_bytes)
      return fail(Code::kCorrupt, "arrays: " + facts.field + " is shorter than its rows");
    options.arrays[facts.field] = {bytes.data(), facts.row_bytes, facts.rows};
  }
  ASSIGN(auto dataset, Dataset::open(pipeline, options));
  if (arrival.arrays.empty()) {
    const std::lock_guard lock(mutex_);
    OpenDataset& listed = datasets_[key];
    if (listed.dataset && listed.dataset->fingerprint() == dataset->fingerprint()) dataset = listed.dataset;
    listed = {dataset, monotonic_ns()};
  }
  return dataset;
}

/// The job of that name, made when there is none. Under the lock.
Result<std::shared_ptr<HostJob>> JobTable::find_job(const Arrival& arrival,
                                                    std::shared_ptr<const transforms::Pipeline> pipeline,
                                                    std::shared_ptr<const Dataset> dataset) {
  const AttachRequest& request = arrival.request;
  if (const auto found = jobs_.find(request.job); found != jobs_.end()) {
    TRY(check_same(*found->second, request, *pipeline, *dataset));
    return found->second;
  }
  if (draining_)
    return fail(
        Code::kClosed,
        "caryad: is draining and takes no new jobs; wait for the next one, or give daemon=\"embedded\"");
  if (jobs_.size() >= limits_.jobs)
    return fail(Code::kExhausted, "caryad: " + std::to_string(jobs_.size()) + " jobs of at most " +
                                      std::to_string(limits_.jobs) +
                                      "; stop one (carya job stop NAME) or raise [limits] jobs");
  std::uint64_t array_bytes = 0;  // the client's memory, and kept by the job
  for (const auto& rows : arrival.arrays) array_bytes += rows->bytes().size();
  auto part = budget_->reserve(array_bytes);
  if (!part)
    return fail(Code::kExhausted,
                "arrays: " + std::to_string(array_bytes >> 20) + " MiB are more than the " +
                    std::to_string(budget_->left() >> 20) +
                    " MiB of shared memory that are left; raise [limits] shared_memory in caryad.toml, or "
                    "use the loader with daemon=\"embedded\"");
  auto job = std::make_shared<HostJob>();
  job->name = request.job;
  job->pipeline = std::move(pipeline);
  job->dataset = std::move(dataset);
  job->memory = arrival.arrays;
  job->memory_part = std::move(*part);
  job->world_size = request.options.world_size;
  job->order = order_with_other_bits(request.options);
  jobs_[job->name] = job;
  return job;
}

/// A successor that wants something else: what lingers is of no use to it. Under the lock.
void JobTable::drop_unlike(const AttachRequest& request, const transforms::Pipeline& pipeline,
                           const Dataset& dataset, std::vector<std::shared_ptr<RankStream>>& ended) {
  const auto found = jobs_.find(request.job);
  if (found == jobs_.end()) return;
  const std::shared_ptr<HostJob> job = found->second;  // it may leave the table
  const auto lingers = [](const auto& rank) { return rank.second.members.empty(); };
  if (!check_same(*job, request, pipeline, dataset) && std::ranges::all_of(job->ranks, lingers))
    while (!job->ranks.empty()) end_rank(*job, job->ranks.begin()->first, ended);
  const auto rank = job->ranks.find(request.options.rank);
  if (rank != job->ranks.end() && lingers(*rank) &&
      !difference(rank->second.options, request.options).empty())
    end_rank(*job, request.options.rank, ended);
}

Result<JobTable::Attachment> JobTable::attach(const Arrival& arrival, const io::Progress& progress) {
  const AttachRequest& request = arrival.request;
  if (request.job.empty() || request.job.size() > kJobNameMax)
    return fail(Code::kInvalidArgument, "job: got a name of " + std::to_string(request.job.size()) +
                                            " bytes; give 1 to " + std::to_string(kJobNameMax));
  if (request.replicas < 1 || request.replicas > shm::kReadersMax || request.replica >= request.replicas)
    return refuse(request.job, "got replica " + std::to_string(request.replica) + " of " +
                                   std::to_string(request.replicas) + "; give 1 to " +
                                   std::to_string(shm::kReadersMax) + " replicas, counted from 0");
  const std::span<const std::byte> text = arrival.document->bytes();
  ASSIGN(auto pipeline,
         transforms::Pipeline::parse({reinterpret_cast<const char*>(text.data()), text.size()}));
  AllowedFolders folders;
  {
    const std::lock_guard lock(mutex_);
    folders = limits_.folders;
    if (request.options.remote) TRY(folders.check_remote(*request.options.remote, limits_.remote));
  }
  ASSIGN(const std::string cache_dir, folders.cache_dir(request.cache_dir));
  ASSIGN(auto dataset, open_dataset(arrival, *pipeline, folders, cache_dir, progress));
  JobOptions options = request.options;
  options.decode_index.cache_dir = options.cache_dir = cache_dir;
  options.beneath = !folders.roots.empty();
  std::vector<std::shared_ptr<RankStream>> ended;  // closed without the lock: declared before it
  std::shared_ptr<HostJob> job;
  bool threads_auto = false;
  std::uint32_t cores = 0;
  {
    const std::lock_guard lock(mutex_);
    if (readers() >= limits_.readers)
      return fail(Code::kExhausted, "caryad: " + std::to_string(limits_.readers) +
                                        " readers, the limit; raise [limits] readers");
    drop_unlike(request, *pipeline, *dataset, ended);
    ASSIGN(job, find_job(arrival, pipeline, dataset));
    if (const auto found = job->ranks.find(options.rank); found != job->ranks.end()) {
      HostRank& rank = found->second;
      TRY(check_place(rank, request));
      const std::string differs = difference(rank.options, options);
      if (differs.empty()) return take_seat(job, rank, arrival);
      return refuse(request.job, "rank " + std::to_string(options.rank) + " has another " + differs);
    }
    if (!options.remote && (!limits_.remote.workers.empty() || !limits_.remote.dns.empty() ||
                            !limits_.remote.fleet_command.empty()))
      options.remote = limits_.remote;
    threads_auto = options.threads == 0 && limits_.threads == 0;
    cores = cores_;
    if (options.threads == 0) options.threads = threads_auto ? cores_ : limits_.threads;
  }
  ended.clear();  // what lingered gives its memory back before more is made
  // Made without the lock: the kernel clears and fills hundreds of megabytes.
  Result<std::shared_ptr<RankStream>> stream = RankStream::create(
      job->pipeline, job->dataset, options, {.readers = request.replicas, .budget = budget_, .cores = cores});
  const std::lock_guard lock(mutex_);
  if (!stream && !job->ended && job->ranks.contains(options.rank)) {  // another replica took what was left
    HostRank& rank = job->ranks.at(options.rank);
    TRY(check_place(rank, request));
    return take_seat(job, rank, arrival);
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
    rank.options = options;
    rank.threads_auto = threads_auto;
    rank.replicas = request.replicas;
    share_memory(rank);
  } else {  // another replica was faster
    TRY(check_place(rank, request));
  }
  return take_seat(job, rank, arrival);
}

void JobTable::end_rank(HostJob& job, std::uint64_t rank, std::vector<std::shared_ptr<RankStream>>& ended) {
  const auto found = job.ranks.find(rank);
  if (found == job.ranks.end()) return;
  ended.push_back(std::move(found->second.stream));
  job.ranks.erase(found);
  if (!job.ranks.empty() || job.ended) return;
  job.ended = true;
  jobs_.erase(job.name);
}

SeatState JobTable::state(const Seat& seat) const {
  const std::lock_guard lock(mutex_);
  if (seat.job->stopped) return SeatState::kJobStopped;
  return rank_of(seat) != nullptr ? SeatState::kLive : SeatState::kRankEnded;
}

std::string JobTable::lie(const Seat& seat) const {
  return seat.stream->detach_reason(seat.reader);
}

}  // namespace carya::loader
