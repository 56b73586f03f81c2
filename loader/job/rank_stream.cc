#include "loader/job/rank_stream.h"

#include <algorithm>
#include <cmath>

#include "loader/host/host.h"
#include "loader/overflow/placement_loop.h"
#include "loader/stream/executor.h"
#include "shm/memory_limit.h"

namespace carya::loader {
namespace {

constexpr std::uint32_t kAutoSlotsMax = 16;
/// Retries beyond this are for ever; in nanoseconds it still fits.
constexpr double kIoTimeoutMaxS = 1e9;
/// Of batches small enough, so many are made ahead that a reader never waits for a thread to be woken.
constexpr std::uint64_t kAutoSlotBytes = 4 << 20;

/// With workers: as many again for what is away, or as an earlier run of the stream has shown.
constexpr std::uint32_t kRemoteSlotsMax = 64;

constexpr std::ptrdiff_t kProfilesShown = 4;

std::uint32_t auto_slots(std::uint64_t batch_bytes) {
  return batch_bytes >= kAutoSlotBytes
             ? 4
             : static_cast<std::uint32_t>(std::min<std::uint64_t>(
                   kAutoSlotsMax, 4 + kAutoSlotBytes / std::max<std::uint64_t>(batch_bytes, 1)));
}

/// More of them for batches that are away at other machines; beyond twice as many at most `most`.
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
    return fail(Code::kInvalidArgument, "threads: got " + std::to_string(options.threads) + "; give 1 to " +
                                            std::to_string(kThreadsMax));
  if (!(options.io_timeout_s >= 0))
    return fail(Code::kInvalidArgument,
                "io_timeout: got " + std::to_string(options.io_timeout_s) + "; give seconds, 0 or more");
  if (options.slots == 1)
    return fail(Code::kInvalidArgument,
                "slots: got 1; give 2 or more, one to be read while another is filled");
  return {};
}

std::shared_ptr<StreamPlanner> make_planner(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                                            std::uint64_t seed, const JobOptions& options) {
  const PlanTesting& testing = options.plan_testing;
  StreamPlannerOptions planning{.seed = seed,
                                .reorder = options.reorder,
                                .fuse = options.fuse,
                                .cache_dir = options.cache_dir,
                                .frozen_order = options.order};
  if (testing.look_after_ns) planning.look_after_ns = *testing.look_after_ns;
  if (!testing.orders.empty()) planning.first_order = testing.orders.front();
  return std::make_shared<StreamPlanner>(pipeline, std::move(planning));
}

Result<std::vector<std::shared_ptr<PlanInUse>>> forced_plans(
    const std::shared_ptr<const transforms::Pipeline>& pipeline, std::uint64_t seed,
    const PlanTesting& testing) {
  std::vector<std::shared_ptr<PlanInUse>> plans;
  if (testing.every_chunks == 0) return plans;
  for (const std::vector<std::size_t>& order : testing.orders) {
    ASSIGN(auto plan, transforms::Plan::compile(pipeline, {.seed = seed, .order = order}));
    plans.push_back(std::make_shared<PlanInUse>(PlanInUse{std::move(plan), {.order = order}}));
  }
  return plans;
}

/// io_uring where it may be, but a pool of threads where another process or machine answers for the first
/// record.
io::ReadEngineOptions::Kind engine_kind(io::ReadEngineOptions::Kind asked, const Dataset& dataset) {
  using Kind = io::ReadEngineOptions::Kind;
  const bool remote = dataset.count() > 0 && io::storage_is_remote(dataset.path(0));
  return asked == Kind::kAuto && remote ? Kind::kPread : asked;
}

}  // namespace

