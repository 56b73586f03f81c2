#include "loader/engine/engine.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <new>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "io/files/source_folder.h"
#include "loader/stream/executor.h"

namespace carya::loader {
namespace {

/// The trainer's own threads come first.
constexpr int kNice = 5;
constexpr std::chrono::milliseconds kKeepEvery{1000};
constexpr std::int64_t kLookAgainNs = 100'000'000;
constexpr std::int64_t kRemoteLookNs = 20'000'000;
/// So long the last user of an engine waits for the reads under way.
constexpr std::chrono::milliseconds kFarewell{1000};

void name_thread(const char* name) {
  pthread_setname_np(pthread_self(), name);
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
}

/// Blocks all signals while it lives, so that threads made meanwhile are born with them blocked.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Result<std::shared_ptr<Engine>> Engine::shared(io::ReadEngineOptions::Kind kind, bool beneath) {
  static std::mutex mutex;
  static std::array<std::weak_ptr<Engine>, 6> engines;
  const std::lock_guard lock(mutex);
  std::weak_ptr<Engine>& known = engines.at(2 * static_cast<std::size_t>(kind) + (beneath ? 1 : 0));
  if (auto engine = known.lock(); engine && !engine->forked()) return engine;
  ASSIGN(auto reader, io::ReadEngine::create({.kind = kind, .resolve = beneath ? io::beneath_flags() : 0}));
  auto engine = std::shared_ptr<Engine>(new Engine(std::move(reader)), &Engine::retire);
  TRY(engine->open());
  known = engine;
  return engine;
}

Engine::Engine(std::unique_ptr<io::ReadEngine> reader)
    : reader_(std::make_unique<Reader>(std::move(reader), pool_)), io_name_(reader_->name()) {}

Status Engine::open() {
  bells_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!bells_) return fail_errno("engine: epoll", errno);
  own_bell_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!own_bell_) return fail_errno("engine: eventfd", errno);
  epoll_event event{.events = EPOLLIN, .data = {.u64 = 0}};
  if (epoll_ctl(bells_.get(), EPOLL_CTL_ADD, own_bell_.get(), &event) != 0)
    return fail_errno("engine: watch its own bell", errno);
  TRY(start_thread(&Engine::read_loop));
  return start_thread(&Engine::bell_loop);
}

/// Reads that storage does not answer must not hold up who lets go of the engine: its memory, which they may
/// still write to, then stays until they end.
void Engine::retire(Engine* engine) {
  if (!engine->forked() && !engine->threads_.empty()) {
    engine->stop();
    std::unique_lock lock(engine->mutex_);
    const bool over = engine->finished_.wait_for(lock, kFarewell, [&] { return engine->reading_over_; });
    lock.unlock();
    if (!over) {
      const SignalsBlocked blocked;
      try {
        std::thread([engine] { delete engine; }).detach();
      } catch (const std::system_error&) {  // then it stays for ever
      }
      return;
    }
  }
  delete engine;
}

void Engine::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  keep_.notify_all();
  reader_->wake();
  if (own_bell_) eventfd_write(own_bell_.get(), 1);
}

Engine::~Engine() {
  if (forked()) {  // the threads are the parent's; so is everything they use
    static_cast<void>(new auto(std::move(threads_)));
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
                "engine: start of thread " + std::to_string(threads_.size() + 1) + ": " + refused.what() +
                    "; lower threads, or raise the limit of processes (ulimit -u)",
                refused.code().value());
  }
  return {};
}

/// Chunks that are computed at the same time, over all jobs; each job keeps to its own threads besides. More
/// than there are cores would only wait for each other.
std::size_t Engine::compute_limit() const {
  std::size_t most = 0, all = 0;
  for (const auto& production : productions_) {
    most = std::max<std::size_t>(most, production->options().threads);
    all += production->options().threads;
  }
  return std::max(most, std::min<std::size_t>(all, cores_));
}

Status Engine::start_compute_threads() {
  for (; compute_threads_ < compute_limit(); ++compute_threads_) TRY(start_thread(&Engine::compute_loop));
  return {};
}

