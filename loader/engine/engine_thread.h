#pragma once

#include <csignal>

#include "base/mutex.h"

namespace carya::loader {

/// Blocks all signals while it lives, but those of a crash, so that threads made meanwhile start with them blocked. A thread
/// that crashes with its signal blocked ends the process without its handler.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// The calling thread is the engine's from now on: it has this name of at most 15 bytes, and is niced, since the
/// trainer's own threads come first.
void become_engine_thread(const char* name);

/// Lock what is held for some microseconds only: sleeping and waking take longer, so this looks for some 5 us before it
/// sleeps.
void lock_soon(Mutex& mutex) CARYA_THREAD_SAFETY(acquire_capability(mutex));

}  // namespace carya::loader
