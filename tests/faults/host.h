#pragma once

#include <sys/types.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "loader/control/documents.h"
#include "loader/job/job.h"
#include "tests/faults/board.h"
#include "tests/faults/census.h"
#include "tests/faults/fault_clock.h"
#include "tests/loader/photo_folder.h"

namespace carya::faults {

/// A caryad and three trainers on photos of their own, and the undisturbed stream beside which they are held.
/// All processes are children of the harness and end with it. Threads: owner only.
class Host {
 public:
  explicit Host(std::string folder = "");  ///< of photos; "": own ones are made
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  /// The undisturbed stream; daemon, trainers, some batches of each.
  Status start();

  // Processes. A fault point is "" or as base/fault_point.h says.
  std::string socket() const { return folder_ + "/caryad.sock"; }
  std::string photos() const { return photos_path_; }
  pid_t daemon() const { return daemon_; }
  pid_t trainer(std::uint64_t rank) const { return trainers_[rank]; }
  /// Start it; waits until it answers, at most 20 s.
  Status start_daemon(const std::string& fault_point = "");
  /// Start a rank at a checkpoint: `back` batches before its last.
  Status start_trainer(std::uint64_t rank, std::uint64_t back, const std::string& fault_point = "");
  /// Wait for the end of a process, at most 20 s. Gives the status as waitpid() does.
  static Result<int> wait_end(pid_t pid);
  /// Wait until it is stopped, at most 20 s.
  static Status wait_stopped(pid_t pid);
  Result<loader::DaemonStatus> status(int timeout_ms = 120'000) const;
  /// The last lines of the daemon's log.
  std::string log_tail() const;
  /// What daemon and trainers take for the time of day.
  FaultClock& clock() { return *clock_; }

  /// A reader in this process, of a job of its own: rank 0's stream once more. The daemon lists the photos
  /// anew for it. Errors: what the daemon says.
  Result<std::shared_ptr<loader::Job>> newcomer(const std::string& job, std::uint32_t slots) const;
  /// Its next batches are those of the undisturbed stream's beginning.
  Status verify_newcomer(loader::Job& job, std::uint64_t batches) const;

  // The stream.
  RankBoard& board(std::uint64_t rank) { return board_->ranks[rank]; }
  /// Compare what has come since the last call. Errors: kCorrupt, with rank and place.
  Status verify();
  /// Every rank delivers `batches` more, at most 40 s. Verifies.
  Status wait_progress(std::uint64_t batches);
  /// The first batch of the rank that came after the moment, of at least so many re-attachments.
  std::optional<std::int64_t> first_after(std::uint64_t rank, std::int64_t after_ns,
                                          std::uint64_t reattached) const;
  std::uint64_t reattached(std::uint64_t rank) const;
  std::uint64_t verified() const { return verified_; }

  /// Trainers stop and give everything back; nothing may be left that was not there at the first call, and no
  /// slot may be held. Waits at most 20 s for that. Gives what is left, "" for nothing.
  std::string leaks();

 private:
  Status expect(std::uint64_t rank);
  Result<pid_t> spawn(const std::string& program, const std::vector<std::string>& words,
                      const std::string& fault_point, bool with_board);
  std::string look_for_leaks();

  std::string folder_, photos_path_;
  std::unique_ptr<loader::PhotoFolder> photos_;
  int board_fd_ = -1;
  Board* board_ = nullptr;
  int clock_fd_ = -1;
  FaultClock* clock_ = nullptr;
  pid_t daemon_ = -1;
  std::array<pid_t, kWorld> trainers_{-1, -1, -1};

  struct Expected {
    std::uint64_t hash, position;
  };
  std::array<std::vector<Expected>, kWorld> expected_;  // by epoch * kSteps + step
  std::array<std::uint64_t, kWorld> next_{};            // index in expected_ of the next entry
  std::array<std::uint64_t, kWorld> seen_{};            // entries verified
  std::uint64_t verified_ = 0;

  bool counted_ = false;  // what follows is set
  Census daemon_before_;
  std::array<Census, kWorld> trainers_before_;
  std::uint64_t shared_before_ = 0;
};

}  // namespace carya::faults