Status Engine::add(std::shared_ptr<Production> production, std::uint32_t cores) {
  const std::lock_guard lock(mutex_);
  cores_ = cores;
  if (!keeps_) {
    TRY(start_thread(&Engine::keep_loop));
    keeps_ = true;
  }
  epoll_event event{.events = EPOLLIN, .data = {.ptr = production.get()}};
  if (epoll_ctl(bells_.get(), EPOLL_CTL_ADD, production->ring()->event_fd(), &event) != 0)
    return fail_errno("engine: watch the bell of a ring", errno);
  leaving_.reserve(leaving_.size() + productions_.size() + 1);  // so that remove() never fails
  productions_.push_back(std::move(production));
  if (Status started = start_compute_threads(); !started) {
    epoll_ctl(bells_.get(), EPOLL_CTL_DEL, productions_.back()->ring()->event_fd(), nullptr);
    productions_.pop_back();
    return started;
  }
  keep_.notify_one();  // its index may have to be opened
  Production& added = *productions_.back();
  if (added.crew())
    added.crew()->begin(
        [this, &added](std::unique_ptr<RemoteWork> work, bool computed) {
          end_remote(added, *work, computed);  // remove() waits for all of it
        },
        [this, &added] { wake(added); });
  pump(*productions_.back());
  return {};
}

void Engine::remove(const std::shared_ptr<Production>& production) {
  std::unique_lock lock(mutex_);
  const auto found = std::find(productions_.begin(), productions_.end(), production);
  if (found == productions_.end()) return;
  epoll_ctl(bells_.get(), EPOLL_CTL_DEL, production->ring()->event_fd(), nullptr);
  productions_.erase(found);
  if (production->crew()) production->crew()->stop();
  production->stop();
  leaving_.push_back(production);
  let_go_quiet();
  finished_.wait(lock, [&] { return production->running() == 0 && production->remote() == 0; });
  let_go_quiet();
}

void Engine::end_remote(Production& production, RemoteWork& work, bool computed) {
  const std::lock_guard lock(mutex_);
  production.end_remote(work, computed, outbox_);
  pump(production);
  if (production.remote() == 0) finished_.notify_all();
}

void Engine::wake(const Production& asked) {
  const std::lock_guard lock(mutex_);
  for (const auto& production : productions_)  // it may have left since
    if (production.get() == &asked) return pump(*production);
}

void Engine::pump(Production& production) {
  production.pump(outbox_);
  if (production.crew() && !stopping_) {
    production.crew()->feed(production, outbox_);
    if (production.remote() > 0 && !std::exchange(watching_, true)) eventfd_write(own_bell_.get(), 1);
  }
  dispatch(outbox_);
}

void Engine::dispatch(Outbox& out) {
  if (!out.reads.empty() && !std::exchange(watching_, true)) eventfd_write(own_bell_.get(), 1);
  reader_->queue(out.reads);
  for (std::uint32_t i = 0;
       i < std::min<std::uint32_t>(out.runnable, static_cast<std::uint32_t>(compute_threads_)); ++i)
    work_.notify_one();
  out.runnable = 0;
}

Status Engine::set_cores(std::uint32_t cores) {
  const std::lock_guard lock(mutex_);
  cores_ = cores;
  TRY(start_compute_threads());
  work_.notify_all();
  return {};
}

Chunk* Engine::next_chunk() {
  for (std::size_t i = 0; i < productions_.size(); ++i) {
    const std::size_t at = (turn_ + i) % productions_.size();
    if (Chunk* chunk = productions_[at]->take_runnable()) {
      turn_ = at + 1;
      return chunk;
    }
  }
  return nullptr;
}

void Engine::compute_loop() {
  name_thread("carya-compute");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (computing_ >= compute_limit()) {  // who computes now takes the next one too
      work_.wait(lock);
      continue;
    }
    Chunk* chunk = next_chunk();
    if (chunk == nullptr) {
      for (const auto& production : productions_) {
        production->note_starved();
        pump(*production);
      }
      chunk = next_chunk();  // what was begun just now rang no thread that sleeps
    }
    if (chunk == nullptr) {
      work_.wait(lock);
      continue;
    }
    Production& production = *chunk->owner;
    ComputeScratch scratch = production.take_scratch();
    ++computing_;
    lock.unlock();
    const std::int64_t start_ns = monotonic_ns(), start_cpu_ns = thread_cpu_ns();
    production.compute(*chunk, scratch);
    const ThreadTime took{monotonic_ns() - start_ns, thread_cpu_ns() - start_cpu_ns};
    lock.lock();
    --computing_;
    production.finish(*chunk, std::move(scratch), took, outbox_);
    const bool flushes = production.index()->ask_flush() || production.index()->urgent();
    if (production.ask_plan() || flushes) keep_.notify_one();
    pump(production);
    if (production.running() == 0) finished_.notify_all();
  }
}

