#include "tests/faults/host.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/clock.h"
#include "loader/control/daemon_stream.h"
#include "tests/faults/trainer.h"

namespace carya::faults {
namespace {

constexpr std::int64_t kPatienceNs = 120'000'000'000, kProgressNs = 240'000'000'000;
constexpr char kConfig[] = "drain_seconds = 0.5\n";

bool wait_until(const std::function<bool()>& holds, std::int64_t patience_ns = kPatienceNs) {
  const std::int64_t end_ns = monotonic_ns() + patience_ns;
  while (!holds()) {
    if (monotonic_ns() > end_ns) return false;
    usleep(1'000);
  }
  return true;
}

/// Shared memory of a type that is good when it is zero.
template <class T>
Result<T*> share(const char* name, int& fd) {
  fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof(T)) != 0) return fail_errno(name, errno);
  void* const mapped = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return fail_errno(name, errno);
  return static_cast<T*>(mapped);
}

void end_process(pid_t& pid) {
  if (pid <= 0) return;
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  pid = -1;
}

}  // namespace

Host::Host(std::string folder) : photos_path_(std::move(folder)) {
  std::string pattern = (std::filesystem::temp_directory_path() / "carya-faults-XXXXXX").string();
  folder_ = mkdtemp(pattern.data());
  if (photos_path_.empty()) {
    photos_ = std::make_unique<loader::PhotoFolder>(static_cast<int>(kRecords));
    for (const int record : {7, 90, 201}) photos_->spoil(record);
    photos_path_ = photos_->path().string();
  }
  std::ofstream(folder_ + "/caryad.toml") << kConfig;
}

