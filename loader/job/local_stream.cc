#include "loader/job/local_stream.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "autotune/sharing/chunking.h"
#include "base/clock.h"
#include "io/files/source_folder.h"
#include "io/http/store_access.h"
#include "io/read/remote_storage.h"
#include "loader/host/crash_notes.h"
#include "loader/host/host.h"
#include "loader/host/leak.h"
#include "loader/overflow/placement_loop.h"
#include "loader/plan/order_choice.h"
#include "loader/read/cached_reads.h"
#include "shm/memory_limit.h"

namespace carya::loader {
namespace {

constexpr std::uint32_t kAutoSlotsMax = 16;
/// A longer time-out means for ever. In nanoseconds this one still fits 64 bits.
constexpr double kIoTimeoutMaxS = 1e9;
/// The target bytes of ready batches when batches are small, so that a reader never waits for a thread to wake.
constexpr std::uint64_t kAutoSlotBytes = 4 << 20;

/// Slots beyond the usual take one of so many parts of the room, since other ranks and jobs come later.
constexpr std::uint64_t kRoomParts = 8;
/// The most slots for batches whose chunks are away with workers.
constexpr std::uint32_t kRemoteSlotsMax = 64;

constexpr std::ptrdiff_t kProfilesShown = 4;
constexpr double kSecondsPerHour = 3600;
/// A host for which nobody pays: what stores charge weighs most, but other costs still count.
constexpr double kHostPerHourMin = 0.01;

/// At least 4; more where batches are small, or where `wanted` says so and `room_bytes` allows it.
std::uint32_t auto_slots(std::uint64_t batch_bytes, std::uint64_t wanted, std::uint64_t room_bytes) {
  batch_bytes = std::max<std::uint64_t>(batch_bytes, 1);
  const std::uint64_t small = batch_bytes >= kAutoSlotBytes ? 4 : 4 + kAutoSlotBytes / batch_bytes;
  const std::uint64_t slots = std::max(small, std::min(wanted, room_bytes / batch_bytes));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(slots, kAutoSlotsMax));
}

/// The bytes that the options ask for, with the memory that is free now; 0 where nobody knows how much that is.
std::uint64_t capacity_of(const CacheOptions& options) {
  if (options.bytes > 0) return options.bytes;
  const std::uint64_t available = shm::available_memory_bytes();
  if (available == UINT64_MAX) return 0;  // a share of what nobody knows
  // Ranks in processes of their own keep apart.
  const double processes = std::max(1U, read_host_info().local_processes);
  return static_cast<std::uint64_t>(options.share * static_cast<double>(available) / processes);
}

/// The slots of a stream with workers: `slots` and as many as are away, at least `slots` again. Beyond twice `slots`
/// the number is at most `most`.
std::uint32_t remote_slots(std::uint32_t slots, double batches_away, std::uint64_t most) {
  const double away = std::clamp<double>(std::ceil(batches_away), slots, kRemoteSlotsMax);
  const auto wanted = slots + static_cast<std::uint64_t>(away);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(most, 2ULL * slots, wanted));
}

Result<shm::SlotLayout> make_layout(const transforms::Plan& plan, std::uint64_t rows, bool label_int32) {
  std::vector<shm::SlotTensor> tensors;
  for (const transforms::TensorSpec& spec : plan.outputs()) {
    shm::SlotTensor tensor{.name = spec.name, .dtype = spec.dtype, .shape = {rows}};
    if (label_int32 && spec.name == "label" && spec.dtype == DType::kInt64) tensor.dtype = DType::kInt32;
    for (const std::int64_t size : spec.shape) tensor.shape.push_back(static_cast<std::uint64_t>(size));
    tensors.push_back(std::move(tensor));
  }
  tensors.push_back({.name = "carya.records", .dtype = DType::kInt64, .shape = {rows}});
  tensors.push_back({.name = "carya.valid", .dtype = DType::kBool, .shape = {rows}});
  return shm::SlotLayout::create(std::move(tensors));
}