Result<std::shared_ptr<RankStream>> RankStream::create(std::shared_ptr<const transforms::Pipeline> pipeline,
                                                       std::shared_ptr<const Dataset> dataset,
                                                       const JobOptions& options, const RankLimits& limits) {
  TRY(check_options(*pipeline, options));
  const transforms::BatchSpec& batch = *pipeline->batch();
  auto stream = std::shared_ptr<RankStream>(new RankStream());
  ASSIGN(stream->shape_,
         StreamShape::create(dataset->count(), static_cast<std::uint64_t>(batch.batch_size),
                             static_cast<std::uint64_t>(batch.global_size), options.world_size, options.rank,
                             batch.drop_last, batch.pad_last));
  stream->read_ahead_bytes_ = options.read_ahead_bytes;
  stream->seed_ = options.seed.value_or(pipeline->seed());
  stream->cores_ = limits.cores > 0 ? limits.cores : auto_threads(read_host_facts());
  stream->threads_ = options.threads > 0 ? options.threads : stream->cores_;
  stream->pipeline_ = pipeline;
  stream->planner_ = make_planner(pipeline, stream->seed_, options);
  ASSIGN(auto plan, stream->planner_->first_plan());
  ASSIGN(auto forced, forced_plans(pipeline, stream->seed_, options.plan_testing));
  TRY(stream->open_ring(*plan->plan, options, limits));
  ASSIGN(stream->engine_, Engine::shared(engine_kind(options.io_engine, *dataset), options.beneath));
  stream->index_ = DecodeIndex::open(*dataset, options.decode_index);
  std::shared_ptr<Crew> crew = options.crew;
  if (options.remote) {
    ASSIGN(stream->overflow_,
           Overflow::create(*options.remote, {pipeline, stream->seed_, stream->planner_, stream->threads_}));
    crew = stream->overflow_->crew();
  }
  stream->production_ = Production::create(
      std::move(pipeline), std::move(plan), std::move(dataset), stream->ring_, stream->engine_->pool(),
      {.shape = stream->shape_,
       .seed = stream->seed_,
       .epochs = options.epochs,
       .prefetch_epochs = options.prefetch_epochs,
       .on_error = options.on_error,
       .threads = stream->threads_,
       .read_ahead_bytes = options.read_ahead_bytes,
       .io_timeout_ns = static_cast<std::int64_t>(std::min(options.io_timeout_s, kIoTimeoutMaxS) * 1e9),
       .label_int32 = options.label_int32,
       .index = stream->index_,
       .planner = stream->planner_,
       .forced_plans = std::move(forced),
       .forced_every_chunks = options.plan_testing.every_chunks,
       .crew = std::move(crew)});
  stream->production_->seek(options.epoch, options.position);
  return stream;
}

Status RankStream::open_ring(const transforms::Plan& plan, const JobOptions& options,
                             const RankLimits& limits) {
  ASSIGN(const shm::SlotLayout layout, make_layout(plan, shape_.rank_rows_max(), options.label_int32));
  std::uint32_t slots = options.slots > 0 ? options.slots : auto_slots(layout.slot_bytes());
  if (options.remote && options.slots == 0)
    slots = remote_slots(
        slots, planner_->earlier_samples_away() / static_cast<double>(shape_.rank_rows_max()),
        std::min(limits.budget ? limits.budget->left() : UINT64_MAX, shm::available_slot_bytes() / 4) /
            layout.slot_bytes());
  if (limits.budget) {
    auto part = limits.budget->reserve(slots * layout.slot_bytes());
    if (!part)
      return fail(
          Code::kExhausted,
          "slots: " + std::to_string(slots) + " of " + std::to_string(layout.slot_bytes() >> 20) +
              " MiB are more than the " + std::to_string(limits.budget->left() >> 20) +
              " MiB of shared memory that are left; give fewer slots= or a smaller batch, or raise [limits] "
              "shared_memory in caryad.toml");
    ring_part_ = std::move(*part);
  }
  // Readers that share slots may not write what another one reads. One of them that left can hold some for
  // long: its place is taken when it comes again.
  const bool shared = limits.readers > 1;
  const std::uint32_t readers = shared ? std::min(2 * limits.readers, shm::kReadersMax) : 1;
  ASSIGN(ring_,
         shm::SlotRing::create(layout, {.slots = slots, .readers = readers, .readers_may_write = !shared}));
  return {};
}

