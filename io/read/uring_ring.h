#pragma once

#include <liburing.h>

#include <cstdint>

#include "base/error.h"

namespace carya::io {

/// One io_uring with a sparse table of direct descriptors. Only uring_engine.cc includes this header.
/// Threads: owner only (may move between threads).
class UringRing {
 public:
  UringRing() = default;
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;
  ~UringRing();

  /// Open the ring with `table` direct descriptors, which RLIMIT_NOFILE bounds. Errors: as create_uring_engine().
  Status open(unsigned entries, unsigned table, unsigned io_wq_workers_max);

  /// Set the number of kernel threads of this ring that may wait for files. If the call fails, the kernel's own bounds
  /// hold.
  void set_workers(unsigned workers_max);
  /// Returns a free submission entry. The caller never prepares more than `entries`.
  io_uring_sqe* next_sqe();
  /// Submit the prepared requests and run what is due. With `wait`, wait at most `timeout_ns` for one completion.
  void enter(bool wait, std::int64_t timeout_ns);
  /// Put `fd` (-1: nothing) in a place of the table. Returns false if the kernel refuses.
  bool set_file(unsigned place, int fd);

  io_uring* raw() { return &ring_; }

 private:
  io_uring ring_{};
  bool open_ = false;
};

}  // namespace carya::io
