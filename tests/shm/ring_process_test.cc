#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "shm/fd_passing.h"
#include "tests/shm/ring_fixture.h"

// Two processes over a Unix socket. The reader's process is forked before the ring exists, so that it has
// nothing but what the socket brings. Exit codes say which step failed: gtest's own checks do not reach out
// of a child.

namespace carya::shm {
namespace {

constexpr int kWaitMs = 60'000;

/// A child that runs `body(socket)` and exits with what it returns; the parent has the other end.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    pid_ = fork();
    CHECK(pid_ >= 0);
    if (pid_ == 0) {
      close(ends[0]);
      _exit(body(ends[1]));
    }
    close(ends[1]);
    socket_.reset(ends[0]);
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      wait();
    }
  }
  int socket() const { return socket_.get(); }
  void kill_now() { kill(pid_, SIGKILL); }
  void signal(int number) { kill(pid_, number); }
  bool running() const {
    siginfo_t info{};
    CHECK(waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0);
    return info.si_pid == 0;
  }
  /// Exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    CHECK(waitpid(pid_, &status, 0) == pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void expect_byte(char expected) {
    char byte = 0;
    ASSERT_EQ(read(socket(), &byte, 1), 1);
    ASSERT_EQ(byte, expected);
  }

 private:
  pid_t pid_ = -1;
  UniqueFd socket_;
};

std::unique_ptr<RingReader> attach_over(int socket) {
  auto received = receive_reader_fds(socket, kWaitMs);
  if (!received) _exit(101);
  auto reader = RingReader::attach(received->fds(), received->reader);
  if (!reader) _exit(102);
  return std::move(*reader);
}

/// Sleep as an owner does until a slot is free.
std::uint32_t acquire_waiting(SlotRing& ring) {
  for (;;) {
    if (const auto slot = ring.acquire()) return *slot;
    ring.set_waiting(true);
    if (ring.collect() == 0) {
      pollfd bell{ring.event_fd(), POLLIN, 0};
      poll(&bell, 1, kWaitMs);
    }
    ring.set_waiting(false);
  }
}

TEST(RingProcesses, BatchesArriveWholeAndInOrder) {
  constexpr std::uint64_t kBatches = 3000;
  Child child([](int socket) {
    auto reader = attach_over(socket);
    std::vector<Lease> kept;  // up to two leases at a time, released out of order
    for (std::uint64_t sequence = 1; sequence <= kBatches; ++sequence) {
      auto lease = reader->next(kWaitMs);
      if (!lease) return 1;
      if (lease->sequence() != sequence) return 2;
      if (!all_bytes_are(reader->layout(), lease->data(), static_cast<std::uint8_t>(sequence))) return 3;
      kept.push_back(std::move(*lease));
      if (kept.size() == 3) kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(sequence % 2));
      const auto oldest = static_cast<std::uint8_t>(kept.front().sequence());
      if (!all_bytes_are(reader->layout(), kept.front().data(), oldest)) return 4;
    }
    return 0;
  });
  auto ring = make_ring({.slots = 4});
  const auto index = ring->attach_reader();
  ASSERT_TRUE(send_reader_fds(child.socket(), *index, ring->reader_fds(*index), kWaitMs).has_value());
  for (std::uint64_t sequence = 1; sequence <= kBatches; ++sequence) {
    const std::uint32_t slot = acquire_waiting(*ring);
    for (const SlotTensor& tensor : ring->layout().tensors()) {
      std::fill_n(ring->data(slot) + tensor.offset, tensor.bytes(),
                  std::byte{static_cast<std::uint8_t>(sequence)});
    }
    ring->publish(slot, sequence, Meta{});
  }
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(ring->detach_reason(*index), "");
}

TEST(RingProcesses, AReaderKilledWithALeaseLosesItAndTheOthersGoOn) {
  Child child([](int socket) {
    auto reader = attach_over(socket);
    auto lease = reader->next(kWaitMs);
    if (!lease) return 1;
    if (write(socket, "h", 1) != 1) return 2;
    for (;;) pause();
  });
  auto ring = make_ring({.slots = 2, .readers = 2});
  auto other = attach(*ring);
  const auto index = ring->attach_reader();
  ASSERT_TRUE(send_reader_fds(child.socket(), *index, ring->reader_fds(*index), kWaitMs).has_value());
  publish_value(*ring, 1, 11);
  publish_value(*ring, 2, 22);
  child.expect_byte('h');
  EXPECT_EQ(ring->held_by(*index), 1u);
  child.kill_now();
  char end = 0;
  EXPECT_EQ(read(child.socket(), &end, 1), 0) << "the socket hangs up: that is how the owner learns of it";
  EXPECT_EQ(child.wait(), -SIGKILL);
  ring->detach_reader(*index, "died");
  EXPECT_EQ(ring->held_by(*index), 0u);
  for (const std::uint8_t value : {11, 22}) {
    auto lease = other.reader->next(0);
    ASSERT_TRUE(lease.has_value());
    EXPECT_TRUE(all_bytes_are(ring->layout(), lease->data(), value));
  }
  ring->collect();
  EXPECT_EQ(ring->stats().free, 2u);
}

