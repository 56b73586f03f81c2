#include "loader/read/read_scheduler.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>

#include "base/clock.h"
#include "io/files/open_failure.h"
#include "io/files/record_file.h"
#include "io/http/store_client.h"

namespace carya::loader {
namespace {

constexpr int kIdleMs = 3'600'000;
/// A shorter io_timeout only bounds the retries: storage has at least this long to answer.
constexpr std::int64_t kAnswerMinNs = 1'000'000'000;
/// Retries after a refused access end early: rights rarely change, but a folder that is being mounted may refuse at
/// first.
constexpr std::int64_t kForbiddenMaxNs = 1'000'000'000;
/// A read that takes longer waits for storage. More reads are then started, so that others need not wait behind it.
constexpr std::int64_t kSlowNs = 20'000'000;
constexpr std::int64_t kLookMinNs = 10'000'000;
constexpr std::int64_t kLookMaxNs = 1'000'000'000;

std::string subject(const ReadOp& op) {
  std::string text = "read: " + std::string(op.request.path != nullptr ? op.request.path : "?");
  if (op.request.offset != 0) text += " @" + std::to_string(op.request.offset);
  return text;
}

bool forbidden(const io::ReadCompletion& completion) {
  return completion.sys_errno == EACCES || completion.sys_errno == EPERM;
}

std::string read_failure(const ReadOp& op, const io::ReadCompletion& completion, const Error* refused) {
  const std::string wanted = std::to_string(op.request.length);
  const std::string text = subject(op) + ", " + std::to_string(op.attempts) + " tries: ";
  if (completion.store) return text + completion.store->why;
  const std::string changed = std::string("; the dataset changed: ") + io::kListAnew;
  if (completion.sys_errno != 0) {
    const std::string system = fail_errno("", completion.sys_errno).error().message.substr(2);
    if (forbidden(completion))
      return text + system + ": " + io::this_user() +
             " may not read it; give that user the right to (chmod, setfacl), or leave the file out";
    if (completion.sys_errno == ENOENT) return text + system + changed;
    if (system.find("; ") != std::string::npos) return text + system;
    return text + system + "; look at its storage (the mount, dmesg), or give a longer io_timeout=";
  }
  if (refused != nullptr) return text + refused->message + changed;
  if (completion.bytes > static_cast<std::int64_t>(op.request.length))
    return text + "the file has grown past the " + wanted + " B of the manifest" + changed;
  return text + "wanted " + wanted + " B, got " + std::to_string(completion.bytes) + " B" + changed;
}

std::int64_t answer_limit(const ReadClient& client) {
  return std::max(client.io_timeout_ns(), kAnswerMinNs);
}

std::string no_answer(const ReadOp& op) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3g", static_cast<double>(answer_limit(*op.batch->client)) / 1e9);
  return subject(op) + ": no answer for " + seconds +
         " s; its storage hangs: look at the mount, or give a longer io_timeout=";
}

}  // namespace

std::uint32_t reads_in_flight_max() {
  constexpr std::uint32_t kMany = 1024, kFew = 64;
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max >= 4 * kMany ? kMany : kFew;
}

ReadScheduler::ReadScheduler(std::unique_ptr<io::ReadEngine> engine, ReadBufferPool& pool)
    : pool_(pool), engine_(std::move(engine)), sources_(*engine_) {
  requests_.reserve(engine_->room());
  starting_.reserve(engine_->room());
  refused_.reserve(engine_->room());
}

// Lost reads may write to their buffers until the read engine is gone, so the engine ends first.
ReadScheduler::~ReadScheduler() {
  engine_.reset();
}

void ReadScheduler::queue(std::vector<ReadOp*>& reads) {
  if (reads.empty()) return;
  const std::int64_t now = monotonic_ns();
  for (ReadOp* op : reads) {
    op->queued_ns = now;
    if (op->due_ns > now)
      waiting_.push_back(*op);
    else
      enqueue(*op);
  }
  reads.clear();
  engine_->wake();
}

void ReadScheduler::enqueue(ReadOp& op) {
  ReadClient& client = *op.batch->client;
  client.queued.push_back(op);
  turns_.push_back(client);
}

void ReadScheduler::forget(std::uint64_t job) {
  turns_.remove(job);
  try {
    leaving_.push_back(job);
  } catch (const std::bad_alloc&) {
    return;  // what it had open stays so as long as the engine
  }
  engine_->wake();
}