Status check_options(const transforms::Pipeline& pipeline, const JobOptions& options) {
  if (!pipeline.batch())
    return fail(Code::kInvalidArgument, "loader: the pipeline has no batch; end it with .batch(n)");
  if (options.threads > kThreadsMax)
    return fail(Code::kInvalidArgument,
                fmt::format("threads: got {}; give 1 to {}", options.threads, kThreadsMax));
  if (!(options.weight >= kWeightMin && options.weight <= kWeightMax))
    return fail(Code::kInvalidArgument,
                fmt::format("weight: got {}; give {} to {}", options.weight, kWeightMin, kWeightMax));
  if (options.node < kNoNode || options.node > kNodeMax)
    return fail(Code::kInvalidArgument, fmt::format("node: got {}; give that of a device, 0 to {}, or {}",
                                                    options.node, kNodeMax, kNoNode));
  if (!(options.io_timeout_s >= 0))
    return fail(Code::kInvalidArgument,
                fmt::format("io_timeout: got {}; give seconds, 0 or more", options.io_timeout_s));
  if (options.slots == 1)
    return fail(Code::kInvalidArgument,
                "slots: got 1; give 2 or more, one to be read while another is filled");
  return {};
}

/// The engine for a dataset: a pool of threads if another process or machine answers for the first record, else as
/// asked.
io::ReadEngineOptions::Kind engine_kind(io::ReadEngineOptions::Kind asked, const Dataset& dataset) {
  using Kind = io::ReadEngineOptions::Kind;
  const bool remote = dataset.count() > 0 && io::storage_is_remote(dataset.path(0));
  return asked == Kind::kAuto && remote ? Kind::kPread : asked;
}

std::vector<std::shared_ptr<const io::Manifest>> manifests_of(const Dataset& dataset) {
  std::vector<std::shared_ptr<const io::Manifest>> manifests;
  for (const Dataset::Field& field : dataset.fields())
    if (field.kind == transforms::SourceField::Kind::kEncoded) manifests.push_back(field.manifest);
  return manifests;
}

/// What the options ask for, with a folder for each tier of files.
Result<CacheOptions> with_folders(const JobOptions& options) {
  CacheOptions cache = options.cache;
  if (cache.disk.bytes > 0 && cache.disk.path.empty() && !options.cache_dir.empty())
    cache.disk.path = options.cache_dir + "/samples";
  for (const auto& [tier, folder] : {std::pair{"disk", &cache.disk}, std::pair{"shared", &cache.shared}})
    if (folder->bytes > 0 && folder->path.empty())
      return fail(Code::kInvalidArgument,
                  fmt::format("cache: \"{}\": got a size alone, and there is no folder for it; give a folder "
                              "and a size, or name the folder in [cache] of caryad.toml",
                              tier));
  return cache;
}

}  // namespace

StreamPlannerOptions planner_options(const JobOptions& options, std::uint64_t seed) {
  return {.seed = seed,
          .reorder = options.reorder,
          .fuse = options.fuse,
          .cache_dir = options.cache_dir,
          .frozen_order = options.order};
}

