#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "io/segments/write_ledger.h"

namespace carya::loader {

/// Bytes that all tiers of files of a process may write within a day, since a disk wears out by what is written. Counted
/// by hours: what was written counts for at least 24 of them and for less than 25.
///
/// Where there is a limit, it is also counted in a file of the folder that is written to (io::WriteLedger), by the wall
/// clock: so what other processes of the user wrote there, and earlier ones, counts as well. This process counts for
/// itself too, by the monotonic clock: a wall clock that jumps or a file that is damaged allows it no second day's bytes.
///
/// Threads: thread-safe. take() and what it says may wait for the folder's storage; the others never do.
class WriteBudget {
 public:
  static constexpr std::uint64_t kNoLimit = UINT64_MAX;
  static constexpr std::int64_t kHourNs = 3'600'000'000'000;
  /// One time by both clocks.
  struct Moment {
    std::int64_t monotonic_ns = 0, wall_s = 0;
    static Moment now();
  };

  /// `above`: must allow what this one does, too. Where it has a limit, it alone counts in files.
  explicit WriteBudget(std::uint64_t bytes_per_day, std::shared_ptr<WriteBudget> above = nullptr)
      : above_(std::move(above)), limit_(bytes_per_day) {}
  /// The budget of a job's own (a number; 0: of all streams of the process that are in none), below that of who serves
  /// it, which may be null. Streams that ask for the same at the same time share it.
  static std::shared_ptr<WriteBudget> of_job(std::uint64_t job, std::uint64_t bytes_per_day,
                                             const std::shared_ptr<WriteBudget>& above);

  /// What was written to a folder before counts from now on. Waits for its storage. May throw std::bad_alloc.
  void open_folder(const std::string& folder, Moment now);
  /// Counts `bytes` as written to a folder, if the day's limit allows them. Waits for its storage. May throw
  /// std::bad_alloc before it has counted them.
  bool take(const std::string& folder, std::uint64_t bytes, Moment now);
  /// What was taken and not written. Waits for the folder's storage.
  void give_back(const std::string& folder, std::uint64_t bytes, Moment now);
  /// Bytes within the last day: of this process, and of its folders before it opened them.
  std::uint64_t written(Moment now);
  void set_limit(std::uint64_t bytes_per_day);
  std::uint64_t limit() const;

 private:
  struct Ledger {
    Mutex mutex;  // held during I/O
    bool tried GUARDED_BY(mutex) = false;
    std::unique_ptr<io::WriteLedger> file
        GUARDED_BY(mutex);  // null: it cannot be had, and this process counts alone
  };
  std::shared_ptr<Ledger> ledger_of(const std::string& folder, Moment now);
  bool count(std::uint64_t bytes, Moment now);
  void uncount(std::uint64_t bytes);
  void go_on_to(Moment now) REQUIRES(mutex_);

  const std::shared_ptr<WriteBudget> above_;  // null: none

  mutable Mutex mutex_;  // held for moments
  std::uint64_t limit_ GUARDED_BY(mutex_);
  std::int64_t hour_ GUARDED_BY(mutex_) = 0;  // of bytes_[0], by the monotonic clock
  io::HourlyBytes bytes_ GUARDED_BY(mutex_){};
  std::map<std::string, std::shared_ptr<Ledger>> ledgers_ GUARDED_BY(mutex_);  // by folder
};

}  // namespace carya::loader