RankStream::~RankStream() {
  if (forked()) {  // everything belongs to the parent, locks may be held by threads that are not here
    static_cast<void>(new auto(std::move(engine_)));
    static_cast<void>(new auto(std::move(production_)));
    static_cast<void>(new auto(std::move(index_)));
    static_cast<void>(new auto(std::move(planner_)));
    static_cast<void>(new auto(std::move(ring_)));
    static_cast<void>(overflow_.release());
    return;
  }
  close();
}

Status RankStream::start() {
  CHECK(!started_);
  TRY(engine_->add(production_, cores_));
  started_ = true;
  return overflow_ ? overflow_->start(*engine_, *production_, threads_) : Status();
}

/// Something has changed. Under the engine's lock.
void RankStream::pump() {
  if (started_ && !closed_) engine_->pump(*production_);
}

std::uint64_t RankStream::session() const {
  const std::lock_guard lock(engine_->mutex());
  return production_->session();
}

void RankStream::pause() {
  const std::lock_guard lock(engine_->mutex());
  production_->pause();
}

std::uint64_t RankStream::place(std::uint64_t epoch, std::uint64_t position) {
  const std::lock_guard lock(engine_->mutex());
  ring_->stop_keeping();
  production_->seek(epoch, position);
  production_->pause();
  return production_->session();
}

void RankStream::resume() {
  const std::lock_guard lock(engine_->mutex());
  ring_->stop_keeping();
  production_->resume();
  pump();
}

void RankStream::set_memory_share(double read_ahead, double slots) {
  const auto part = [](std::uint64_t all, double share) {
    return static_cast<std::uint64_t>(static_cast<double>(all) * share);
  };
  const std::lock_guard lock(engine_->mutex());
  production_->set_read_ahead(part(read_ahead_bytes_, read_ahead));
  ring_->set_limit(static_cast<std::uint32_t>(part(ring_->slots(), slots)));
  pump();
}

Status RankStream::set_threads(std::uint32_t threads) {
  {
    const std::lock_guard lock(engine_->mutex());
    try {
      production_->set_threads(threads);
    } catch (const std::bad_alloc&) {
      return fail(Code::kExhausted, "loader: no memory for more threads; give fewer threads=");
    }
  }
  TRY(engine_->set_cores(threads));
  threads_ = threads;
  {
    const std::lock_guard lock(engine_->mutex());
    pump();
  }
  if (overflow_) overflow_->set_cores(std::min(threads, share_.load()));
  return {};
}

autotune::Claim RankStream::claim() const {
  if (overflow_)
    if (auto claim = overflow_->claim()) return *claim;
  const std::lock_guard lock(engine_->mutex());
  return {.facts = production_->facts(), .prices = {}, .goal = {.workers_max = 0}};
}

std::uint32_t RankStream::workers_of(const RemoteOptions& host) const {
  return overflow_ ? overflow_->workers_of(host) : 0;
}

void RankStream::set_share(std::uint32_t threads, std::uint32_t workers) {
  const std::uint32_t before = std::min(threads_.load(), share_.exchange(threads));
  {
    const std::lock_guard lock(engine_->mutex());
    production_->set_share(threads);
    pump();
  }
  const std::uint32_t now = std::min(threads_.load(), threads);
  if (overflow_ && now != before) overflow_->set_cores(now);
  if (overflow_) overflow_->set_workers_share(workers > 0 ? workers : UINT32_MAX);
}

Result<std::uint64_t> RankStream::seek(std::uint64_t epoch, std::uint64_t position) {
  const std::lock_guard lock(engine_->mutex());
  production_->seek(epoch, position);
  engine_->pump(*production_);
  return production_->session();
}

Result<bool> RankStream::set_on_error(transforms::OnError policy) {
  const std::lock_guard lock(engine_->mutex());
  if (production_->options().on_error == policy) return false;
  production_->set_on_error(policy);
  return true;
}

Result<Found> RankStream::take_found(std::uint64_t sequence) {
  const std::lock_guard lock(engine_->mutex());
  Found found{.failure = production_->failure};
  auto& published = production_->published_quarantine();
  const auto end = published.upper_bound(sequence);
  for (auto entry = published.begin(); entry != end; ++entry)
    std::ranges::move(entry->second, std::back_inserter(found.quarantine));
  published.erase(published.begin(), end);
  return found;
}

