#include "tests/faults/trainer.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <span>

#include "base/clock.h"
#include "base/hash.h"
#include "loader/control/daemon_stream.h"

namespace carya::faults {
namespace {

constexpr std::size_t kHeld = 2;  // batches that a trainer holds while it waits for the next
constexpr int kNextMs = 120'000;
constexpr useconds_t kStepUs = 2'000;

/// From inside, and in the middle of anything: the control connection is shut, whatever uses it.
void shut_control(int) {
  const int error = errno;
  for (int fd = 3; fd < 64; ++fd) {
    int type = 0;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET)
      shutdown(fd, SHUT_RDWR);
  }
  errno = error;
}

class Trainer {
 public:
  Trainer(RankBoard& board, std::uint64_t rank, std::string socket, const std::string& folder)
      : board_(board),
        options_(rank_options(rank)),
        socket_(std::move(socket)),
        text_(pipeline_text(folder)) {}

  Status run(std::uint64_t epoch, std::uint64_t position) {
    TRY(open(epoch, position));
    while (true) {
      if (board_.pause != 0) {
        TRY(release_to(0));
        board_.paused = 1;
        while (board_.pause != 0) usleep(500);
        board_.paused = 0;
      }
      if (const std::uint32_t wish = board_.reopen; wish != board_.reopened) {
        TRY(release_to(0));
        job_->close();
        job_.reset();
        TRY(open(options_.epoch, options_.position));
        board_.reopened = wish;
      }
      TRY(step());
      TRY(release_to(kHeld));
      usleep(kStepUs);
    }
  }

 private:
  struct Held {
    loader::Batch batch;
    std::uint64_t hash;
    std::shared_ptr<loader::Job> job;
  };

  Status open(std::uint64_t epoch, std::uint64_t position) {
    options_.epoch = epoch;
    options_.position = position;
    ASSIGN(const auto pipeline, transforms::Pipeline::parse(text_));
    loader::DaemonOptions daemon;
    daemon.socket = socket_;
    daemon.job = "faults";
    ASSIGN(job_, loader::Job::create(loader::attach_to_daemon(pipeline, options_, daemon), options_));
    return {};
  }
  Status step() {
    Result<loader::Batch> got = job_->next(kNextMs);
    if (!got && got.error().code == Code::kTimeout && got.error().sys_errno == EINTR) return {};  // again
    if (!got) return std::unexpected(std::move(got.error()));
    loader::Batch batch = std::move(*got);
    const std::uint64_t hash = batch_hash(*job_, batch);
    const std::uint64_t count = board_.count;
    board_.entries[count % kEntries] = {batch.epoch, batch.step,         batch.position,
                                        hash,        job_->reattached(), monotonic_ns()};
    board_.count = count + 1;
    options_.epoch = batch.last ? batch.epoch + 1 : batch.epoch;
    options_.position = batch.last ? 0 : batch.position;
    held_.push_back({std::move(batch), hash, job_});
    if (options_.epoch < kEpochs) return {};
    options_.epoch = 0;
    return job_->seek(0, 0);
  }
  /// What was leased must be what it was until the last moment.
  Status release_to(std::size_t count) {
    while (held_.size() > count) {
      const Held& oldest = held_.front();
      if (batch_hash(*oldest.job, oldest.batch) != oldest.hash)
        return fail(Code::kCorrupt, "a batch changed while it was held: epoch " +
                                        std::to_string(oldest.batch.epoch) + " step " +
                                        std::to_string(oldest.batch.step));
      held_.pop_front();
    }
    return {};
  }

  RankBoard& board_;
  loader::JobOptions options_;
  const std::string socket_, text_;
  std::shared_ptr<loader::Job> job_;
  std::deque<Held> held_;
};

}  // namespace

std::string pipeline_text(const std::string& folder) {
  return R"({"version":1,"source":{"type":"image_folder","path":")" + folder +
         R"("},"views":[],"shuffle":{"seed":5},"ops":[{"op":"decode_image"},)"
         R"({"op":"random_resized_crop","size":[16,16]},{"op":"random_horizontal_flip"}],)"
         R"("batch":{"batch_size":null,"global_size":)" +
         std::to_string(kWorld * 4) + R"(,"drop_last":true,"pad_last":false}})";
}

loader::JobOptions rank_options(std::uint64_t rank) {
  loader::JobOptions options;
  options.rank = rank;
  options.world_size = kWorld;
  options.threads = 2;
  options.on_error = transforms::OnError::kMask;
  options.io_timeout_s = 300;  // a fault may last long where the machine is slow
  return options;
}

std::uint64_t batch_hash(const loader::Job& job, const loader::Batch& batch) {
  std::uint64_t hash = batch.rows;
  for (const shm::SlotTensor& tensor : job.layout().tensors()) {
    const std::uint64_t bytes = tensor.bytes() / tensor.shape[0] * batch.rows;
    hash = hash64(std::span(batch.lease.data() + tensor.offset, bytes), hash);
  }
  return hash;
}

int run_trainer(const std::vector<std::string>& words) {
  if (words.size() != 6) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGUSR1, shut_control);
  const std::uint64_t rank = std::stoull(words[0]);
  void* mapped = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, std::stoi(words[3]), 0);
  if (mapped == MAP_FAILED || rank >= kWorld) return 2;
  close(std::stoi(words[3]));
  RankBoard& board = static_cast<Board*>(mapped)->ranks[rank];
  const Status ended =
      Trainer(board, rank, words[1], words[2]).run(std::stoull(words[4]), std::stoull(words[5]));
  std::strncpy(board.error, ended.error().message.c_str(), sizeof(board.error) - 1);
  board.failed = 1;
  return 1;
}

}  // namespace carya::faults
