#include "loader/read/read_scheduler.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>

#include "base/clock.h"
#include "io/files/open_failure.h"
#include "io/files/record_file.h"

namespace carya::loader {
namespace {

constexpr int kIdleMs = 3'600'000;
/// A shorter io_timeout bounds the retries; storage has at least this long to answer.
constexpr std::int64_t kAnswerMinNs = 1'000'000'000;
/// Who may not read a file now may not do so in half a minute either; a folder that is being mounted may.
constexpr std::int64_t kForbiddenMaxNs = 1'000'000'000;
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

std::int64_t answer_limit(const Production& production) {
  return std::max(production.options().io_timeout_ns, kAnswerMinNs);
}

std::string no_answer(const ReadOp& op) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3g", static_cast<double>(answer_limit(*op.chunk->owner)) / 1e9);
  return subject(op) + ": no answer for " + seconds +
         " s; its storage hangs: look at the mount, or give a longer io_timeout=";
}

}  // namespace

Reader::Reader(std::unique_ptr<io::ReadEngine> engine, ReadBufferPool& pool)
    : pool_(pool), engine_(std::move(engine)), sources_(*engine_) {
  requests_.reserve(engine_->room());
  starting_.reserve(engine_->room());
  refused_.reserve(engine_->room());
}

// What is lost may be written to until the read engine is gone.
Reader::~Reader() {
  engine_.reset();
}

void Reader::queue(std::vector<ReadOp*>& reads) {
  if (reads.empty()) return;
  const std::int64_t now = monotonic_ns();
  for (ReadOp* op : reads) {
    op->queued_ns = now;
    (op->due_ns > now ? waiting_ : queued_).push_back(*op);
  }
  reads.clear();
  engine_->wake();
}

void Reader::forget(std::uint64_t job) {
  try {
    leaving_.push_back(job);
  } catch (const std::bad_alloc&) {
    return;  // what it had open stays so as long as the engine
  }
  engine_->wake();
}

void Reader::take() {
  const std::int64_t now = monotonic_ns();
  requeue_due(now);
  for (std::uint32_t room = engine_->room(); room > 0 && !queued_.empty(); --room) {
    ReadOp& op = *queued_.first();
    queued_.remove(op);
    issued_.push_back(op);
    if (op.first_ns == 0) op.first_ns = now;
    if (const Production* job = op.chunk->owner) wanted_ = std::max(wanted_, job->flow().reads);
    ++op.attempts;
    starting_.push_back(&op);
  }
  cancels_.swap(cancelling_);
  forgets_.swap(leaving_);
  std::int64_t due = INT64_MAX;
  for (const ReadOp* op = waiting_.first(); op != nullptr; op = op->after) due = std::min(due, op->due_ns);
  const std::int64_t wait = due == INT64_MAX ? kIdleMs : (due - now) / 1'000'000 + 1;
  wait_ms_ = static_cast<int>(std::clamp<std::int64_t>(wait, 0, kIdleMs));
}

void Reader::requeue_due(std::int64_t now_ns) {
  for (ReadOp* op = waiting_.first(); op != nullptr;) {
    ReadOp* const after = op->after;
    if (op->due_ns <= now_ns) {
      waiting_.remove(*op);
      op->queued_ns = now_ns;
      queued_.push_back(*op);
    }
    op = after;
  }
}

bool Reader::stop() {
  if (!std::exchange(stopping_, true))
    for (const ReadOp* op = issued_.first(); op != nullptr; op = op->after)
      cancels_.push_back(op->request.token);
  wait_ms_ = kIdleMs;
  return !issued_.empty();
}