Host::~Host() {
  for (pid_t& trainer : trainers_) end_process(trainer);
  end_process(daemon_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Status Host::expect(std::uint64_t rank) {
  ASSIGN(const auto pipeline, transforms::Pipeline::parse(pipeline_text(photos_path_)));
  ASSIGN(const auto dataset, loader::Dataset::open(*pipeline, {}));
  ASSIGN(const auto job, loader::Job::create(pipeline, dataset, rank_options(rank)));
  while (expected_[rank].size() < kEpochs * kSteps) {
    ASSIGN(const loader::Batch batch, job->next(60'000));
    if (batch.epoch * kSteps + batch.step != expected_[rank].size())
      return fail(Code::kCorrupt, "the undisturbed stream is not in order");
    expected_[rank].push_back({batch_hash(*job, batch), batch.position});
  }
  return {};
}

Status Host::start() {
  for (std::uint64_t rank = 0; rank < kWorld; ++rank) TRY(expect(rank));
  ASSIGN(board_, share<Board>("carya-board", board_fd_));
  ASSIGN(clock_, share<FaultClock>("carya-clock", clock_fd_));
  TRY(start_daemon());
  for (std::uint64_t rank = 0; rank < kWorld; ++rank) TRY(start_trainer(rank, 0));
  return wait_progress(kSteps * kEpochs + 2);
}

Result<pid_t> Host::spawn(const std::string& program, const std::vector<std::string>& words,
                          const std::string& fault_point, bool with_board) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const std::string log = folder_ + "/caryad.log";
  const pid_t pid = fork();
  if (pid < 0) return fail_errno("fork", errno);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (with_board) {
      fcntl(board_fd_, F_SETFD, 0);
    } else {
      dup2(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), 2);
    }
    fcntl(clock_fd_, F_SETFD, 0);
    setenv(kFaultClockVariable, std::to_string(clock_fd_).c_str(), 1);
    if (fault_point.empty())
      unsetenv("CARYA_FAULT_POINT");
    else
      setenv("CARYA_FAULT_POINT", fault_point.c_str(), 1);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  return pid;
}

Status Host::start_daemon(const std::string& fault_point) {
  ASSIGN(daemon_,
         spawn(CARYAD_TWIN, {"--socket", socket(), "--config", folder_ + "/caryad.toml", "--linger", "0.5"},
               fault_point, false));
  if (!fault_point.empty()) return {};  // it may be gone before it could answer
  if (!wait_until([&] { return status().has_value(); }))
    return fail(Code::kTimeout, "caryad does not answer");
  return {};
}

Status Host::start_trainer(std::uint64_t rank, std::uint64_t back, const std::string& fault_point) {
  TRY(verify());
  RankBoard& mine = board(rank);
  const std::size_t all = expected_[rank].size();
  if (seen_[rank] > 0) next_[rank] = (next_[rank] + all - back % all) % all;
  // The checkpoint is what the entry before the next one says.
  const std::uint64_t next = next_[rank];
  const bool epoch_begins = next % kSteps == 0;
  const std::uint64_t position = epoch_begins ? 0 : expected_[rank][next - 1].position;
  mine.pause = 0;
  mine.paused = 0;
  mine.reopened = mine.reopen.load();
  mine.failed = 0;
  ASSIGN(trainers_[rank],
         spawn("/proc/self/exe",
               {"--trainer", std::to_string(rank), socket(), photos_path_, std::to_string(board_fd_),
                std::to_string(next / kSteps), std::to_string(position)},
               fault_point, true));
  return {};
}

Result<int> Host::wait_end(pid_t pid) {
  int status = 0;
  if (!wait_until([&] { return waitpid(pid, &status, WNOHANG) == pid; }))
    return fail(Code::kTimeout, "process " + std::to_string(pid) + " does not end");
  return status;
}

Status Host::wait_stopped(pid_t pid) {
  int status = 0;
  if (!wait_until([&] { return waitpid(pid, &status, WNOHANG | WUNTRACED) == pid; }) || !WIFSTOPPED(status))
    return fail(Code::kTimeout, "process " + std::to_string(pid) + " does not stop");
  return {};
}

Result<loader::DaemonStatus> Host::status(int timeout_ms) const {
  ASSIGN(const std::string body,
         loader::ask_daemon(socket(), loader::MessageType::kStatus, loader::Message().body,
                            loader::MessageType::kStatusIs, timeout_ms));
  return loader::decode<loader::DaemonStatus>(body);
}

Result<std::shared_ptr<loader::Job>> Host::newcomer(const std::string& job, std::uint32_t slots) const {
  ASSIGN(const auto pipeline, transforms::Pipeline::parse(pipeline_text(photos_path_)));
  loader::JobOptions options = rank_options(0);
  options.slots = slots;
  loader::DaemonOptions daemon;
  daemon.socket = socket();
  daemon.job = job;
  daemon.cache_dir =
      folder_ + "/cache";  // not the trainers': their listing is in use and not looked at again
  return loader::Job::create(loader::attach_to_daemon(pipeline, options, daemon), options);
}

Status Host::verify_newcomer(loader::Job& job, std::uint64_t batches) const {
  for (std::uint64_t at = 0; at < batches; ++at) {
    ASSIGN(const loader::Batch batch, job.next(120'000));
    const std::uint64_t index = batch.epoch * kSteps + batch.step;
    if (index >= expected_[0].size() || batch_hash(job, batch) != expected_[0][index].hash)
      return fail(Code::kCorrupt, "a newcomer's rows are not those of the undisturbed stream");
  }
  return {};
}

std::string Host::log_tail() const {
  std::ifstream file(folder_ + "/caryad.log");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  return all.substr(all.size() > 3000 ? all.size() - 3000 : 0);
}

Status Host::verify() {
  for (std::uint64_t rank = 0; rank < kWorld; ++rank) {
    RankBoard& mine = board(rank);
    const std::string who = "rank " + std::to_string(rank);
    const std::uint64_t count = mine.count;
    if (count - seen_[rank] > kEntries) return fail(Code::kExhausted, who + ": more entries than are kept");
    for (; seen_[rank] < count; ++seen_[rank], ++verified_) {
      const Entry& entry = mine.entries[seen_[rank] % kEntries];
      const std::uint64_t next = next_[rank];
      const Expected& wanted = expected_[rank][next];
      const std::string place =
          who + ": epoch " + std::to_string(entry.epoch) + " step " + std::to_string(entry.step);
      if (entry.epoch * kSteps + entry.step != next)
        return fail(Code::kCorrupt, place + " came instead of epoch " + std::to_string(next / kSteps) +
                                        " step " + std::to_string(next % kSteps));
      if (entry.hash != wanted.hash || entry.position != wanted.position)
        return fail(Code::kCorrupt, place + ": the rows are not those of the undisturbed stream");
      next_[rank] = (next + 1) % expected_[rank].size();
    }
    if (mine.failed != 0) return fail(Code::kIo, who + " ended: " + std::string(mine.error));
  }
  return {};
}

Status Host::wait_progress(std::uint64_t batches) {
  std::array<std::uint64_t, kWorld> until{};
  for (std::uint64_t rank = 0; rank < kWorld; ++rank) until[rank] = board(rank).count + batches;
  Status good;
  const bool moved = wait_until(
      [&] {
        good = verify();
        if (!good) return true;
        for (std::uint64_t rank = 0; rank < kWorld; ++rank)
          if (board(rank).count < until[rank]) return false;
        return true;
      },
      kProgressNs);
  TRY(good);
  if (moved) return {};
  std::string still;
  for (std::uint64_t rank = 0; rank < kWorld; ++rank)
    if (board(rank).count < until[rank]) still += " " + std::to_string(rank);
  return fail(Code::kTimeout, "no batches come any more at rank" + still);
}

std::optional<std::int64_t> Host::first_after(std::uint64_t rank, std::int64_t after_ns,
                                              std::uint64_t reattached) const {
  const RankBoard& mine = board_->ranks[rank];
  const std::uint64_t count = mine.count;
  std::optional<std::int64_t> found;
  for (std::uint64_t i = count; i > 0 && count - i < kEntries - 8; --i) {
    const Entry& entry = mine.entries[(i - 1) % kEntries];
    if (entry.at_ns <= after_ns) break;
    if (entry.reattached >= reattached) found = entry.at_ns;
  }
  return found;
}

std::uint64_t Host::reattached(std::uint64_t rank) const {
  const RankBoard& mine = board_->ranks[rank];
  return mine.entries[(mine.count - 1) % kEntries].reattached;
}

std::string Host::look_for_leaks() {
  for (std::uint64_t rank = 0; rank < kWorld; ++rank)
    if (board(rank).paused == 0) return "rank " + std::to_string(rank) + " does not pause";
  const auto now = status();
  if (!now) return "caryad does not answer: " + now.error().message;
  if (now->jobs.size() != 1) return std::to_string(now->jobs.size()) + " jobs";
  if (now->connections != kWorld + 1) return std::to_string(now->connections) + " connections";
  std::uint64_t held = 0;
  for (const auto& rank : now->jobs[0].ranks) {
    if (rank.readers.size() != 1) return std::to_string(rank.readers.size()) + " readers of a rank";
    held += rank.readers[0].held;
  }
  if (held != 0) return std::to_string(held) + " slots held";
  if (counted_ && now->shared_bytes > shared_before_)
    return std::to_string(now->shared_bytes) + " bytes of slots; before: " + std::to_string(shared_before_);
  if (!counted_) {
    usleep(300'000);  // what was on its way has come
    shared_before_ = now->shared_bytes;
    daemon_before_ = Census::of(daemon_);
    for (std::uint64_t rank = 0; rank < kWorld; ++rank) trainers_before_[rank] = Census::of(trainers_[rank]);
    counted_ = true;
    return "";
  }
  if (const std::string more = Census::of(daemon_).beyond(daemon_before_); !more.empty())
    return "caryad: " + more;
  for (std::uint64_t rank = 0; rank < kWorld; ++rank)
    if (const std::string more = Census::of(trainers_[rank]).beyond(trainers_before_[rank]); !more.empty())
      return "rank " + std::to_string(rank) + ": " + more;
  return "";
}

std::string Host::leaks() {
  for (RankBoard& rank : board_->ranks) rank.pause = 1;
  std::string left;
  wait_until([&] {
    left = look_for_leaks();
    return left.empty();
  });
  for (RankBoard& rank : board_->ranks) rank.pause = 0;
  return left;
}

}  // namespace carya::faults
