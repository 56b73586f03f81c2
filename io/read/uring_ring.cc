#include "io/read/uring_ring.h"

#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <mutex>

namespace carya::io {
namespace {

// The kernel gives the addresses of a closed ring to the next one, by calls that the thread sanitizer does
// not see. This is the order between the two that it sees.
std::atomic<std::uint64_t> g_closed_rings{0};

constexpr const char* kWithout = "give io_engine=\"pread\" or \"auto\"";

/// Why there is no ring, and what allows one.
std::unexpected<Error> refused(int sys_errno) {
  switch (sys_errno) {
    case ENOSYS:
      return fail(Code::kUnsupported,
                  "io_uring: this kernel has none, or a seccomp profile hides it; " + std::string(kWithout),
                  ENOSYS);
    case EPERM:
    case EACCES:
      return fail(Code::kPermission,
                  "io_uring: refused; allow it (sysctl kernel.io_uring_disabled=0, and a seccomp profile "
                  "that permits "
                  "io_uring_setup), or " +
                      std::string(kWithout),
                  sys_errno);
    case ENOMEM:
      return fail(Code::kExhausted,
                  "io_uring: no memory for a ring; raise the limit of locked memory (ulimit -l), or " +
                      std::string(kWithout),
                  sys_errno);
    default:
      return fail_errno("io_uring", sys_errno);
  }
}

/// The kernel compares the size of the table with the soft limit of descriptors, though the table takes none of
/// them. liburing raises that limit where the hard one allows it; it is the process's, and is put back.
/// Source: liburing 2.3, src/register.c.
int register_table(io_uring& ring, unsigned table) {
  static std::mutex raising;
  const std::lock_guard lock(raising);
  rlimit before{};
  const bool known = getrlimit(RLIMIT_NOFILE, &before) == 0;
  const int status = io_uring_register_files_sparse(&ring, table);
  if (rlimit now{}; known && getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur != before.rlim_cur)
    setrlimit(RLIMIT_NOFILE, &before);
  return status;
}

}  // namespace

UringRing::~UringRing() {
  if (!open_) return;
  g_closed_rings.fetch_add(1, std::memory_order_release);
  io_uring_queue_exit(&ring_);
}

Status UringRing::open(unsigned entries, unsigned table, unsigned io_wq_workers_max) {
  // COOP_TASKRUN: completions run when the owner enters the kernel, without interrupting it (5.19).
  // SINGLE_ISSUER and DEFER_TASKRUN would bind the ring to the thread that first uses it and measured no
  // better for these reads (bench/reads), so they are left out.
  constexpr unsigned kSetups[] = {IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN,
                                  IORING_SETUP_SUBMIT_ALL};
  int status = 0;
  for (const unsigned setup : kSetups) {
    io_uring_params params{};
    params.flags = setup;
    status = io_uring_queue_init_params(entries, &ring_, &params);
    if (status != 0) {
      if (status == -EINVAL) continue;
      return refused(-status);
    }
    static_cast<void>(g_closed_rings.load(std::memory_order_acquire));
    open_ = true;
    break;
  }
  constexpr unsigned kNeeded = IORING_FEAT_LINKED_FILE | IORING_FEAT_CQE_SKIP | IORING_FEAT_EXT_ARG;
  if (!open_ || (ring_.features & kNeeded) != kNeeded) {
    return fail(Code::kUnsupported, "io_uring: the kernel is older than 5.18; " + std::string(kWithout),
                -status);
  }
  status = register_table(ring_, table);
  if (status < 0) return refused(-status);
  set_workers(io_wq_workers_max);
  return {};
}

void UringRing::set_workers(unsigned workers_max) {
  unsigned workers[2] = {workers_max, workers_max};
  static_cast<void>(io_uring_register_iowq_max_workers(&ring_, workers));
}

io_uring_sqe* UringRing::next_sqe() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  CHECK(sqe != nullptr);
  return sqe;
}

void UringRing::enter(bool wait, std::int64_t timeout_ns) {
  // Errors (EINTR, EAGAIN, EBUSY, ETIME) leave what was not submitted in the queue for the next call.
  if (wait) {
    __kernel_timespec limit{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
    io_uring_cqe* cqe;
    static_cast<void>(io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &limit, nullptr));
  } else {
    static_cast<void>(io_uring_submit_and_get_events(&ring_));
  }
}

bool UringRing::set_file(unsigned place, int fd) {
  return io_uring_register_files_update(&ring_, place, &fd, 1) == 1;
}

}  // namespace carya::io
