#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"

namespace carya::loader {

/// Closes descriptors on a thread of its own. Closing what a stranger sent may wait: a TCP socket for its
/// peer (SO_LINGER), a file for its file system; so may closing a connection with such descriptors in a
/// message that nobody read. A thread that serves others must not.
/// Threads: thread-safe.
class Closer {
 public:
  Closer();
  /// Waits a second for what is left; what takes longer is left to its thread.
  ~Closer();
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;

  void take(UniqueFd fd);
  /// Leaves the list empty.
  void take(std::vector<UniqueFd>& fds);

 private:
  struct State {
    Mutex mutex;
    Condition changed;
    std::deque<UniqueFd> waiting GUARDED_BY(mutex);
    bool stopping GUARDED_BY(mutex) = false;
    bool ended GUARDED_BY(mutex) = false;
  };
  static void run(State& state);
  std::shared_ptr<State> state_;
};

}  // namespace carya::loader