void Reader::start() {
  for (const std::uint64_t token : cancels_) engine_->cancel(token);
  cancels_.clear();
  for (const std::uint64_t job : forgets_) sources_.forget(job);
  forgets_.clear();
  if (wanted_ > widened_) engine_->widen(widened_ = wanted_);
  for (ReadOp* op : starting_) {  // their lists have room
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

bool Reader::poll() {
  done_count_ = engine_->poll(done_, refused_.empty() ? wait_ms_ : 0);
  return done_count_ > 0 || !refused_.empty();
}

void Reader::finish(Outbox& out) {
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

void Reader::finish_read(ReadOp& op, const io::ReadCompletion& completion, const Error* refused,
                         Outbox& out) {
  sources_.leave(op);
  op.list->remove(op);
  if (op.chunk->owner == nullptr) return end_lost(op);
  Production& production = *op.chunk->owner;
  production.note_answer(answered_ns_);
  if (completion.ok) return production.read_done(op, completion, std::nullopt, out);
  const std::int64_t wait =
      std::min(kRetryMaxNs, kRetryFirstNs << std::min<std::uint32_t>(op.attempts - 1, 10));
  std::int64_t most = production.options().io_timeout_ns;
  if (forbidden(completion)) most = std::min(most, kForbiddenMaxNs);
  if (!op.chunk->step->dropped && answered_ns_ + wait - op.first_ns < most) {
    op.due_ns = answered_ns_ + wait;
    waiting_.push_back(op);
    production.count_retry();
    return;
  }
  // Whatever the system called it, to a stream it is storage: never bad data.
  Error error = out_of_memory();
  if (completion.sys_errno != ENOMEM) {
    try {
      error = {Code::kIo, read_failure(op, completion, refused), completion.sys_errno};
    } catch (const std::bad_alloc&) {  // then that is what is said
    }
  }
  production.read_done(op, completion, std::move(error), out);
}

/// The kernel has let go of a read that was given up; with the last of its chunk the memory is free.
void Reader::end_lost(ReadOp& op) {
  if (--op.chunk->reads_open > 0) return;
  const auto found = std::find_if(lost_.begin(), lost_.end(),
                                  [&](const Lost& lost) { return lost.chunk.get() == op.chunk; });
  CHECK(found != lost_.end());
  pool_.give(std::move(found->chunk->buffer));
  lost_.erase(found);
}

/// When the read has waited too long; never for one that was given up already.
std::int64_t Reader::overdue_at(const ReadOp& op) const {
  const Production* production = op.chunk->owner;
  if (production == nullptr) return INT64_MAX;
  std::int64_t since = production->answered_ns();
  since = std::max(since, op.list == &queued_ ? std::max(op.queued_ns, answered_ns_) : op.first_ns);
  return since + answer_limit(*production);
}

std::int64_t Reader::give_up_overdue(std::int64_t now_ns, Outbox& out) {
  while (true) {
    std::int64_t due = INT64_MAX;
    ReadOp* overdue = nullptr;
    for (const ReadList* list : {&issued_, &queued_})
      for (ReadOp* op = list->first(); op != nullptr && overdue == nullptr; op = op->after) {
        const std::int64_t at = overdue_at(*op);
        if (at <= now_ns) overdue = op;
        due = std::min(due, at);
      }
    if (overdue == nullptr)
      return due == INT64_MAX ? due : std::clamp(due, now_ns + kLookMinNs, now_ns + kLookMaxNs);
    give_up(*overdue, out);
  }
}

/// The whole chunk of a read without an answer: its other reads are ended too.
void Reader::give_up(ReadOp& op, Outbox& out) {
  lost_.reserve(lost_.size() + 1);
  cancelling_.reserve(cancelling_.size() + op.chunk->reads.size());
  const std::shared_ptr<const Dataset> dataset = op.chunk->owner->dataset();
  std::unique_ptr<Chunk> chunk = op.chunk->owner->give_up(op, Error{Code::kIo, no_answer(op), 0}, out);
  for (ReadOp& other : chunk->reads) {
    if (other.list == &issued_) {
      cancelling_.push_back(other.request.token);
    } else if (other.list != nullptr) {
      other.list->remove(other);
      --chunk->reads_open;
    }
  }
  engine_->wake();
  if (chunk->reads_open > 0)
    lost_.push_back({std::move(chunk), dataset});
  else
    pool_.give(std::move(chunk->buffer));
}

}  // namespace carya::loader
