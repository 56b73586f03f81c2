#include "io/read/pread_engine.h"

#include <pthread.h>
#include <signal.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/checked.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "io/files/blocking_read.h"
#include "io/files/open_files.h"

namespace carya::io {
namespace {

constexpr std::uint32_t kThreadsMax = 1024;

class PreadEngine final : public ReadEngine {
 public:
  PreadEngine(const ReadEngineOptions& options, const std::string& refused)
      : options_(options),
        name_(refused.empty() ? "pread" : "pread (io_uring: " + refused + ")"),
        files_(options.resolve, options.direct) {
    todo_.reserve(2 * std::size_t{options.depth});
    done_.reserve(2 * std::size_t{options.depth});
    stuck_.reserve(options.depth);
    running_.reserve(kThreadsMax);
    threads_.reserve(kThreadsMax);
  }
  ~PreadEngine() override;
  Status start_threads();

  std::string_view name() const override { return name_; }
  Result<int> add_root(const std::string& directory) override { return files_.add_root(directory); }
  void remove_root(int root) override { files_.remove_root(root); }
  Result<int> add_file(int root, const std::string& path) override { return files_.add_file(root, path); }
  void remove_file(int file) override { files_.remove_file(file); }
  const SourceStamp& file_stamp(int file) const override { return files_.file(file).stamp; }
  Result<SourceStamp> file_stamp_now(int file) const override { return files_.stamp_now(file); }
  std::uint32_t room() const override {
    const auto stuck = static_cast<std::uint32_t>(stuck_.size());
    return std::min(2 * options_.depth - in_flight_,
                    options_.depth - std::min(options_.depth, in_flight_ - stuck));
  }
  std::uint32_t lanes() const override { return lanes_; }
  void widen(std::uint32_t waiting) override;
  void submit(std::span<const ReadRequest> requests) override;
  void cancel(std::uint64_t token) override;
  std::size_t poll(std::span<ReadCompletion> out, int timeout_ms) override;
  void wake() override;

 private:
  struct Job {
    ReadRequest request;
    int fd = -1;           // of the root, or of the file (for this request's offset)
    int buffered_fd = -1;  // of the file, without O_DIRECT
    std::int64_t start_ns = 0;
  };
  /// A read that a thread is busy with; once it was cancelled the thread has a stand-in and ends with it.
  struct Running {
    std::uint64_t token;
    bool cancelled;
  };
  void run();
  bool end_running(std::uint64_t token) REQUIRES(mutex_);
  int start_thread();
  ReadOutcome read(const Job& job) const;

  const ReadEngineOptions options_;
  const std::string name_;
  OpenFiles files_;              // owner only
  std::uint32_t in_flight_ = 0;  // owner only: submitted and not handed out
  std::uint32_t lanes_ = 0;      // owner only: threads that are not stuck for good

  std::vector<std::uint64_t> stuck_;  // owner only: tokens that were cancelled and not handed out

