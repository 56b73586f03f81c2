#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>

#include "base/unique_fd.h"

namespace carya::loader {

/// Closes descriptors in a process of its own, which is ended when a close takes too long.
///
/// Who is the last to close a connection also closes what its sender put into its queue, and that may wait for hours (a TCP
/// socket that lingers, a file of storage that hangs); only the end of a process stops such a wait. Threads: owner only.
class ClosingProcess {
 public:
  ClosingProcess() = default;
  ~ClosingProcess() { end(); }
  ClosingProcess(const ClosingProcess&) = delete;
  ClosingProcess& operator=(const ClosingProcess&) = delete;

  /// Never waits, unless no process can be started.
  void take(UniqueFd fd);
  /// End a process that has been busy with one descriptor for kPatienceNs. Returns the moment for the next look (0: there
  /// is nothing to look after).
  std::int64_t look(std::int64_t now_ns);

  static constexpr std::int64_t kPatienceNs = 200'000'000;

 private:
  bool start();
  bool pass_on(int fd);
  void end();

  pid_t pid_ = 0;
  UniqueFd socket_;
  std::deque<std::int64_t> taken_ns_;  // of those that are not closed yet
};

}  // namespace carya::loader
