#include "loader/engine/engine.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "io/files/source_folder.h"
#include "io/http/http_engine.h"
#include "loader/engine/engine_thread.h"
#include "loader/engine/thread_clock.h"
#include "loader/host/crash_notes.h"
#include "loader/host/leak.h"
#include "loader/stream/executor.h"

namespace carya::loader {
namespace {

constexpr std::int64_t kKeepEveryNs = 1'000'000'000;
constexpr std::int64_t kLookAgainNs = 100'000'000;
constexpr std::int64_t kRemoteLookNs = 20'000'000;
/// The last user of an engine waits at most this long for the reads under way.
constexpr std::int64_t kFarewellNs = 1'000'000'000;

}  // namespace

/// The engine's lock guards `stream` and `helpers`.
class Engine::Spare final : public SpareCores {
 public:
  explicit Spare(Engine& engine) : engine_(engine) {}
  bool take() override { return engine_.lend(*this); }
  bool keep() override { return engine_.may_keep(); }
  void give() override { engine_.take_back(*this); }

  StreamScheduler* stream = nullptr;  ///< whose chunk the thread computes
  std::uint32_t helpers = 0;

 private:
  Engine& engine_;
};

Result<std::shared_ptr<Engine>> Engine::shared(io::ReadEngineOptions::Kind kind, bool beneath) {
  static Mutex mutex;
  static std::array<std::weak_ptr<Engine>, 6> engines;
  const MutexLock lock(mutex);
  std::weak_ptr<Engine>& known = engines.at(2 * static_cast<std::size_t>(kind) + (beneath ? 1 : 0));
  if (auto engine = known.lock(); engine && !engine->forked()) return engine;
  ASSIGN(auto reader, io::ReadEngine::create({.kind = kind,
                                              .depth = reads_in_flight_max(),
                                              .pread_threads = 8,
                                              .resolve = beneath ? io::beneath_flags() : 0}));
  reader = io::with_stores(std::move(reader), reads_in_flight_max());
  auto engine = std::shared_ptr<Engine>(new Engine(std::move(reader)), &Engine::retire);
  TRY(engine->open());
  known = engine;
  return engine;
}

Engine::Engine(std::unique_ptr<io::ReadEngine> reader)
    : reader_(std::make_unique<ReadScheduler>(std::move(reader), pool_)), io_name_(reader_->name()) {}

Status Engine::open() {
  ASSIGN(bells_, Poller::create("engine"));
  TRY(start_thread(&Engine::read_loop));
  return start_thread(&Engine::bell_loop);
}

/// Reads that storage does not answer must not delay the engine's last user. They may still write to the engine's
/// memory, so a thread of its own waits for them and then frees it.
void Engine::retire(Engine* engine) {
  if (!engine->forked() && !engine->threads_.empty()) {
    engine->stop();
    if (!engine->wait_for_reads()) {
      const SignalsBlocked blocked;
      try {
        std::thread([engine] { delete engine; }).detach();
      } catch (const std::system_error&) {  // then the engine stays for ever
      }
      return;
    }
  }
  delete engine;
}

bool Engine::wait_for_reads() {
  MutexLock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kFarewellNs);
  while (!reading_over_ && finished_.wait_until(lock, until)) {
  }
  return reading_over_;
}

void Engine::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  keep_.notify_all();
  reader_->wake();
  if (bells_) bells_->wake();
}

Engine::~Engine() {
  if (forked()) {  // the threads and all that they use are the parent's
    leak(std::move(threads_));
    static_cast<void>(reader_.release());
    return;
  }
  stop();
  for (std::thread& thread : threads_) thread.join();
  reader_.reset();  // ends reads under way before their buffers go
}

Status Engine::start_thread(void (Engine::*loop)()) {
  const SignalsBlocked blocked;
  try {
    threads_.emplace_back([this, loop] { (this->*loop)(); });
  } catch (const std::system_error& refused) {
    return fail(Code::kExhausted,
                fmt::format("engine: start of thread {}: {}; lower threads, or raise the limit of processes "
                            "(ulimit -u)",
                            threads_.size() + 1, refused.what()),
                refused.code().value());
  }
  return {};
}