  Mutex mutex_;  // todo_ and done_ have room for all that is in flight
  Condition work_;
  Condition finished_;
  std::vector<Job> todo_ GUARDED_BY(mutex_);  // from todo_begin_ on
  std::size_t todo_begin_ GUARDED_BY(mutex_) = 0;
  std::vector<ReadCompletion> done_ GUARDED_BY(mutex_);
  std::vector<Running> running_ GUARDED_BY(mutex_);
  bool woken_ GUARDED_BY(mutex_) = false;
  bool closing_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // owner only; at most kThreadsMax, those that ended among them
};

/// 0, or the errno of the refusal.
int PreadEngine::start_thread() {
  // The threads take no signals: those are the trainer's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int refused = 0;
  try {
    threads_.emplace_back([this] { run(); });
  } catch (const std::system_error& error) {
    refused = error.code().value();
  } catch (const std::bad_alloc&) {
    refused = ENOMEM;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return refused;
}

Status PreadEngine::start_threads() {
  const std::uint32_t wanted = std::clamp<std::uint32_t>(options_.pread_threads, 1, kThreadsMax);
  int refused = 0;
  for (std::uint32_t i = 0; i < wanted && refused == 0; ++i) refused = start_thread();
  lanes_ = static_cast<std::uint32_t>(threads_.size());
  if (threads_.empty())
    return fail(Code::kExhausted, "start of a read thread: refused; raise the limit of processes (ulimit -u)",
                refused);
  return {};
}

void PreadEngine::widen(std::uint32_t waiting) {
  const std::uint32_t wanted = std::min(waiting, options_.depth);
  for (; lanes_ < wanted && threads_.size() < kThreadsMax && start_thread() == 0; ++lanes_) {
  }
}

PreadEngine::~PreadEngine() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    todo_.clear();
    todo_begin_ = 0;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void PreadEngine::submit(std::span<const ReadRequest> requests) {
  CHECK(requests.size() <= room());
  const std::int64_t now = monotonic_ns();
  {
    const MutexLock lock(mutex_);
    if (todo_.size() + requests.size() > todo_.capacity()) {
      todo_.erase(todo_.begin(), todo_.begin() + static_cast<std::ptrdiff_t>(todo_begin_));
      todo_begin_ = 0;
    }
    for (const ReadRequest& request : requests) {
      Job job{request, -1, -1, now};
      if (request.file >= 0) {
        const OpenFile& file = files_.file(request.file);
        job.fd = (file.use_direct(request.offset) ? file.direct : file.buffered).get();
        job.buffered_fd = file.buffered.get();
      } else {
        job.fd = files_.root_fd(request.root);
      }
      todo_.push_back(job);
    }
  }
  in_flight_ += static_cast<std::uint32_t>(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) work_.notify_one();  // hundreds may wait, for few reads
}

std::size_t PreadEngine::poll(std::span<ReadCompletion> out, int timeout_ms) {
  MutexLock lock(mutex_);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(std::max(timeout_ms, 0));
  while (!woken_ && done_.empty() && finished_.wait_until(lock, limit)) {
  }
  woken_ = false;
  const std::size_t count = std::min(out.size(), done_.size());
  std::copy_n(done_.begin(), count, out.begin());
  for (const ReadCompletion& completion : out.first(count)) std::erase(stuck_, completion.token);
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
  in_flight_ -= static_cast<std::uint32_t>(count);
  return count;
}

void PreadEngine::wake() {
  {
    const MutexLock lock(mutex_);
    woken_ = true;
  }
  finished_.notify_one();
}

void PreadEngine::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!closing_ && todo_begin_ == todo_.size()) work_.wait(lock);
    if (closing_) return;
    const Job job = todo_[todo_begin_++];
    if (todo_begin_ == todo_.size()) todo_.clear(), todo_begin_ = 0;
    running_.push_back({job.request.token, false});
    lock.unlock();
    const ReadOutcome outcome = read(job);
    const ReadCompletion completion{job.request.token, outcome.ok,    outcome.code,
                                    outcome.sys_errno, outcome.bytes, monotonic_ns() - job.start_ns};
    lock.lock();
    done_.push_back(completion);
    if (done_.size() == 1) finished_.notify_one();
    if (end_running(job.request.token)) return;
  }
}

/// Whether it was cancelled.
bool PreadEngine::end_running(std::uint64_t token) {
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const Running& running) { return running.token == token; });
  const bool cancelled = found->cancelled;
  running_.erase(found);
  return cancelled;
}

void PreadEngine::cancel(std::uint64_t token) {
  const auto is_it = [&](const auto& job) { return job.request.token == token; };
  const auto is_running = [&](const Running& running) {
    return running.token == token && !running.cancelled;
  };
  {
    const MutexLock lock(mutex_);
    if (const auto waits =
            std::find_if(todo_.begin() + static_cast<std::ptrdiff_t>(todo_begin_), todo_.end(), is_it);
        waits != todo_.end()) {
      const ReadOutcome outcome = judge_errno(ECANCELED);
      done_.push_back(
          {token, false, outcome.code, outcome.sys_errno, outcome.bytes, monotonic_ns() - waits->start_ns});
      todo_.erase(waits);
      finished_.notify_one();
      return;
    }
    if (std::none_of(running_.begin(), running_.end(), is_running)) return;
  }
  // First the stand-in: where there is none, the thread must go on when it is let go.
  if (threads_.size() == kThreadsMax || start_thread() != 0) return;
  const MutexLock lock(mutex_);
  const auto stuck = std::find_if(running_.begin(), running_.end(), is_running);
  if (stuck == running_.end()) return;  // it has ended just now: one thread more
  stuck->cancelled = true;
  if (stuck_.size() < options_.depth) stuck_.push_back(token);
}

ReadOutcome PreadEngine::read(const Job& job) const {
  const ReadRequest& request = job.request;
  if (request.file < 0) {
    return blocking_read_named(job.fd, request.path, options_.resolve, options_.direct, request.length,
                               request.dest);
  }
  if (job.fd != job.buffered_fd) {
    const std::uint64_t rounded = align_up(request.length, kDirectAlign);
    const ReadOutcome outcome = blocking_read_range(job.fd, request.offset, rounded, request.dest);
    const auto expected = static_cast<std::int64_t>(request.length);
    if (outcome.bytes >= expected) return {true, Code::kIo, 0, expected};
  }
  return blocking_read_range(job.buffered_fd, request.offset, request.length, request.dest);
}

}  // namespace

Result<std::unique_ptr<ReadEngine>> create_pread_engine(const ReadEngineOptions& options,
                                                        const std::string& refused) {
  if (options.depth == 0 || options.depth > kReadDepthMax) {
    return fail(Code::kInvalidArgument, fmt::format("depth {}: 1 to {}", options.depth, kReadDepthMax));
  }
  auto engine = std::make_unique<PreadEngine>(options, refused);
  TRY(engine->start_threads());
  return std::unique_ptr<ReadEngine>(std::move(engine));
}

}  // namespace carya::io
