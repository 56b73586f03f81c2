#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::remote {

/// A program whose standard input and output are one socket of ours. It is in a process group of its own: a
/// Ctrl-C in the terminal is not for it. Threads: owner only.
class ChildProcess {
 public:
  /// Errors: kNotFound (no such program), kPermission, kExhausted.
  static Result<ChildProcess> start(const std::vector<std::string>& command);
  ChildProcess() = default;
  ~ChildProcess() { kill(); }
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;

  bool is_running() const { return pid_ > 0; }
  int socket() const { return socket_.get(); }  ///< non-blocking
  /// Says that nothing more comes: the end of its input.
  void end_input();
  /// Ended by itself, if at `end_ns` (CLOCK_MONOTONIC), and reaped.
  bool wait(std::int64_t end_ns);
  /// Whether it was reaped with another exit status than 0, or by a signal.
  bool has_failed() const { return failed_; }
  /// Ends it at once, with its group.
  void kill();

 private:
  pid_t pid_ = 0;
  bool failed_ = false;
  UniqueFd socket_;
};

}  // namespace carya::remote