Result<std::shared_ptr<LocalStream>> LocalStream::create(std::shared_ptr<const transforms::Pipeline> pipeline,
                                                         std::shared_ptr<const Dataset> dataset,
                                                         const JobOptions& options, const RankLimits& limits,
                                                         GivenParts given) {
  TRY(check_options(*pipeline, options));
  const transforms::BatchSpec& batch = *pipeline->batch();
  auto stream = std::shared_ptr<LocalStream>(new LocalStream());
  ASSIGN(stream->shape_,
         StreamShape::create(dataset->positions(), static_cast<std::uint64_t>(batch.batch_size),
                             static_cast<std::uint64_t>(batch.global_size), options.world_size, options.rank,
                             batch.drop_last, batch.pad_last));
  stream->turn_ = {.job = limits.job, .weight = options.weight};
  stream->read_ahead_bytes_ = options.read_ahead_bytes;
  stream->seed_ = options.seed.value_or(pipeline->seed());
  stream->cores_ = limits.cores > 0 ? limits.cores : auto_threads(read_host_info());
  stream->threads_ = options.threads > 0 ? options.threads : stream->cores_;
  stream->pipeline_ = pipeline;
  stream->planner_ = given.planner
                         ? std::move(given.planner)
                         : std::make_shared<StreamPlanner>(pipeline, planner_options(options, stream->seed_));
  ASSIGN(auto plan, stream->planner_->first_plan());
  TRY(stream->open_ring(*plan->plan, options, limits));
  ASSIGN(stream->engine_, Engine::shared(engine_kind(options.io_engine, *dataset), options.beneath));
  stream->index_ = DecodeIndex::open(*dataset, options.decode_index);
  if (!given.executor && !options.remote)
    stream->cached_reads_ =
        CachedReads::create(manifests_of(*dataset), options.beneath ? io::beneath_flags() : 0);
  stream->stores_ = StoreSources::create(dataset, options.world_size, options.store_prices, limits.access);
  if (!given.executor) TRY(stream->open_cache(dataset, options, limits, *plan));
  std::shared_ptr<Executor> executor = std::move(given.executor);
  if (options.remote) {
    ASSIGN(stream->placement_,
           PlacementLoop::create(*options.remote, {.pipeline = pipeline,
                                                   .seed = stream->seed_,
                                                   .planner = stream->planner_,
                                                   .threads = stream->threads_,
                                                   .workers_of_host = limits.workers_of_host}));
    stream->placement_->set_weight(options.weight);
    executor = stream->placement_->executor();
  }
  stream->scheduler_ = StreamScheduler::create(
      {.pipeline = std::move(pipeline),
       .dataset = std::move(dataset),
       .ring = stream->ring_,
       .index = stream->index_,
       .planner = stream->planner_,
       .executor = std::move(executor),
       .cached_reads = stream->cached_reads_,
       .plan_chooser = std::move(given.plan_chooser),
       .cache = stream->cache_,
       .stores = stream->stores_,
       .work = WorkFor::current()},
      std::move(plan), stream->engine_->pool(),
      {.shape = stream->shape_,
       .seed = stream->seed_,
       .epochs = options.epochs,
       .prefetch_epochs = options.prefetch_epochs,
       .on_error = options.on_error,
       .threads = stream->threads_,
       .read_ahead_bytes = options.read_ahead_bytes,
       .io_timeout_ns = static_cast<std::int64_t>(std::min(options.io_timeout_s, kIoTimeoutMaxS) * 1e9),
       .label_int32 = options.label_int32,
       .node = options.node});
  stream->scheduler_->seek(options.epoch, options.position);
  return stream;
}

Status LocalStream::open_cache(const std::shared_ptr<const Dataset>& dataset, const JobOptions& options,
                               const RankLimits& limits, const PlanInUse& plan) {
  if (options.cache.mode == CacheOptions::Mode::kOff) return {};
  ASSIGN(const CacheOptions cache, with_folders(options));
  const StreamCacheOptions asked{
      .cache = cache,
      .dataset = dataset,
      .capacity_bytes = capacity_of(options.cache),
      .identities = options.cache.has_files()
                        ? std::make_shared<const RecordIdentities>(dataset, limits.access)
                        : nullptr,
      .budget = limits.cache_budget,
      .write_budget = cache.has_files() && cache.write_bytes_per_day > 0
                          ? WriteBudget::of_job(limits.job, cache.write_bytes_per_day, limits.write_budget)
                          : limits.write_budget,
      .bounded = limits.bounded,
      .seed = seed_,
      .fuse = options.fuse,
      .records = std::max<std::uint64_t>(1, dataset->kept_count()),
      // In a daemon the ranks of a host share what they keep.
      .ranks = pipeline_->shuffled() && !limits.cache_budget ? options.world_size : 1,
      .epochs = options.epochs,
      .epoch = options.epoch,
      .record_bytes = std::max(1.0, mean_record_bytes(*dataset)),
      .stores = stores_ ? stores_->figures() : std::vector<StoreFigures>(),
      .threads = static_cast<double>(threads_),
      .core_price = std::max(options.host_per_hour, kHostPerHourMin) / (kSecondsPerHour * threads_),
  };
  ASSIGN(cache_,
         StreamCache::create(pipeline_, asked,
                             plan.profile.order.empty() ? declared_order(*pipeline_) : plan.profile.order,
                             planner_->profile({})));
  return {};
}

