#pragma once

#include <liburing.h>

#include <cstdint>

#include "base/error.h"

namespace carya::io {

/// One io_uring with a sparse table of direct descriptors; closed once. Only uring_engine.cc includes this.
/// Threads: owner only (may move between threads).
class UringRing {
 public:
  UringRing() = default;
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;
  ~UringRing();

  /// Errors: as create_uring_engine. `table` is the count of direct descriptors, bounded by RLIMIT_NOFILE.
  Status open(unsigned entries, unsigned table, unsigned io_wq_workers_max);

  /// Kernel threads that may wait for files, for this ring. Best effort: without it the kernel's own bounds
  /// hold.
  void set_workers(unsigned workers_max);
  /// A free submission entry; the caller never has more prepared than `entries`.
  io_uring_sqe* next_sqe();
  /// Submit what is prepared and run what is due; with `wait` until one completion is there, at most
  /// `timeout_ns`.
  void enter(bool wait, std::int64_t timeout_ns);
  /// Put `fd` (-1: nothing) in a place of the table. False when the kernel refuses.
  bool set_file(unsigned place, int fd);

  io_uring* raw() { return &ring_; }

 private:
  io_uring ring_{};
  bool open_ = false;
};

}  // namespace carya::io
