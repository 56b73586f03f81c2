#include "loader/overflow/work_encoder.h"

#include <pthread.h>

#include <ctime>
#include <new>
#include <utility>

#include "loader/wire/worker_plan.h"

namespace carya::loader {

std::shared_ptr<const EncodedChunk> encode_work(const ChunkWork& work, const StreamParts& parts,
                                                bool with_addresses) {
  const Chunk& chunk = *work.chunk;
  const bool with_entries = work.cut->compiled && work.cut->compiled->wants_entries();
  ChunkToEncode todo{.dataset = parts.dataset.get(),
                     .fields = parts.pipeline->fields(),
                     .plan = work.cut->plan,
                     .epoch = work.epoch,
                     .rows = {},
                     .inputs = chunk.inputs,
                     .labels = chunk.labels,
                     .index = with_entries ? parts.index.get() : nullptr,
                     .with_addresses = with_addresses};
  for (const RowTask& task : chunk.tasks) todo.rows.push_back({task.record, task.occurrence});
  auto sent = encode_chunk(todo);
  sent->buffer = chunk.reads->buffer.lend();
  sent->dataset = parts.dataset;
  return sent;
}

void WorkEncoder::begin() {
  thread_ = std::thread([this] { run(); });
}

bool WorkEncoder::add(std::unique_ptr<ChunkWork>& work, const StreamParts& parts, bool with_addresses) {
  {
    const MutexLock lock(mutex_);
    if (stopping_) return false;
    try {
      waiting_.push_back({nullptr, &parts, with_addresses});
    } catch (const std::bad_alloc&) {
      return false;
    }
    waiting_.back().work = std::move(work);
  }
  changed_.notify_one();
  return true;
}

void WorkEncoder::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
}

void WorkEncoder::end() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void WorkEncoder::run() {
  pthread_setname_np(pthread_self(), "carya-encode");
  MutexLock lock(mutex_);
  while (true) {
    while (!stopping_ && waiting_.empty()) changed_.wait(lock);
    if (waiting_.empty()) return;
    Waiting one = std::move(waiting_.front());
    waiting_.pop_front();
    const bool asked = !stopping_;
    lock.unlock();
    const bool encoded = asked && encode(one);
    told_(std::move(one.work), encoded);
    lock.lock();
  }
}

bool WorkEncoder::encode(const Waiting& one) {
  try {
    one.work->sent = encode_work(*one.work, *one.parts, one.with_addresses);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::int64_t WorkEncoder::cpu_ns() const {
  return cpu_ns_of(thread_);
}

std::int64_t cpu_ns_of(const std::thread& thread) {
  clockid_t clock{};
  timespec time{};
  if (!thread.joinable() ||
      pthread_getcpuclockid(const_cast<std::thread&>(thread).native_handle(), &clock) != 0 ||
      clock_gettime(clock, &time) != 0)
    return 0;
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace carya::loader