Status LocalStream::open_ring(const transforms::Plan& plan, const JobOptions& options,
                              const RankLimits& limits) {
  ASSIGN(const shm::SlotLayout layout, make_layout(plan, shape_.rank_rows_max(), options.label_int32));
  const std::uint64_t room =
      std::min(limits.budget ? limits.budget->left() : UINT64_MAX, shm::available_slot_bytes() / 4);
  std::uint32_t slots = options.slots > 0 ? options.slots
                                          : auto_slots(layout.slot_bytes(),
                                                       autotune::slots_for(threads_, shape_.rank_rows_max()),
                                                       room / kRoomParts);
  if (options.remote && options.slots == 0)
    slots =
        remote_slots(slots, planner_->earlier_samples_away() / static_cast<double>(shape_.rank_rows_max()),
                     room / layout.slot_bytes());
  if (limits.budget) {
    auto part = limits.budget->reserve(slots * layout.slot_bytes());
    if (!part)
      return fail(
          Code::kExhausted,
          fmt::format(
              "slots: {} of {} MiB are more than the {} MiB of shared memory that are left; give fewer "
              "slots= or a smaller batch, or raise [limits] shared_memory in caryad.toml",
              slots, layout.slot_bytes() >> 20, limits.budget->left() >> 20));
    ring_part_ = std::move(*part);
  }
  // Readers that share slots may not write what another one reads. A reader that left can hold slots for long, so there
  // is a second place for each reader, which it takes when it comes again.
  const bool shared = limits.readers > 1;
  const std::uint32_t readers = shared ? std::min(2 * limits.readers, shm::kReadersMax) : 1;
  const MemoryOfNode memory(options.node);
  node_ = memory.works() ? options.node : kNoNode;
  ASSIGN(ring_,
         shm::SlotRing::create(layout, {.slots = slots, .readers = readers, .readers_may_write = !shared}));
  return {};
}

LocalStream::~LocalStream() {
  if (forked()) {  // everything belongs to the parent, and threads that are not here may hold the locks
    leak(std::move(engine_));
    leak(std::move(scheduler_));
    leak(std::move(index_));
    leak(std::move(planner_));
    leak(std::move(cache_));
    leak(std::move(cached_reads_));
    leak(std::move(ring_));
    static_cast<void>(placement_.release());
    return;
  }
  close();
}

Status LocalStream::start() {
  CHECK(!started_);
  TRY(engine_->add(scheduler_, cores_, turn_));
  started_ = true;
  return placement_ ? placement_->start(*this, threads_) : Status();
}

/// Begin what may be begun, since something has changed. Requires the engine's lock.
void LocalStream::pump() {
  if (started_ && !closed_) engine_->pump(*scheduler_);
}

void LocalStream::collect() {
  if (ring_->collect() > 0) pump();
}

std::uint64_t LocalStream::session() const {
  return engine_->locked([&] { return scheduler_->sequencer().session(); });
}

void LocalStream::pause() {
  engine_->locked([&] { scheduler_->sequencer().pause(); });
}

std::uint64_t LocalStream::place(std::uint64_t epoch, std::uint64_t position) {
  return engine_->locked([&] {
    ring_->stop_keeping();
    scheduler_->seek(epoch, position);
    scheduler_->sequencer().pause();
    return scheduler_->sequencer().session();
  });
}

void LocalStream::resume() {
  engine_->locked([&] {
    ring_->stop_keeping();
    scheduler_->sequencer().resume();
    pump();
  });
}

void LocalStream::set_memory_share(double read_ahead, double slots) {
  const auto part = [](std::uint64_t all, double share) {
    return static_cast<std::uint64_t>(static_cast<double>(all) * share);
  };
  engine_->locked([&] {
    scheduler_->read_ahead().set_budget(part(read_ahead_bytes_, read_ahead));
    ring_->set_limit(static_cast<std::uint32_t>(part(ring_->slots(), slots)));
    pump();
  });
}

