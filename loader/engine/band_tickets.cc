// This is the only file that knows oneTBB. The thread sanitizer does not instrument it, and sees nothing inside of the
// library. BandCrew has a lock of its own around all that threads share.

#include "loader/engine/band_tickets.h"

#ifdef CARYA_ONETBB

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

namespace carya::loader {
namespace {

class TaskGroup final : public TicketOffice {
 public:
  TaskGroup(TicketWork& work, tbb::task_group& group) : work_(work), group_(group) {}
  bool add() override {
    try {
      group_.run([&work = work_] { work.help(); });
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

 private:
  TicketWork& work_;
  tbb::task_group& group_;
};

}  // namespace

/// A forked child has copies of the library's locks as they were, and none of its threads.
bool tickets_available() {
  static std::atomic<pid_t> user{0};
  const pid_t mine = getpid();
  // Relaxed: only the value counts. The first process that asks is the one that may use the library.
  pid_t known = user.load(std::memory_order_relaxed);
  if (known == 0 && user.compare_exchange_strong(known, mine, std::memory_order_relaxed)) return true;
  return known == mine;
}

void run_with_tickets(TicketWork& work) {
  // Isolation keeps a thread that waits here from taking another stream's bands, which would delay its own picture.
  tbb::this_task_arena::isolate([&work] {
    tbb::task_group group;
    TaskGroup office(work, group);
    work.lead(office);
    group.wait();
  });
}

}  // namespace carya::loader

#else

namespace carya::loader {
namespace {

class NoThreads final : public TicketOffice {
 public:
  bool add() override { return false; }
};

}  // namespace

bool tickets_available() {
  return false;
}

void run_with_tickets(TicketWork& work) {
  NoThreads none;
  work.lead(none);
}

}  // namespace carya::loader

#endif