/// The most chunks that are computed at the same time, over all jobs. More than the cores would only wait for each
/// other; each job also keeps to its own threads.
std::size_t Engine::compute_limit() const {
  std::size_t most = 0, all = 0;
  for (const auto& stream : streams_) {
    most = std::max<std::size_t>(most, stream->parallelism().threads());
    all += stream->parallelism().threads();
  }
  return std::max(most, std::min<std::size_t>(all, cores_));
}

/// The compute threads run where the streams want their batches, each on one node, which has its scratch memory too.
void Engine::spread_over_nodes() {
  if (nodes_.size() < 2) return;
  std::vector<NodeDemand> demands;
  for (const auto& stream : streams_) demands.push_back(stream->node_demand());
  node_of_ = spread_threads(nodes_, demands, std::max(compute_threads_, compute_limit()));
}

Status Engine::start_compute_threads() {
  spread_over_nodes();
  spares_.reserve(compute_limit());
  for (; compute_threads_ < compute_limit(); ++compute_threads_) TRY(start_thread(&Engine::compute_loop));
  return {};
}

Status Engine::add(std::shared_ptr<StreamScheduler> stream, std::uint32_t cores, const Turn& turn) {
  const MutexLock lock(mutex_);
  cores_ = cores;
  if (!keeps_) {
    TRY(start_thread(&Engine::keep_loop));
    keeps_ = true;
  }
  TRY(watch(*stream));
  leaving_.reserve(leaving_.size() + streams_.size() + 1);  // so that remove() never fails
  streams_.reserve(streams_.size() + 1);
  turns_.add(turn);
  streams_.push_back(std::move(stream));
  if (Status started = start_compute_threads(); !started) {
    unwatch(*streams_.back());
    streams_.pop_back();
    turns_.remove(streams_.size());
    return started;
  }
  keep_.notify_one();  // the maintenance thread opens its index
  StreamScheduler& added = *streams_.back();
  if (const auto& executor = added.parts().executor)
    executor->begin(
        [this, &added](std::unique_ptr<ChunkWork> work, bool computed) {
          end_remote(added, *work, computed);  // remove() waits until no chunk is away
        },
        [this, &added] { wake(added); });
  pump_locked(added);
  return {};
}

void Engine::remove(const std::shared_ptr<StreamScheduler>& stream) {
  MutexLock lock(mutex_);
  const std::size_t at = index_of(stream.get());
  if (at == streams_.size()) return;
  unwatch(*stream);
  streams_.erase(streams_.begin() + static_cast<std::ptrdiff_t>(at));
  turns_.remove(at);
  if (stream->parts().executor) stream->parts().executor->stop();
  stream->stop();
  leaving_.push_back(stream);
  let_go_quiet();
  const ChunkTable& chunks = stream->chunks();
  while (chunks.count(ChunkState::kLocal) > 0 || chunks.count(ChunkState::kRemote) > 0) finished_.wait(lock);
  let_go_quiet();
}

void Engine::end_remote(StreamScheduler& stream, ChunkWork& work, bool computed) {
  const MutexLock lock(mutex_);
  stream.end_remote(work, computed, outbox_);
  pump_locked(stream);
  if (stream.chunks().count(ChunkState::kRemote) == 0) finished_.notify_all();
}

/// The number of streams for one that was removed.
std::size_t Engine::index_of(const StreamScheduler* stream) const {
  const auto found = std::ranges::find(streams_, stream, &std::shared_ptr<StreamScheduler>::get);
  return static_cast<std::size_t>(found - streams_.begin());
}

void Engine::wake(StreamScheduler& asked) {
  const MutexLock lock(mutex_);
  if (has(&asked)) pump_locked(asked);  // the stream may have been removed meanwhile
}

void Engine::pump(StreamScheduler& stream) {
  mutex_.assert_held();
  pump_locked(stream);
}

void Engine::pump_locked(StreamScheduler& stream) {
  pump_unrung(stream);
  ring_work(take_runnable_count());
}

/// Does all of pump_locked() except waking threads for runnable chunks, which the caller does without the lock.
void Engine::pump_unrung(StreamScheduler& stream) {
  stream.pump(outbox_);
  if (const auto& executor = stream.parts().executor; executor && !stopping_) {
    executor->offer(stream, outbox_);
    if (stream.chunks().count(ChunkState::kRemote) > 0 && !std::exchange(watching_, true)) bells_->wake();
  }
  start_reads(outbox_);
}

void Engine::dispatch(Outbox& out) {
  start_reads(out);
  ring_work(take_runnable_count());
}