void Engine::bell_loop() {
  name_thread("carya-bell");
  std::array<epoll_event, 16> events;
  int wait_ms = -1;
  while (true) {
    const int count = epoll_wait(bells_.get(), events.data(), static_cast<int>(events.size()), wait_ms);
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    eventfd_t rung;
    static_cast<void>(eventfd_read(own_bell_.get(), &rung));
    for (int i = 0; i < count; ++i) {
      for (const auto& production : productions_) {  // it may have left since
        if (production.get() != events[static_cast<std::size_t>(i)].data.ptr) continue;
        production->ring()->set_waiting(false);
        pump(*production);
      }
    }
    wait_ms = look_for_overdue();
  }
}

/// Milliseconds until the next look; -1 when no read is on its way: who queues the next one rings the bell.
int Engine::look_for_overdue() {
  const std::int64_t now = monotonic_ns();
  std::int64_t next = now;
  try {
    next = reader_->give_up_overdue(now, outbox_);
  } catch (const std::bad_alloc&) {
    next = now + kLookAgainNs;
  }
  for (const auto& production : productions_) {
    if (production->remote() == 0) continue;
    pump(*production);  // workers may be late
    next = std::min(next, now + kRemoteLookNs);
  }
  dispatch(outbox_);
  let_go_quiet();
  watching_ = next != INT64_MAX;
  return watching_ ? static_cast<int>((next - now) / 1'000'000) + 1 : -1;
}

/// Productions that were removed, and have nothing under way any more.
void Engine::let_go_quiet() {
  std::erase_if(leaving_, [&](const auto& production) {
    if (!production->quiet()) return false;
    reader_->forget(production->number());
    return true;
  });
}

/// Writes what the decodes learned, and plans by what they cost, at most about once a second: compute threads
/// and reads never wait for it.
void Engine::keep_loop() {
  name_thread("carya-keep");
  const auto urgent = [this] {
    return stopping_ || std::any_of(productions_.begin(), productions_.end(),
                                    [](const auto& production) { return production->index()->urgent(); });
  };
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const bool asked = std::any_of(productions_.begin(), productions_.end(), [](const auto& production) {
      return production->index()->asked() || production->planner()->asked();
    });
    if (!asked) {
      keep_.wait(lock);
      continue;
    }
    look_asked(lock);
    flush_asked(lock);
    keep_.wait_for(lock, kKeepEvery, urgent);
  }
}

void Engine::flush_asked(std::unique_lock<std::mutex>& lock) {
  try {
    std::vector<std::shared_ptr<DecodeIndex>> asked;
    for (const auto& production : productions_)
      if (production->index()->asked()) asked.push_back(production->index());
    lock.unlock();
    for (const auto& index : asked) index->flush();
  } catch (const std::bad_alloc&) {  // what waits is written the next time, or lost: it costs time, no bit
  }
  if (!lock.owns_lock()) lock.lock();
}

void Engine::look_asked(std::unique_lock<std::mutex>& lock) {
  try {
    std::vector<std::pair<std::shared_ptr<StreamPlanner>, PlanProfile>> asked;
    for (const auto& production : productions_)
      if (production->planner()->asked()) asked.emplace_back(production->planner(), production->measured());
    for (const auto& [planner, measured] : asked) {
      lock.unlock();
      std::shared_ptr<PlanInUse> plan = planner->look(measured);
      lock.lock();
      if (!plan) continue;
      for (const auto& production : productions_)  // it may have left since
        if (production->planner() == planner) production->set_plan(plan);
    }
  } catch (const std::bad_alloc&) {  // the present plan stays
  }
  if (!lock.owns_lock()) lock.lock();
}

void Engine::read_loop() {
  name_thread("carya-read");
  while (true) {
    {
      const std::lock_guard lock(mutex_);
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
    const std::lock_guard lock(mutex_);
    reader_->finish(outbox_);
    dispatch(outbox_);
    for (const auto& production : productions_) pump(*production);
  }
}

}  // namespace carya::loader