TEST(RingProcesses, AnOwnerThatDiesLeavesLeasesReadable) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Child owner([pass = ends[1]](int) {
    auto ring = make_ring();
    const auto index = ring->attach_reader();
    if (!index || !send_reader_fds(pass, *index, ring->reader_fds(*index), kWaitMs)) return 1;
    publish_value(*ring, 1, 33);
    for (;;) pause();
  });
  close(ends[1]);
  auto received = receive_reader_fds(ends[0], kWaitMs);
  ASSERT_TRUE(received.has_value());
  auto reader = RingReader::attach(received->fds(), received->reader);
  ASSERT_TRUE(reader.has_value());
  auto lease = (*reader)->next(kWaitMs);
  ASSERT_TRUE(lease.has_value());
  owner.kill_now();
  EXPECT_EQ(owner.wait(), -SIGKILL);
  EXPECT_TRUE(all_bytes_are(small_layout(), lease->data(), 33));
  EXPECT_EQ((*reader)->next(10).error().code, Code::kTimeout) << "silence; the socket tells of the death";
  lease->release();
  close(ends[0]);
}

TEST(RingProcesses, ASleepingReaderIsWokenAcrossProcesses) {
  Child child([](int socket) {
    auto reader = attach_over(socket);
    for (std::uint64_t sequence = 1; sequence <= 200; ++sequence) {
      if (write(socket, "r", 1) != 1) return 1;
      auto lease = reader->next(kWaitMs);
      if (!lease || lease->sequence() != sequence) return 2;
    }
    return reader->next(kWaitMs).error().code == Code::kClosed ? 0 : 3;
  });
  auto ring = make_ring();
  const auto index = ring->attach_reader();
  ASSERT_TRUE(send_reader_fds(child.socket(), *index, ring->reader_fds(*index), kWaitMs).has_value());
  for (std::uint64_t sequence = 1; sequence <= 200; ++sequence) {
    child.expect_byte('r');
    usleep(static_cast<useconds_t>(sequence * 7 % 300));  // now before, now after it falls asleep
    publish_value(*ring, sequence, 1);
  }
  ring.reset();
  EXPECT_EQ(child.wait(), 0);
}

TEST(RingProcesses, ManySlotsTakeSeveralMessages) {
  Child child([](int socket) {
    auto reader = attach_over(socket);
    auto lease = reader->next(kWaitMs);
    return lease && all_bytes_are(reader->layout(), lease->data(), 3) ? 0 : 1;
  });
  auto ring = make_ring({.slots = 140});
  const auto index = ring->attach_reader();
  ASSERT_TRUE(send_reader_fds(child.socket(), *index, ring->reader_fds(*index), kWaitMs).has_value());
  publish_value(*ring, 1, 3);
  EXPECT_EQ(child.wait(), 0);
}

TEST(RingProcesses, AForkedChildCanDoNoHarmAndTheParentGoesOn) {
  auto ring = make_ring();
  auto [index, reader] = attach(*ring);
  publish_value(*ring, 1, 1);
  publish_value(*ring, 2, 2);
  auto held = reader->next(0);
  ASSERT_TRUE(held.has_value());
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    if (!in_forked_child()) _exit(1);
    // Something of the child's own where the slot was: destroying the inherited objects must leave it alone.
    void* const place = const_cast<std::byte*>(held->data());
    void* const mine_now =
        mmap(place, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (mine_now != place) _exit(7);
    static_cast<char*>(place)[0] = 'm';
    if (reader->next(0).error().code != Code::kForked) _exit(2);
    if (ring->acquire().has_value() || ring->collect() != 0) _exit(3);
    if (ring->attach_reader().error().code != Code::kForked) _exit(4);
    ring->detach_reader(index, "from the child");
    ring->set_waiting(true);
    held->release();
    reader.reset();
    ring.reset();
    if (static_cast<volatile char*>(place)[0] != 'm') _exit(8);
    auto own = SlotRing::create(small_layout(), {});  // a ring of its own is fine
    if (!own) _exit(5);
    auto mine = attach(**own);
    publish_value(**own, 1, 77);
    auto lease = mine.reader->next(0);
    _exit(lease && all_bytes_are(small_layout(), lease->data(), 77) ? 0 : 6);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(in_forked_child());
  EXPECT_EQ(ring->held_by(index), 1u) << "the child released nothing";
  EXPECT_TRUE(all_bytes_are(small_layout(), held->data(), 1));
  EXPECT_EQ(reader->next(0)->sequence(), 2u);
  held->release();
  EXPECT_EQ(ring->collect(), 2u);
}

TEST(RingProcesses, ASignalEndsTheWaitEarly) {
  Child child([](int socket) {
    struct sigaction action{};
    action.sa_handler = [](int) {};
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
    auto reader = attach_over(socket);
    if (write(socket, "r", 1) != 1) return 1;
    const auto lease = reader->next(kWaitMs);
    return !lease && lease.error().code == Code::kTimeout && lease.error().sys_errno == EINTR ? 0 : 2;
  });
  auto ring = make_ring();
  const auto index = ring->attach_reader();
  ASSERT_TRUE(send_reader_fds(child.socket(), *index, ring->reader_fds(*index), kWaitMs).has_value());
  child.expect_byte('r');
  int exit_code = -1000;
  while (exit_code == -1000) {  // the first signals may come before it sleeps
    child.signal(SIGUSR1);
    usleep(10'000);
    if (!child.running()) exit_code = child.wait();
  }
  EXPECT_EQ(exit_code, 0);
}

}  // namespace
}  // namespace carya::shm
