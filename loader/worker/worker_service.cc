#include "loader/worker/worker_service.h"

#include <fmt/core.h>
#include <algorithm>
#include <exception>
#include <system_error>

#include "base/clock.h"
#include "base/mutex.h"
#include "loader/program/event_field.h"
#include "loader/wire/compatibility.h"

namespace carya::loader {
namespace {

constexpr std::int64_t kRefusalLogNs = 1'000'000'000;
constexpr const char* kUnwanted = "worker: nobody wants it any more";

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A result in memory that lives until it was sent.
remote::Payload payload_of(std::unique_ptr<std::byte[]> bytes, std::size_t count) {
  const std::shared_ptr<std::byte[]> owner(std::move(bytes));
  return {.parts = {std::span<const std::byte>(owner.get(), count)}, .owner = owner};
}

}  // namespace

WorkerService::WorkerService(WorkerOptions options) : options_(std::move(options)) {
  if (!options_.log) options_.log = [](const std::string&) {};
}

WorkerService::~WorkerService() {
  stop();
}

Status WorkerService::start(remote::ChunkServer& server) {
  server_ = &server;
  ASSIGN(files_, RecordFiles::open(options_.roots, options_.record_bytes_max));
  try {
    for (std::uint32_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& refused) {
    return fail(Code::kExhausted, fmt::format("worker: start of thread {}: {}; lower --threads",
                                              threads_.size() + 1, refused.what()));
  }
  return {};
}

void WorkerService::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    jobs_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

Result<std::vector<remote::Fact>> WorkerService::admit(std::uint64_t connection, const remote::Hello& hello,
                                                       const remote::ClientUser& user) {
  TRY(check_remote_facts(hello.facts));
  options_.log("welcome" + field("connection", connection) + field("client", hello.client) +
               field("user", user.name) + field("proven", user.proven ? "yes" : "no"));
  std::vector<remote::Fact> facts = remote_facts();
  facts.push_back({kCoresFact, std::to_string(options_.threads)});
  return facts;
}

void WorkerService::register_plan(remote::Asked asked) {
  add({.asked = std::move(asked), .plan = nullptr});
}

void WorkerService::compute(remote::Asked asked) {
  std::shared_ptr<const WorkerPlan> plan;
  {
    const MutexLock lock(mutex_);
    const auto found = plans_.find({asked.ticket.connection, asked.plan});
    if (found != plans_.end()) plan = found->second;
  }
  // The server itself answers for plans that it does not know; this one was dropped meanwhile.
  if (!plan) return server_->answer(asked.ticket, fail(Code::kNotFound, "worker: the plan was dropped"));
  add({.asked = std::move(asked), .plan = std::move(plan)});
}

void WorkerService::forget_plan(std::uint64_t connection, std::uint64_t plan) {
  const MutexLock lock(mutex_);
  plans_.erase({connection, plan});
}

void WorkerService::cancel(const remote::Ticket& ticket) {
  drop([&](const remote::Ticket& other) { return other.serial == ticket.serial; });
}

/// What nobody wants. What is not begun is answered all the same: until then it keeps its place among those that the
/// server hands over. What is being computed is given up, and its thread answers.
void WorkerService::drop(const std::function<bool(const remote::Ticket&)>& unwanted) {
  std::vector<remote::Ticket> dropped;
  {
    const MutexLock lock(mutex_);
    std::erase_if(jobs_, [&](const Job& job) {
      if (!unwanted(job.asked.ticket)) return false;
      dropped.push_back(job.asked.ticket);
      return true;
    });
    for (Running* running : running_)
      if (unwanted(running->ticket)) running->unwanted = true;
  }
  for (const remote::Ticket& ticket : dropped) server_->answer(ticket, fail(Code::kClosed, kUnwanted));
}

void WorkerService::gone(std::uint64_t connection, const std::string& peer, const Error& reason) {
  {
    const MutexLock lock(mutex_);
    std::erase_if(plans_, [&](const auto& plan) { return plan.first.first == connection; });
  }
  drop([&](const remote::Ticket& ticket) { return ticket.connection == connection; });
  options_.log("gone" + field("connection", connection) + field("peer", peer) + field("why", reason.message));
}

void WorkerService::refused(const std::string& peer, const Error& reason) {
  ++refusals_;
  const std::int64_t now_ns = monotonic_ns();
  if (refusal_logged_ns_ > 0 && now_ns - refusal_logged_ns_ < kRefusalLogNs) return;
  options_.log("refused" + field("peer", peer) + field("why", reason.message) + field("count", refusals_));
  refusal_logged_ns_ = now_ns;
  refusals_ = 0;
}

void WorkerService::not_renewed(const Error& reason) {
  options_.log("those from before stay" + field("why", reason.message));
}

void WorkerService::add(Job job) {
  {
    const MutexLock lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void WorkerService::work() {
  transforms::Scratch scratch;
  MutexLock lock(mutex_);
  while (true) {
    while (!stopping_ && jobs_.empty()) changed_.wait(lock);
    if (stopping_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    Running running{.ticket = job.asked.ticket};
    running_.push_back(&running);
    lock.unlock();
    Result<remote::Answer> answer = fail(Code::kExhausted, "worker: no memory");
    const std::int64_t begin_ns = monotonic_ns();
    try {
      answer = job.plan ? run(job, running, scratch) : compile(job.asked);
    } catch (const std::exception& thrown) {  // a library's, or no memory: the chunk is done elsewhere
      answer = fail(Code::kExhausted, std::string("worker: ") + thrown.what());
    }
    if (!answer && running.unwanted) answer = fail(Code::kClosed, kUnwanted);
    if (answer) answer->thread_ns = monotonic_ns() - begin_ns;
    server_->answer(job.asked.ticket, std::move(answer));
    lock.lock();
    std::erase(running_, &running);
  }
}

Result<remote::Answer> WorkerService::compile(const remote::Asked& asked) {
  if (asked.payload->bytes > options_.plan_bytes_max)
    return fail(Code::kInvalidArgument,
                fmt::format("worker: a plan of {} bytes; give at most {}, or the worker more --memory",
                            asked.payload->bytes, options_.plan_bytes_max));
  const MutexLock one(compiling_);
  ASSIGN(const RemotePlan document, decode_remote<RemotePlan>(asked.payload->span()));
  ASSIGN(auto plan, WorkerPlan::compile(
                        document, {.pixels_max = options_.pixels_max,
                                   .ns_max = static_cast<std::uint64_t>(options_.chunk_ms) * 1'000'000}));
  const RemoteReady ready = ready_for(document);
  const MutexLock lock(mutex_);
  plans_[{asked.ticket.connection, asked.plan}] = std::move(plan);
  return remote::Answer{.about = encode_remote(ready)};
}

RemoteReady WorkerService::ready_for(const RemotePlan& plan) const {
  if (files_.none() || plan.files.empty()) return {};
  const Status seen = files_.check(plan.files);
  return {.reads = seen.has_value(),
          .note = seen ? "it reads records itself" : "it is sent records: " + seen.error().message};
}

Result<remote::Answer> WorkerService::run(const Job& job, const Running& running,
                                          transforms::Scratch& scratch) const {
  ASSIGN(const RemoteChunk chunk, decode_remote<RemoteChunk>(bytes_of(job.asked.about)));
  ASSIGN(const std::uint64_t bytes, job.plan->result_bytes(chunk));
  if (bytes != job.asked.result_bytes)
    return fail(Code::kCorrupt, fmt::format("remote chunk: the result has {} bytes, asked for are {}", bytes,
                                            job.asked.result_bytes));
  auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
  const std::int64_t until_ns = monotonic_ns() + options_.chunk_ms * 1'000'000;
  const auto go_on = [&] { return !stopping_ && !running.unwanted && monotonic_ns() < until_ns; };
  WorkerPlan::ReadRecord read;
  if (!files_.none())
    read = [this](const RemoteAddress& address, std::vector<std::byte>& into) {
      return files_.read(address, into);
    };
  ASSIGN(const RemoteResult result, job.plan->compute(chunk, job.asked.payload->span(), scratch,
                                                      std::span(memory.get(), bytes), go_on, read));
  return remote::Answer{.about = encode_remote(result), .payload = payload_of(std::move(memory), bytes)};
}

}  // namespace carya::loader
