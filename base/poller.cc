#include "base/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

namespace carya {
namespace {

constexpr std::uint64_t kBell = 0;
constexpr int kEvents = 64;

}  // namespace

Result<Poller> Poller::create(std::string_view subject) {
  Poller out;
  out.subject_ = subject;
  out.epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!out.epoll_) return fail_errno(out.subject_ + ": epoll", errno);
  out.bell_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!out.bell_) return fail_errno(out.subject_ + ": eventfd", errno);
  TRY(out.watch(out.bell_.get(), kBell));
  out.ready_.reserve(kEvents);  // so that wait() needs no memory
  return out;
}

Status Poller::watch(int fd, std::uint64_t tag, bool read, bool write) {
  epoll_event event{};
  event.events = (read ? EPOLLIN : 0u) | (write ? EPOLLOUT : 0u);
  event.data.u64 = tag;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return {};
  if (errno == ENOENT && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return fail_errno(subject_ + ": epoll: watch a descriptor", errno);
}

void Poller::forget(int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

const std::vector<std::uint64_t>& Poller::wait(int timeout_ms) {
  epoll_event events[kEvents];
  const int count = epoll_wait(epoll_.get(), events, kEvents, timeout_ms);  // -1 after a signal
  ready_.clear();
  for (int i = 0; i < count; ++i) {
    const std::uint64_t tag = events[i].data.u64;  // copied: the structure is packed
    if (tag != kBell) {
      ready_.push_back(tag);
      continue;
    }
    std::uint64_t rung = 0;
    static_cast<void>(!read(bell_.get(), &rung, sizeof(rung)));
  }
  return ready_;
}

void Poller::wake() const {
  const std::uint64_t one = 1;
  static_cast<void>(!write(bell_.get(), &one, sizeof(one)));
}

}  // namespace carya
