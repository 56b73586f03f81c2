#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

// Annotations that tell the compiler what a lock guards. Clang's -Wthread-safety then rejects access without the lock;
// other compilers ignore them. Source: clang.llvm.org/docs/ThreadSafetyAnalysis.html.
#ifdef __clang__
#define CARYA_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define CARYA_THREAD_SAFETY(attribute)
#endif
#define GUARDED_BY(mutex) CARYA_THREAD_SAFETY(guarded_by(mutex))
#define REQUIRES(...) CARYA_THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define REQUIRES_SHARED(...) CARYA_THREAD_SAFETY(requires_shared_capability(__VA_ARGS__))
#define EXCLUDES(...) CARYA_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
/// For a function whose locking the analysis cannot follow. A comment beside it says why the locking is right.
#define NO_THREAD_SAFETY_ANALYSIS CARYA_THREAD_SAFETY(no_thread_safety_analysis)

namespace carya {

/// std::mutex with annotations.
class CARYA_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() CARYA_THREAD_SAFETY(acquire_capability()) { mutex_.lock(); }
  void unlock() CARYA_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  /// Tell the analysis that the caller holds the mutex, where it cannot see that. Checks nothing at run time.
  void assert_held() const CARYA_THREAD_SAFETY(assert_capability(this)) {}
  bool try_lock() CARYA_THREAD_SAFETY(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

/// Holds a Mutex during its lifetime, except between unlock() and lock(). Threads: owner only.
class CARYA_THREAD_SAFETY(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) CARYA_THREAD_SAFETY(acquire_capability(mutex)) : lock_(mutex.mutex_) {}
  /// Take over a mutex that try_lock() has locked.
  MutexLock(Mutex& mutex, std::adopt_lock_t adopt) CARYA_THREAD_SAFETY(requires_capability(mutex))
      : lock_(mutex.mutex_, adopt) {}
  ~MutexLock() CARYA_THREAD_SAFETY(release_capability()) = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() CARYA_THREAD_SAFETY(acquire_capability()) { lock_.lock(); }
  void unlock() CARYA_THREAD_SAFETY(release_capability()) { lock_.unlock(); }

 private:
  friend class Condition;
  std::unique_lock<std::mutex> lock_;
};

/// std::condition_variable for a Mutex. A wait may end without a cause, so it stands in a loop: `while (!ready_)
/// changed_.wait(lock);`. Threads: thread-safe.
class Condition {
 public:
  void wait(MutexLock& lock) { condition_.wait(lock.lock_); }
  /// Returns false when `moment` has come. Its clock is that of monotonic_ns().
  bool wait_until(MutexLock& lock, std::chrono::steady_clock::time_point moment) {
    return condition_.wait_until(lock.lock_, moment) == std::cv_status::no_timeout;
  }
  /// Returns false when `ns` nanoseconds have passed.
  bool wait_for_ns(MutexLock& lock, std::int64_t ns) {
    return condition_.wait_for(lock.lock_, std::chrono::nanoseconds(ns)) == std::cv_status::no_timeout;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

/// std::shared_mutex with annotations.
class CARYA_THREAD_SAFETY(capability("mutex")) SharedMutex {
 public:
  void lock() CARYA_THREAD_SAFETY(acquire_capability()) { mutex_.lock(); }
  void unlock() CARYA_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  void lock_shared() CARYA_THREAD_SAFETY(acquire_shared_capability()) { mutex_.lock_shared(); }
  void unlock_shared() CARYA_THREAD_SAFETY(release_shared_capability()) { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

/// Holds a SharedMutex for one thread alone. Threads: owner only.
class CARYA_THREAD_SAFETY(scoped_lockable) ExclusiveLock {
 public:
  explicit ExclusiveLock(SharedMutex& mutex) CARYA_THREAD_SAFETY(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~ExclusiveLock() CARYA_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  ExclusiveLock(const ExclusiveLock&) = delete;
  ExclusiveLock& operator=(const ExclusiveLock&) = delete;

 private:
  SharedMutex& mutex_;
};

/// Holds a SharedMutex together with other readers. Threads: owner only.
class CARYA_THREAD_SAFETY(scoped_lockable) SharedLock {
 public:
  explicit SharedLock(SharedMutex& mutex) CARYA_THREAD_SAFETY(acquire_shared_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~SharedLock() CARYA_THREAD_SAFETY(release_capability()) { mutex_.unlock_shared(); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace carya