void Engine::start_reads(Outbox& out) {
  if (!out.reads.empty() && !std::exchange(watching_, true)) bells_->wake();
  reader_->queue(out.reads);
}

/// The number of chunks that were made ready for other threads since the last call, at most the number of threads.
std::uint32_t Engine::take_runnable_count() {
  return std::min(std::exchange(outbox_.runnable, 0), static_cast<std::uint32_t>(compute_threads_));
}

/// A thread that is woken wants the lock at once, so callers with many chunks ring without it.
void Engine::ring_work(std::uint32_t runnable) {
  for (; runnable > 0; --runnable) work_.notify_one();
}

Status Engine::set_cores(std::uint32_t cores) {
  const MutexLock lock(mutex_);
  cores_ = cores;
  TRY(start_compute_threads());
  work_.notify_all();
  return {};
}

/// Helpers take no core from a chunk. They begin only if fewer chunks are computed than may be, in their stream and
/// over all.
bool Engine::lend(Spare& borrower) {
  const MutexLock lock(mutex_);
  if (stopping_ || computing_ + helping_ >= compute_limit()) return false;
  std::uint32_t used = borrower.stream->chunks().count(ChunkState::kLocal);
  for (const Spare* other : spares_)
    if (other->stream == borrower.stream) used += other->helpers;
  if (used >= borrower.stream->parallelism().cores()) return false;
  ++borrower.helpers;
  ++helping_;
  return true;
}

bool Engine::may_keep() {
  const MutexLock lock(mutex_);
  return !stopping_ && computing_ + helping_ <= compute_limit();
}

void Engine::take_back(Spare& borrower) {
  const MutexLock lock(mutex_);
  --borrower.helpers;
  --helping_;
}

/// A chunk that a thread computes, and its figures.
struct Engine::Task {
  StreamScheduler* stream = nullptr;
  Chunk* chunk = nullptr;
  std::optional<ComputeScratch> scratch{};  // none while there is no chunk, since making one takes memory
  ThreadTime took;
  double expected_ns = 0;  // by turns_
};

/// Returns the guest, if any, whose turn it is while a chunk waits; then there is no chunk.
std::optional<std::size_t> Engine::next_chunk(Task& task) {
  bool waits = false;
  const std::int64_t now_ns = guests_.empty() ? 0 : monotonic_ns();
  const auto ready = [&](std::size_t i) {
    mutex_.assert_held();
    const bool is_stream = i < streams_.size(), runnable = is_stream && streams_[i]->has_runnable();
    waits |= runnable;
    return is_stream ? runnable : guests_.borrows(i - streams_.size(), now_ns);
  };
  const auto at = turns_.next(ready);
  const bool is_guest = at && *at >= streams_.size();
  task.stream = at && !is_guest ? streams_[*at].get() : nullptr;
  task.chunk = task.stream != nullptr ? task.stream->take_runnable() : nullptr;
  if (task.chunk != nullptr) task.expected_ns = turns_.begin(*at);
  return is_guest && waits ? std::optional(*at - streams_.size()) : std::nullopt;
}

Result<GuestTurn> Engine::hear(std::uint64_t guest, const GuestReport& report) try {
  const MutexLock lock(mutex_);
  const std::int64_t now_ns = monotonic_ns();
  const std::size_t place = guests_.hear(guest, report, cores_, now_ns);
  return guests_.turn(place, cores_, now_ns, [this](std::size_t i) {
    mutex_.assert_held();
    const bool works = streams_[i]->has_runnable() || streams_[i]->chunks().count(ChunkState::kLocal) > 0;
    return works && computing_ >= compute_limit();
  });
} catch (const std::bad_alloc&) {
  return fail(Code::kExhausted, "engine: no memory for one more that takes turns");
}

/// A chunk waits, but it is a guest's turn: this thread does nothing for a moment.
void Engine::leave_core(std::size_t guest, MutexLock& lock) {
  const Guests::Loan loan = guests_.lend(guest);
  const std::int64_t begin_ns = monotonic_ns();
  ++computing_;
  work_.wait_for_ns(lock, Guests::kLoanNs);
  --computing_;
  guests_.take_back(loan, monotonic_ns() - begin_ns);
}

