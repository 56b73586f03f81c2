#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "loader/daemon/job_table.h"
#include "loader/host/crash_notes.h"

namespace carya::loader {

/// Attachments under way. Opening a dataset may take as long as a listing, so each attachment has a thread of its own
/// and the serving thread never waits. At most 8 run at a time, at most 4 of them for one process: a process whose
/// listings never end keeps nobody else from attaching.
///
/// The work of a job (WorkFor) is its pipeline's document. It is refused where an earlier daemon crashed while it worked
/// for the same one. Threads: thread-safe.
class AttachThreads {
 public:
  /// An attachment that has ended.
  struct Made {
    std::uint64_t connection = 0;
    std::uint32_t request = 0;
    Result<JobTable::Attachment> attachment;
  };
  /// Records that a listing has seen so far.
  struct Listed {
    std::uint64_t connection = 0;
    std::uint64_t records = 0;
  };
  struct News {
    std::vector<Made> made;
    std::vector<Listed> listed;
  };

  /// `wake` is called from any thread when take() has something to give. All must outlive stop(). `crashes` may be null.
  AttachThreads(JobTable& jobs, const CrashNotes* crashes, std::function<void()> wake);
  ~AttachThreads() { stop(); }

  /// Attach when a thread is free. take() gives the result, also where no thread could be started.
  void start(std::uint64_t connection, std::uint32_t request, std::shared_ptr<AttachCall> call);
  /// The connection is gone: if its attachment still waits for a thread, it is forgotten; if it runs, its listing ends.
  void withdraw(std::uint64_t connection);
  News take();
  /// Forget what waits, end listings, wait for the threads.
  void stop();

 private:
  struct Waiting {
    std::uint64_t connection = 0;
    std::uint32_t request = 0;
    std::shared_ptr<AttachCall> call;
  };
  void run(const Waiting& one);
  bool goes_on(std::uint64_t connection) EXCLUDES(mutex_);
  void start_waiting() REQUIRES(mutex_);

  JobTable& jobs_;
  const CrashNotes* const crashes_;
  const std::function<void()> wake_;
  std::atomic<bool> stop_{false};
  Mutex mutex_;
  News news_ GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::uint32_t> running_ GUARDED_BY(mutex_);  // by process
  std::set<std::uint64_t> wanted_ GUARDED_BY(mutex_);  // connections of those that run, while they are there
  std::deque<Waiting> waiting_ GUARDED_BY(mutex_);
  Condition ended_;
};

}  // namespace carya::loader