Result<ProducerStats> RankStream::stats() const {
  ProducerStats stats = figures();
  stats.decode_index = index_->stats();  // reads files: not under the engine's lock
  stats.plan_lines = planner_->lines();
  stats.pressure = read_local_pressure();
  stats.placement = placement();
  PlanProfile profile = planner_->profile(measured());
  stats.rates = profile.rates;
  stats.plan_profile = std::move(profile.orders);
  if (std::ssize(stats.plan_profile) > kProfilesShown)  // a message has little room
    stats.plan_profile.erase(stats.plan_profile.begin(), stats.plan_profile.end() - kProfilesShown);
  return stats;
}

std::string RankStream::placement() const {
  return overflow_ ? overflow_->report() : std::string();
}

PlanProfile RankStream::measured() const {
  const std::lock_guard lock(engine_->mutex());
  return production_->measured();
}

std::vector<std::string> RankStream::order_names(const std::vector<std::size_t>& order) const {
  std::vector<std::string> names;
  for (const std::size_t op : order) names.push_back(pipeline_->ops()[op]->name());
  return names;
}

ProducerStats RankStream::figures() const {
  ProducerStats stats;
  const std::lock_guard lock(engine_->mutex());
  stats.indices = production_->order();
  stats.order = order_names(stats.indices);
  stats.production = production_->stats();
  stats.ring = ring_->stats();
  stats.io_engine = io_name();
  stats.threads = threads_;
  stats.slots = ring_->slots();
  return stats;
}

void RankStream::close() {
  if (!engine_ || !production_ || closed_.exchange(true)) return;
  if (overflow_) overflow_->end();
  if (started_) engine_->remove(production_);
  if (production_->crew()) production_->crew()->end();
  index_->close();
  try {
    planner_->close(measured());
  } catch (const std::bad_alloc&) {  // then the next stream knows less
  }
}

Result<std::uint32_t> RankStream::attach_reader(std::uint64_t from_sequence) {
  const std::lock_guard lock(engine_->mutex());
  return ring_->attach_reader(from_sequence);
}

std::optional<std::uint64_t> RankStream::sequence_at(std::uint64_t epoch, std::uint64_t position) const {
  const std::lock_guard lock(engine_->mutex());
  return production_->sequence_at(epoch, position);
}

void RankStream::retire_reader(std::uint32_t reader, const std::string& reason) {
  const std::lock_guard lock(engine_->mutex());
  ring_->retire_reader(reader, reason);
  pump();
}

void RankStream::linger(std::uint32_t reader, const std::string& reason) {
  const std::lock_guard lock(engine_->mutex());
  ring_->keep_untaken(reader);
  ring_->detach_reader(reader, reason);
  production_->pause();
  pump();
}

void RankStream::take_up(std::uint64_t from_sequence) {
  const std::lock_guard lock(engine_->mutex());
  ring_->drop_kept(from_sequence);
  production_->forget_found(from_sequence);
  production_->resume();
  pump();
}

bool RankStream::is_done(std::uint32_t reader) {
  const std::lock_guard lock(engine_->mutex());
  if (ring_->collect() > 0) pump();
  return ring_->held_by(reader) == 0;
}

shm::SlotRing::ReaderFds RankStream::reader_fds(std::uint32_t reader) const {
  const std::lock_guard lock(engine_->mutex());
  return ring_->reader_fds(reader);
}

void RankStream::detach_reader(std::uint32_t reader, const std::string& reason) {
  const std::lock_guard lock(engine_->mutex());
  ring_->detach_reader(reader, reason);
  pump();
}

std::string RankStream::detach_reason(std::uint32_t reader) const {
  const std::lock_guard lock(engine_->mutex());
  return ring_->detach_reason(reader);
}

std::uint32_t RankStream::held_by(std::uint32_t reader) const {
  const std::lock_guard lock(engine_->mutex());
  return ring_->held_by(reader);
}

std::uint64_t RankStream::waited_ns(std::uint32_t reader) const {
  const std::lock_guard lock(engine_->mutex());
  return ring_->waited_ns(reader);
}

}  // namespace carya::loader