void Engine::end_task(Task& task) {
  StreamScheduler& stream = *task.stream;
  --computing_;
  guests_.note_others(task.took.end_ns);
  if (const std::size_t at = index_of(&stream); at < streams_.size())
    turns_.end(at, task.expected_ns, static_cast<double>(task.took.cpu_ns),
               static_cast<double>(task.took.blocked_ns));
  stream.finish(*task.chunk, std::move(*task.scratch), task.took, outbox_);
  DecodeIndex& index = *stream.parts().index;
  const bool flushes = index.ask_flush() || index.urgent();
  const std::uint64_t timed = stream.plans().present()->profile.timed_samples();
  const bool looks = stream.parts().cache && stream.parts().cache->ask();
  if (stream.parts().planner->ask(timed) || flushes || looks) keep_.notify_one();
  pump_unrung(stream);
  if (stream.chunks().count(ChunkState::kLocal) == 0) finished_.notify_all();
}

/// Wait until there is a chunk. Returns false if the threads end.
bool Engine::take_task(Task& task, MutexLock& lock) {
  while (!stopping_) {
    if (computing_ >= compute_limit()) {  // a thread that computes now also takes the next chunk
      work_.wait(lock);
      continue;
    }
    auto guest = next_chunk(task);
    if (task.chunk == nullptr && !guest) {
      for (const auto& starved : streams_) {
        starved->note_starved();
        pump_locked(*starved);
      }
      guest = next_chunk(task);  // chunks that were begun just now woke no thread
    }
    if (guest) {
      leave_core(*guest, lock);
      continue;
    }
    if (task.chunk == nullptr) {
      work_.wait(lock);
      continue;
    }
    task.scratch.emplace(task.stream->parallelism().take_scratch());
    ++computing_;
    return true;
  }
  return false;
}

void Engine::compute_loop() {
  become_engine_thread("carya-compute");
  Spare spare(*this);
  BandCrew crew(spare);
  Task task;
  std::size_t number = 0;
  const Node* at = nullptr;  // any
  {
    const MutexLock lock(mutex_);
    number = spares_.size();
    spares_.push_back(&spare);  // start_compute_threads() made room
  }
  ThreadClock clock;
  while (true) {
    std::uint32_t runnable = 0;
    const Node* node = nullptr;
    lock_soon(mutex_);
    {
      MutexLock lock(mutex_, std::adopt_lock);
      spare.stream = nullptr;
      if (task.chunk != nullptr) end_task(task);
      if (!take_task(task, lock)) return;
      spare.stream = task.stream;
      crew.set_threads(task.stream->parallelism().threads());
      runnable = take_runnable_count();
      if (number < node_of_.size()) node = &nodes_[node_of_[number]];
    }
    if (node != std::exchange(at, node)) run_on(*node);
    ring_work(runnable);
    task.scratch->transforms.set_bands(&crew);
    const std::int64_t helped_ns = crew.helped_ns();
    clock.begin();
    {
      const WorkFor work(task.stream->parts().work);
      task.stream->compute(*task.chunk, *task.scratch);
    }
    task.took = clock.end(crew.helped_ns() - helped_ns);
    task.scratch->transforms.set_bands(nullptr);
  }
}

void Engine::bell_loop() {
  become_engine_thread("carya-bell");
  for (int wait_ms = -1;;) {
    const std::vector<std::uint64_t>& rung = bells_->wait(wait_ms);
    const MutexLock lock(mutex_);
    if (stopping_) return;
    for (const std::uint64_t number : rung) {
      const auto stream = std::ranges::find(streams_, number, &StreamScheduler::number);
      if (stream == streams_.end()) continue;  // the stream has been removed meanwhile
      if (const auto bell = bell_of(**stream)) bell->quiet();
      (*stream)->parts().ring->set_waiting(false);
      pump_locked(**stream);
    }
    wait_ms = look_for_overdue();
  }
}

/// Returns the milliseconds until the next look; -1 if no read is under way. Whoever queues the next read then wakes
/// the bell thread.
int Engine::look_for_overdue() {
  const std::int64_t now = monotonic_ns();
  std::int64_t next = now;
  try {
    next = reader_->give_up_overdue(now, outbox_);
  } catch (const std::bad_alloc&) {
    next = now + kLookAgainNs;
  }
  for (const auto& stream : streams_) {
    if (stream->chunks().count(ChunkState::kRemote) == 0) continue;
    pump_locked(*stream);  // workers may be late
    next = std::min(next, now + kRemoteLookNs);
  }
  dispatch(outbox_);
  let_go_quiet();
  watching_ = next != INT64_MAX;
  return watching_ ? static_cast<int>((next - now) / 1'000'000) + 1 : -1;
}

