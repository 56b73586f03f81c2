#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "loader/host/leak.h"
#include "tests/daemon/daemon_process.h"

namespace carya::loader {

inline DaemonOptions replica(std::uint32_t number, std::uint32_t replicas = 2) {
  return {.replica = number, .replicas = replicas};
}

/// Rows of the next batches.
inline std::vector<std::uint64_t> take(Job& job, int batches, std::vector<Batch>* kept = nullptr) {
  std::vector<std::uint64_t> rows;
  for (int i = 0; i < batches; ++i) {
    Result<Batch> batch = job.next(120'000);
    EXPECT_TRUE(batch) << (batch ? "" : batch.error().message);
    if (!batch) break;
    const auto hashes = row_hashes(job, *batch);
    rows.insert(rows.end(), hashes.begin(), hashes.end());
    if (kept != nullptr) kept->push_back(std::move(*batch));
  }
  return rows;
}

/// A reader in a process of its own: takes so many batches and holds them, and waits until so
/// many more are ready. Then it dies when that is wanted;
/// else it closes its loader and lives on.
class OtherProcess {
 public:
  enum class Then : std::uint8_t { kDies, kCloses };
  OtherProcess(const DaemonProcess& daemon, const Opened& opened, const JobOptions& options,
               const DaemonOptions& seat, int batches, Then then, std::uint64_t ready = 0) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      auto job = daemon.open(opened, options, seat);
      for (int i = 0; job && i < batches; ++i) {
        auto batch = (*job)->next(120'000);
        if (!batch) _exit(1);
        leak(std::move(*batch));
      }
      if (!job || !eventually(daemon, [ready](const DaemonStatus& now) {
            return now.jobs.at(0).ranks.at(0).ready >= ready;
          }))
        _exit(2);
      if (then == Then::kCloses) (*job)->close();
      if (write(ends[1], "x", 1) != 1) _exit(3);
      if (then == Then::kDies) raise(SIGKILL);
      while (true) pause();
    }
    close(ends[1]);
    char byte = 0;
    EXPECT_EQ(read(ends[0], &byte, 1), 1) << "the other process did not get so far";
    close(ends[0]);
    if (then == Then::kDies) end();
  }
  ~OtherProcess() { end(); }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
};

inline bool has_readers(const DaemonProcess& daemon, std::size_t count) {
  return eventually(daemon, [count](const DaemonStatus& status) {
    return status.jobs.size() == 1 && status.jobs[0].ranks.at(0).readers.size() == count;
  });
}

}  // namespace carya::loader
