#pragma once

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <thread>
#include <utility>

namespace carya::loader {

/// Below the trainer and below the threads that compute: for what only uses cores that nobody else wants.
inline constexpr int kKeeperNice = 7;
/// As the threads that compute, which wait for what is read.
inline constexpr int kReaderNice = 5;

/// The first call of a thread that waits for storage.
inline void begin_thread(const char* name, int nice) {
  pthread_setname_np(pthread_self(), name);
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), nice);
}

/// Start a thread that nobody joins, since storage may never let go of it, and that takes no signals. Returns whether it
/// was started. `work` owns what it needs.
template <typename Work>
bool start_detached(Work work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    std::thread(std::move(work)).detach();
  } catch (const std::exception&) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace carya::loader