void ReadScheduler::take() {
  const std::int64_t now = monotonic_ns();
  requeue_due(now);
  std::size_t refused = 0;  // clients in a row that may start no read now
  const std::uint32_t lanes = engine_->lanes();
  std::uint32_t room = std::min(engine_->room(), lanes - std::min(lanes, in_flight_));
  while (room > 0 && refused < turns_.size()) {
    ReadClient& client = turns_.pop_front();
    if (client.queued.empty()) continue;
    turns_.push_back(client);
    ReadOp& op = *client.queued.first();
    if (!may_take_more(client.in_flight, room) || !sources_.reserve(op)) {
      ++refused;
      continue;
    }
    refused = 0;
    --room;
    client.queued.remove(op);
    issued_.push_back(op);
    ++client.in_flight;
    ++in_flight_;
    op.queued_ns = now;
    if (op.first_ns == 0) op.first_ns = now;
    wanted_ = std::max(wanted_, client.reads_wanted());
    op.request.again = op.attempts++ > 0;
    starting_.push_back(&op);
  }
  const ReadOp* const oldest = issued_.first();
  const bool slow = oldest != nullptr && now - oldest->queued_ns > kSlowNs;
  if (slow) wanted_ = std::max(wanted_, 2 * in_flight_);
  cancels_.swap(cancelling_);
  forgets_.swap(leaving_);
  std::int64_t due = INT64_MAX;
  for (const ReadOp* op = waiting_.first(); op != nullptr; op = op->after) due = std::min(due, op->due_ns);
  // While clients wait for room, look again when the oldest read may count as slow.
  if (turns_.size() > 0 && oldest != nullptr) due = std::min(due, (slow ? now : oldest->queued_ns) + kSlowNs);
  const std::int64_t wait = due == INT64_MAX ? kIdleMs : (due - now) / 1'000'000 + 1;
  wait_ms_ = static_cast<int>(std::clamp<std::int64_t>(wait, 0, kIdleMs));
}

void ReadScheduler::requeue_due(std::int64_t now_ns) {
  for (ReadOp* op = waiting_.first(); op != nullptr;) {
    ReadOp* const after = op->after;
    if (op->due_ns <= now_ns) {
      waiting_.remove(*op);
      op->queued_ns = now_ns;
      enqueue(*op);
    }
    op = after;
  }
}

bool ReadScheduler::stop() {
  if (!std::exchange(stopping_, true))
    for (const ReadList* list : {&issued_, &stuck_})
      for (const ReadOp* op = list->first(); op != nullptr; op = op->after)
        cancels_.push_back(op->request.token);
  wait_ms_ = kIdleMs;
  return !issued_.empty() || !stuck_.empty();
}

void ReadScheduler::start() {
  for (const std::uint64_t token : cancels_) engine_->cancel(token);
  cancels_.clear();
  for (const std::uint64_t job : forgets_) sources_.forget(job);
  forgets_.clear();
  if (wanted_ > widened_) engine_->widen(widened_ = wanted_);
  for (ReadOp* op : starting_) {  // requests_ and refused_ have room
    Status opened;
    try {
      opened = sources_.enter(*op);
    } catch (const std::bad_alloc&) {
      opened = std::unexpected(out_of_memory());
    }
    if (opened)
      requests_.push_back(op->request);
    else
      refused_.push_back({op, std::move(opened.error())});
  }
  starting_.clear();
  engine_->submit(requests_);
  requests_.clear();
}

bool ReadScheduler::poll() {
  done_count_ = engine_->poll(done_, refused_.empty() ? wait_ms_ : 0);
  return done_count_ > 0 || !refused_.empty();
}

void ReadScheduler::finish(Outbox& out) {
  answered_ns_ = monotonic_ns();
  for (std::size_t i = 0; i < done_count_; ++i)
    finish_read(*reinterpret_cast<ReadOp*>(done_[i].token), done_[i], nullptr, out);
  done_count_ = 0;
  for (const Refused& refused : refused_)
    finish_read(*refused.op,
                {.token = refused.op->request.token,
                 .code = refused.error.code,
                 .sys_errno = refused.error.sys_errno,
                 .bytes = -1},
                &refused.error, out);
  refused_.clear();
}

