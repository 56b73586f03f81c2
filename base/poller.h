#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::remote {

/// Sockets that wait, and a bell. Threads: one at a time, except wake(), which is thread-safe.
class Poller {
 public:
  /// Errors: kExhausted (descriptors).
  static Result<Poller> create();

  /// Watch a socket, named by a tag other than 0; or change what for. Errors: kExhausted.
  Status watch(int fd, std::uint64_t tag, bool read, bool write);
  void forget(int fd);
  /// Tags of sockets that are ready; waits at most timeout_ms for the first, or for wake().
  const std::vector<std::uint64_t>& wait(int timeout_ms);
  void wake() const;

 private:
  UniqueFd epoll_;
  UniqueFd bell_;
  std::vector<std::uint64_t> ready_;
};

}  // namespace carya::remote
