#include "base/poller.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <utility>

namespace carya {
namespace {

using Tags = std::vector<std::uint64_t>;

std::pair<UniqueFd, UniqueFd> sockets() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Poller make_poller() {
  auto poller = Poller::create("test");
  EXPECT_TRUE(poller);
  return std::move(*poller);
}

TEST(Poller, ReportsADescriptorAsLongAsItIsReady) {
  Poller poller = make_poller();
  auto [ours, theirs] = sockets();
  ASSERT_TRUE(poller.watch(ours.get(), 7));
  EXPECT_EQ(poller.wait(0), Tags{});
  ASSERT_EQ(write(theirs.get(), "x", 1), 1);
  EXPECT_EQ(poller.wait(-1), Tags{7});
  EXPECT_EQ(poller.wait(0), Tags{7}) << "nobody has read it";
  char byte;
  ASSERT_EQ(read(ours.get(), &byte, 1), 1);
  EXPECT_EQ(poller.wait(0), Tags{});
}

TEST(Poller, ReportsTheEndOfAPeer) {
  Poller poller = make_poller();
  auto [ours, theirs] = sockets();
  ASSERT_TRUE(poller.watch(ours.get(), 7));
  theirs.reset();
  EXPECT_EQ(poller.wait(-1), Tags{7});
}

TEST(Poller, WatchingAgainReplacesTagAndInterest) {
  Poller poller = make_poller();
  auto [ours, theirs] = sockets();
  ASSERT_TRUE(poller.watch(ours.get(), 7, true, true));
  EXPECT_EQ(poller.wait(0), Tags{7}) << "there is room to write";
  ASSERT_TRUE(poller.watch(ours.get(), 8));
  EXPECT_EQ(poller.wait(0), Tags{});
  ASSERT_EQ(write(theirs.get(), "x", 1), 1);
  EXPECT_EQ(poller.wait(0), Tags{8});
  poller.forget(ours.get());
  EXPECT_EQ(poller.wait(0), Tags{});
  poller.forget(ours.get());
  EXPECT_FALSE(poller.watch(-1, 9));
}

TEST(Poller, WakeEndsOneWaitAndIsNoTag) {
  Poller poller = make_poller();
  poller.wake();
  poller.wake();
  EXPECT_EQ(poller.wait(-1), Tags{}) << "it was woken before it waited";
  std::thread other([&poller] { poller.wake(); });
  EXPECT_EQ(poller.wait(-1), Tags{});
  other.join();
}

TEST(Poller, SaysWhatItIsFor) {
  Poller poller = make_poller();
  const Status status = poller.watch(-1, 1);
  ASSERT_FALSE(status);
  EXPECT_TRUE(status.error().message.starts_with("test: epoll: watch a descriptor: "))
      << status.error().message;
}

}  // namespace
}  // namespace carya