void ReadScheduler::finish_read(ReadOp& op, const io::ReadCompletion& completion, const Error* refused,
                                Outbox& out) {
  sources_.leave(op);
  op.list->remove(op);
  if (op.batch->client == nullptr) return end_lost(op);
  ReadClient& client = *op.batch->client;
  CHECK(client.in_flight > 0 && in_flight_ > 0);
  --client.in_flight;
  --in_flight_;
  client.answered_ns = answered_ns_;
  if (completion.ok) return client.read_done(op, completion, std::nullopt, out);
  std::int64_t wait = std::min(kRetryMaxNs, kRetryFirstNs << std::min<std::uint32_t>(op.attempts - 1, 10));
  std::int64_t most = client.io_timeout_ns();
  if (const io::StoreFailure* const store = completion.store.get()) {
    // Many readers of a busy store must not come back together.
    wait = std::max(io::full_jitter_ns(op.attempts, kRetryFirstNs, kStoreRetryMaxNs), store->wait_ns);
    if (store->final) most = 0;
  }
  if (forbidden(completion)) most = std::min(most, kForbiddenMaxNs);
  if (!op.batch->unwanted && answered_ns_ + wait - op.first_ns < most) {
    op.due_ns = answered_ns_ + wait;
    waiting_.push_back(op);
    client.note_retry();
    return;
  }
  // Whatever the errno is, a read that fails is a fault of storage, and never bad data.
  Error error = out_of_memory();
  if (completion.sys_errno != ENOMEM) {
    try {
      error = {Code::kIo, read_failure(op, completion, refused), completion.sys_errno};
    } catch (const std::bad_alloc&) {  // then that is the error
    }
  }
  client.read_done(op, completion, std::move(error), out);
}

/// The kernel has ended a read that was given up. The last read of its batch frees the memory.
void ReadScheduler::end_lost(ReadOp& op) {
  CHECK(op.batch->open > 0);
  if (--op.batch->open > 0) return;
  const auto found = std::ranges::find(lost_, op.batch, &std::unique_ptr<ReadBatch>::get);
  CHECK(found != lost_.end());
  pool_.give(std::move((*found)->buffer));
  lost_.erase(found);
}

/// The time at which the read has waited too long; never for one that was given up already.
std::int64_t ReadScheduler::overdue_at(const ReadOp& op) const {
  const ReadClient* client = op.batch->client;
  if (client == nullptr) return INT64_MAX;
  std::int64_t since = client->answered_ns;
  since = std::max(since, op.list == &issued_ ? op.first_ns : std::max(op.queued_ns, answered_ns_));
  return since + answer_limit(*client);
}

std::int64_t ReadScheduler::give_up_overdue(std::int64_t now_ns, Outbox& out) {
  while (true) {
    std::int64_t due = INT64_MAX;
    ReadOp* overdue = nullptr;
    const auto look_at = [&](const ReadList& list) {
      for (ReadOp* op = list.first(); op != nullptr && overdue == nullptr; op = op->after) {
        const std::int64_t at = overdue_at(*op);
        if (at <= now_ns) overdue = op;
        due = std::min(due, at);
      }
    };
    look_at(issued_);
    for (const ReadClient* client = turns_.first(); client != nullptr; client = client->next_turn)
      look_at(client->queued);
    if (overdue == nullptr)
      return due == INT64_MAX ? due : std::clamp(due, now_ns + kLookMinNs, now_ns + kLookMaxNs);
    // Other reads of its batch leave the lists too, so the search starts anew.
    give_up(*overdue, out);
  }
}

/// Gives up the whole batch of a read without an answer; its other reads end too.
void ReadScheduler::give_up(ReadOp& op, Outbox& out) {
  // Memory is taken before anything changes, so that std::bad_alloc leaves the read as it was.
  lost_.reserve(lost_.size() + 1);
  cancelling_.reserve(cancelling_.size() + op.batch->reads.size());
  ReadClient& client = *op.batch->client;
  std::unique_ptr<ReadBatch> batch = op.batch->client->give_up(op, Error{Code::kIo, no_answer(op), 0}, out);
  CHECK(batch && batch->client == nullptr);
  for (ReadOp& other : batch->reads) {
    if (other.list == &issued_) {
      cancelling_.push_back(other.request.token);
      issued_.remove(other);
      stuck_.push_back(other);
      CHECK(client.in_flight > 0 && in_flight_ > 0);
      --client.in_flight;
      --in_flight_;
    } else if (other.list != nullptr) {
      other.list->remove(other);
      --batch->open;
    }
  }
  engine_->wake();
  if (batch->open > 0)
    lost_.push_back(std::move(batch));
  else
    pool_.give(std::move(batch->buffer));
}

}  // namespace carya::loader
