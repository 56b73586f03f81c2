#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya {

/// A set of descriptors, of which one thread waits for the first that is ready (epoll), with a doorbell by which other
/// threads end its wait (eventfd).
///
/// Events are level-triggered: each wait() reports a descriptor while it stays ready. The caller chooses a tag for each
/// descriptor. Threads: one thread waits; watch(), forget() and wake() are thread-safe, also during a wait; wake() is
/// signal-safe.
class Poller {
 public:
  /// Errors: kExhausted (descriptors), with `subject` in front.
  static Result<Poller> create(std::string_view subject);

  /// Report `tag`, which is not 0, when `fd` can be read (`read`, also at its end) or written (`write`). A second call
  /// for the same descriptor replaces the first. The caller keeps the descriptor open until forget(). Errors:
  /// kExhausted (the user's watches).
  Status watch(int fd, std::uint64_t tag, bool read = true, bool write = false);
  /// Report `fd` no more. A descriptor that was never watched is no error.
  void forget(int fd);
  /// Wait up to `timeout_ms` (-1: without a limit) for a descriptor. Returns the tags that are ready, at most 64. They
  /// are empty after the time, after wake(), and after a signal. Allocates nothing. The reference is valid until the
  /// next wait().
  const std::vector<std::uint64_t>& wait(int timeout_ms);
  /// End the wait() that runs now, or else the next one. Several calls before a wait() count as one.
  void wake() const;

 private:
  std::string subject_;
  UniqueFd epoll_;
  UniqueFd bell_;  // watched with tag 0
  std::vector<std::uint64_t> ready_;
};

}  // namespace carya