/// Let go of removed streams that have nothing under way any more.
void Engine::let_go_quiet() {
  std::erase_if(leaving_, [&](const auto& stream) {
    if (!is_quiet(*stream)) return false;
    reader_->forget(stream->number());
    return true;
  });
}

/// The maintenance thread writes what the decodes learned, and plans by measured costs, at most about once a second but
/// where a stream has just begun to choose what it keeps. Compute threads and reads never wait for it.
void Engine::keep_loop() {
  become_engine_thread("carya-keep");
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (!is_asked()) {
      keep_.wait(lock);
      continue;
    }
    const auto asked = asked_plans();
    const auto indexes = asked_indexes();
    for (const AskedPlan& one : asked) {
      lock.unlock();
      const std::shared_ptr<PlanInUse> plan = look_at(one);
      lock.lock();
      if (plan) turn_to(one.planner.get(), plan);
    }
    lock.unlock();
    for (const auto& index : indexes) index->flush();
    lock.lock();
    const auto next = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kKeepEveryNs);
    while (!is_urgent() && keep_.wait_until(lock, next)) {
    }
  }
}

bool Engine::is_asked() const {
  return std::ranges::any_of(streams_, [](const auto& stream) {
    const StreamParts& parts = stream->parts();
    return parts.index->asked() || parts.planner->asked() || (parts.cache && parts.cache->is_due());
  });
}

bool Engine::is_urgent() const {
  return stopping_ || std::ranges::any_of(streams_, [](const auto& stream) {
           const StreamParts& parts = stream->parts();
           return parts.index->urgent() || (parts.cache && parts.cache->is_urgent());
         });
}

std::vector<std::shared_ptr<DecodeIndex>> Engine::asked_indexes() const {
  std::vector<std::shared_ptr<DecodeIndex>> asked;
  try {
    for (const auto& stream : streams_)
      if (stream->parts().index->asked()) asked.push_back(stream->parts().index);
  } catch (const std::bad_alloc&) {  // the next look asks the others
  }
  return asked;
}

/// Plans, and samples that are kept: others may need their memory while nothing is computed.
std::vector<Engine::AskedPlan> Engine::asked_plans() const {
  std::vector<AskedPlan> asked;
  try {
    for (const auto& stream : streams_) {
      const StreamParts& parts = stream->parts();
      const bool looks = parts.cache && parts.cache->is_due();
      if (!parts.planner->asked() && !looks) continue;
      asked.push_back({parts.planner, looks ? parts.cache : nullptr, measured(*stream), stream->seen()});
    }
  } catch (const std::bad_alloc&) {  // the next look asks the others
  }
  return asked;
}

/// Returns null also if there is no memory to plan with: the present plan and place stay.
std::shared_ptr<PlanInUse> Engine::look_at(const AskedPlan& asked) {
  try {
    if (asked.cache) {
      asked.cache->look(asked.planner->profile(asked.measured), asked.measured.orders.back().order,
                        asked.seen);
      asked.planner->note_storages(asked.cache->storages());
    }
    return asked.planner->asked() ? asked.planner->look(asked.measured) : nullptr;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

/// The planner's stream may have been removed meanwhile.
void Engine::turn_to(const StreamPlanner* planner, const std::shared_ptr<PlanInUse>& plan) {
  try {
    for (const auto& stream : streams_)
      if (stream->parts().planner.get() == planner) stream->plans().set(plan);
  } catch (const std::bad_alloc&) {  // the present plan stays
  }
}

void Engine::read_loop() {
  become_engine_thread("carya-read");
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (stopping_ && !reader_->stop()) {
        reading_over_ = true;
        finished_.notify_all();
        return;
      }
      let_go_quiet();
      if (!stopping_) reader_->take();
    }
    reader_->start();
    if (!reader_->poll()) continue;
    std::uint32_t runnable = 0;
    {
      const MutexLock lock(mutex_);
      reader_->finish(outbox_);
      start_reads(outbox_);
      for (const auto& stream : streams_) pump_unrung(*stream);
      runnable = take_runnable_count();
    }
    ring_work(runnable);
  }
}

}  // namespace carya::loader
