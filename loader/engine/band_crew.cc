#include "loader/engine/band_crew.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "loader/engine/band_tickets.h"

namespace carya::loader {
namespace {

// help() sees what a thread wrote before add(), and the thread that waits sees what help() wrote: oneTBB guarantees it.
// The thread sanitizer does not look into the library, so hand_over() repeats the order. Release pairs with acquire.
std::atomic<std::uint64_t> handed_over{0};

void hand_over() {
  handed_over.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace

/// One piece of work. Its lock is held only between two steps, and orders what they write.
class BandCrew::Session final : public TicketWork {
 public:
  Session(SpareCores& cores, BandWork& work, int parts, int lanes)
      : cores_(cores),
        work_(work),
        lanes_(lanes),
        has_rest_(work.has_rest()),
        parts_(parts),
        free_lanes_((1U << lanes) - 2) {}

  void lead(TicketOffice& office) noexcept override {
    do {
      while (wants_helper()) {
        if (!cores_.take()) {
          lose_helper();
          break;
        }
        hand_over();
        if (!office.add()) {
          cores_.give();
          lose_helper();
          break;
        }
      }
    } while (step(0, true));
  }

  void help() noexcept override {
    hand_over();
    const std::int64_t start_ns = thread_cpu_ns();
    if (const int lane = enter(); lane > 0) {
      while (step(lane, false) && cores_.keep()) {
      }
      leave(lane, thread_cpu_ns() - start_ns);
    }
    lose_helper();
    cores_.give();
    hand_over();
  }

  bool good() const EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return !failed_;
  }
  bool out_of_memory() const EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return out_of_memory_;
  }
  std::int64_t helped_ns() const EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return helped_ns_;
  }

 private:
  // A helper needs two parts that are left: one for it, and one for the leader.
  bool wants_helper() {
    const MutexLock lock(mutex_);
    if (failed_ || helpers_ + 1 >= lanes_ || parts_ - begun_ < 2) return false;
    ++helpers_;
    return true;
  }
  void lose_helper() {
    const MutexLock lock(mutex_);
    --helpers_;
  }

  // Returns 0 if there is nothing left to do, as for a ticket that no thread took before the end.
  int enter() {
    const MutexLock lock(mutex_);
    if (failed_ || begun_ == parts_) return 0;
    CHECK(free_lanes_ != 0);
    const int lane = __builtin_ctz(free_lanes_);
    free_lanes_ &= free_lanes_ - 1;
    return lane;
  }
  void leave(int lane, std::int64_t cpu_ns) {
    const MutexLock lock(mutex_);
    free_lanes_ |= 1U << lane;
    helped_ns_ += cpu_ns;
  }

  enum class Step { kNone, kPrepare, kRun, kRest };
  Step next_step() const REQUIRES(mutex_) {
    if (failed_) return Step::kNone;
    if (!preparing_ && prepared_ < parts_) {
      // Preparing more would only cost time if nobody helps, or if the helpers have enough to do until the rest is
      // done.
      if (has_rest_ && prepared_ - begun_ >= helpers_ * (parts_ - prepared_)) return Step::kRest;
      if (has_rest_ || prepared_ - begun_ < lanes_) return Step::kPrepare;
    }
    return begun_ < prepared_ ? Step::kRun : Step::kNone;
  }

  // Prepare or run one part, or the rest. Returns false if there is nothing to do, and, for the leader, if nothing runs
  // any more.
  bool step(int lane, bool leads) {
    MutexLock lock(mutex_);
    Step next = next_step();
    for (; next == Step::kNone; next = next_step()) {
      if (!preparing_ && (!leads || running_ == 0)) return false;
      changed_.wait(lock);
    }
    const bool prepares = next == Step::kPrepare;
    int part = prepared_;
    if (next == Step::kRun) part = begun_++;
    if (next == Step::kRest) parts_ = prepared_;
    preparing_ |= prepares;
    running_ += !prepares;
    lock.unlock();
    const Ended ended = call([&] {
      return prepares             ? work_.prepare(part)
             : next == Step::kRun ? work_.run(part, lane)
                                  : work_.run_rest(part, lane);
    });
    lock.lock();
    failed_ |= ended != Ended::kGood;
    out_of_memory_ |= ended == Ended::kNoMemory;
    if (prepares) preparing_ = false;
    running_ -= !prepares;
    prepared_ += prepares && ended == Ended::kGood;
    changed_.notify_all();
    return true;
  }

  enum class Ended { kGood, kGaveUp, kNoMemory };
  template <typename Fn>
  static Ended call(Fn fn) {
    try {
      return fn() ? Ended::kGood : Ended::kGaveUp;
    } catch (const std::bad_alloc&) {
      return Ended::kNoMemory;
    }
  }
  SpareCores& cores_;
  BandWork& work_;
  const int lanes_;
  const bool has_rest_;

  mutable Mutex mutex_;
  Condition changed_;             // the leader waits for something to do
  int parts_ GUARDED_BY(mutex_);  // lower once the rest has begun
  int prepared_ GUARDED_BY(mutex_) = 0;
  int begun_ GUARDED_BY(mutex_) = 0;
  int running_ GUARDED_BY(mutex_) = 0;
  int helpers_ GUARDED_BY(mutex_) = 0;  // tickets that have not ended
  unsigned free_lanes_ GUARDED_BY(mutex_);
  bool preparing_ GUARDED_BY(mutex_) = false;
  bool failed_ GUARDED_BY(mutex_) = false;
  bool out_of_memory_ GUARDED_BY(mutex_) = false;
  std::int64_t helped_ns_ GUARDED_BY(mutex_) = 0;
};

void BandCrew::set_threads(std::uint32_t threads) {
  lanes_ = static_cast<int>(std::clamp<std::uint32_t>(threads, 1, kLanesMax));
}

bool BandCrew::wants(std::int64_t pixels) const {
  return pixels >= kPixelsMin && lanes_ > 1 && tickets_available();
}

bool BandCrew::run(BandWork& work, int parts) {
  Session session(cores_, work, parts, lanes_);
  run_with_tickets(session);
  hand_over();
  helped_ns_ += session.helped_ns();
  if (session.out_of_memory()) throw std::bad_alloc();
  return session.good();
}

}  // namespace carya::loader
