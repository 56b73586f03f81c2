#include "loader/engine/engine_thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace carya::loader {
namespace {

constexpr int kNice = 5;
constexpr int kSpins = 50;

/// Leaves the core to its other hardware thread for a moment.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

}  // namespace

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  for (const int crash : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigdelset(&all, crash);
  pthread_sigmask(SIG_BLOCK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void become_engine_thread(const char* name) {
  pthread_setname_np(pthread_self(), name);
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
}

void lock_soon(Mutex& mutex) {
  for (int i = 0; i < kSpins; ++i) {
    if (mutex.try_lock()) return;
    relax();
  }
  mutex.lock();
}

}  // namespace carya::loader