Status LocalStream::set_threads(std::uint32_t threads) {
  const bool has_memory = engine_->locked([&] {
    try {
      scheduler_->parallelism().set_threads(threads);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  });
  if (!has_memory) return fail(Code::kExhausted, "loader: no memory for more threads; give fewer threads=");
  TRY(engine_->set_cores(threads));
  threads_ = threads;
  engine_->locked([&] { pump(); });
  if (placement_) placement_->set_cores(std::min(threads, share_.load()));
  return {};
}

autotune::Claim LocalStream::claim() const {
  if (placement_)
    if (auto claim = placement_->claim()) return *claim;
  return engine_->locked([&]() -> autotune::Claim {
    return {.facts = scheduler_->parallelism().facts(), .prices = {}, .goal = {.workers_max = 0}};
  });
}

std::uint32_t LocalStream::workers_of(const RemoteOptions& host) const {
  return placement_ ? placement_->workers_of(host) : 0;
}

void LocalStream::set_share(std::uint32_t threads, std::uint32_t workers) {
  const std::uint32_t before = std::min(threads_.load(), share_.exchange(threads));
  engine_->locked([&] {
    scheduler_->parallelism().set_share(threads);
    pump();
  });
  const std::uint32_t now = std::min(threads_.load(), threads);
  if (placement_ && now != before) placement_->set_cores(now);
  if (placement_) placement_->set_workers_share(workers > 0 ? workers : UINT32_MAX);
}

void LocalStream::set_workers_allowed(std::uint32_t workers) {
  if (placement_) placement_->set_workers_allowed(workers);
}

void LocalStream::set_worker_weight(double weight) {
  if (placement_) placement_->set_weight(weight);
}

StreamSnapshot LocalStream::observe() const {
  return engine_->locked([&]() -> StreamSnapshot {
    const Parallelism& parallelism = scheduler_->parallelism();
    return {.compute = parallelism.stats(),
            .reads = scheduler_->read_ahead().stats(monotonic_ns()),
            .totals = parallelism.totals(),
            .taken_at_ns = parallelism.taken_at_ns(),
            .samples_left = scheduler_->sequencer().samples_left(),
            .order = scheduler_->plans().present()->profile.order,
            .profile = loader::measured(*scheduler_)};
  });
}

void LocalStream::set_parallelism(std::optional<std::uint32_t> threads, std::uint32_t remote_threads) {
  engine_->locked([&] {
    if (threads) scheduler_->parallelism().set_threads(*threads);
    scheduler_->parallelism().set_remote_threads(remote_threads);
    pump();
  });
}

const Dataset& LocalStream::dataset() const {
  return *scheduler_->parts().dataset;
}

Result<std::uint64_t> LocalStream::seek(std::uint64_t epoch, std::uint64_t position) {
  return engine_->locked([&] {
    scheduler_->seek(epoch, position);
    engine_->pump(*scheduler_);
    return scheduler_->sequencer().session();
  });
}

Result<bool> LocalStream::set_on_error(transforms::OnError policy) {
  return engine_->locked([&] { return scheduler_->set_on_error(policy); });
}

Result<DeliveredErrors> LocalStream::take_errors(std::uint64_t sequence) {
  return errors(0, sequence, sequence);
}

DeliveredErrors LocalStream::errors(std::uint64_t behind, std::uint64_t up_to, std::uint64_t forget) {
  return engine_->locked([&]() -> DeliveredErrors {
    Sequencer& sequencer = scheduler_->sequencer();
    DeliveredErrors found{.quarantine = sequencer.entries(behind, up_to), .failure = sequencer.failure()};
    sequencer.forget_before(forget + 1);
    return found;
  });
}

Result<StreamStats> LocalStream::stats() const {
  StreamStats stats = figures();
  stats.decode_index = index_->stats();  // it reads files, so it is called without the engine's lock
  stats.plan_lines = planner_->lines();
  stats.pressure = read_local_pressure();
  std::vector<std::span<const std::byte>> memory;
  for (std::uint32_t slot = 0; slot < ring_->slots(); ++slot)
    memory.emplace_back(ring_->data(slot), ring_->layout().slot_bytes());
  stats.slots_nodes = node_shares(memory);
  stats.placement = placement();
  stats.cache = cache();
  PlanProfile profile = planner_->profile(measured());
  stats.rates = profile.rates;
  stats.plan_profile = std::move(profile.orders);
  if (std::ssize(stats.plan_profile) > kProfilesShown)  // a message has little room
    stats.plan_profile.erase(stats.plan_profile.begin(), stats.plan_profile.end() - kProfilesShown);
  return stats;
}

std::string LocalStream::cache() const {
  return cache_ ? cache_->report() : std::string();
}

std::vector<remote::WorkerStats> LocalStream::workers() const {
  return placement_ ? placement_->executor()->figures() : std::vector<remote::WorkerStats>{};
}

std::string LocalStream::placement() const {
  return placement_ ? to_json(placement_->report()) : std::string();
}

PlanProfile LocalStream::measured() const {
  return engine_->locked([&] { return loader::measured(*scheduler_); });
}

std::vector<std::string> LocalStream::order_names(const std::vector<std::size_t>& order) const {
  std::vector<std::string> names;
  for (const std::size_t op : order) names.push_back(pipeline_->ops()[op]->name());
  return names;
}

StreamStats LocalStream::figures() const {
  return engine_->locked([&] {
    StreamStats stats;
    stats.indices = scheduler_->plans().present()->profile.order;
    stats.order = order_names(stats.indices);
    stats.scheduler = scheduler_->stats();
    stats.ring = ring_->stats();
    stats.io_engine = io_name();
    stats.threads = threads_;
    stats.slots = ring_->slots();
    stats.slots_node = node_;
    return stats;
  });
}

void LocalStream::close() {
  if (!engine_ || !scheduler_ || closed_.exchange(true)) return;
  if (placement_) placement_->end();
  if (started_) engine_->remove(scheduler_);
  if (const auto& executor = scheduler_->parts().executor) executor->end();
  if (cached_reads_) cached_reads_->close();  // no thread computes any more
  index_->close();
  try {
    if (cache_) planner_->note_storages(cache_->storages());
    planner_->close(measured());
  } catch (const std::bad_alloc&) {  // then the next stream knows less
  }
  if (cache_) cache_->close();
}

Result<std::uint32_t> LocalStream::attach_reader(std::uint64_t from_sequence) {
  return engine_->locked([&] { return ring_->attach_reader(from_sequence); });
}

std::optional<std::uint64_t> LocalStream::sequence_at(std::uint64_t epoch, std::uint64_t position) const {
  return engine_->locked([&] { return scheduler_->sequencer().sequence_at(epoch, position); });
}

void LocalStream::retire_reader(std::uint32_t reader, const std::string& reason) {
  engine_->locked([&] {
    ring_->retire_reader(reader, reason);
    pump();
  });
}

void LocalStream::linger(std::uint32_t reader, const std::string& reason) {
  engine_->locked([&] {
    ring_->keep_untaken(reader);
    ring_->detach_reader(reader, reason);
    scheduler_->sequencer().pause();
    pump();
  });
}

void LocalStream::take_up(std::uint64_t from_sequence) {
  engine_->locked([&] {
    ring_->drop_kept(from_sequence);
    scheduler_->sequencer().forget_before(from_sequence);
    scheduler_->sequencer().resume();
    pump();
  });
}

bool LocalStream::is_done(std::uint32_t reader) {
  return engine_->locked([&] {
    collect();
    return ring_->held_by(reader) == 0;
  });
}

shm::SlotRing::ReaderFds LocalStream::reader_fds(std::uint32_t reader) const {
  return engine_->locked([&] { return ring_->reader_fds(reader); });
}

void LocalStream::detach_reader(std::uint32_t reader, const std::string& reason) {
  engine_->locked([&] {
    ring_->detach_reader(reader, reason);
    pump();
  });
}

std::string LocalStream::detach_reason(std::uint32_t reader) const {
  return engine_->locked([&] { return ring_->detach_reason(reader); });
}

std::uint32_t LocalStream::owed_by(std::uint32_t reader) {
  return engine_->locked([&] {
    collect();
    return ring_->owed_by(reader);
  });
}

std::uint32_t LocalStream::held_by_retired() {
  return engine_->locked([&] {
    collect();
    return ring_->held_by_retired();
  });
}

std::uint32_t LocalStream::held_by(std::uint32_t reader) const {
  return engine_->locked([&] { return ring_->held_by(reader); });
}

std::uint64_t LocalStream::waited_ns(std::uint32_t reader) const {
  return engine_->locked([&] { return ring_->waited_ns(reader); });
}

}  // namespace carya::loader
