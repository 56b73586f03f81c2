#include "io/files/listing.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace carya::io {
namespace {

TEST(ListingProgress, IsToldByTheThreadThatAskedAlone) {
  std::vector<std::uint64_t> told;
  const Progress tell = [&](std::uint64_t seen) {
    told.push_back(seen);
    return seen < 10;
  };
  ListingProgress progress(tell, 0);
  std::thread other([&] { EXPECT_TRUE(progress.add(5)); });
  other.join();
  EXPECT_TRUE(told.empty());
  EXPECT_TRUE(progress.add(1));
  EXPECT_EQ(told, std::vector<std::uint64_t>{6}) << "with what the other thread saw";
  EXPECT_FALSE(progress.add(4));
  EXPECT_TRUE(progress.stopped());
  EXPECT_FALSE(progress.add(1));
  EXPECT_EQ(told.size(), 2u) << "nobody is asked again";
}

TEST(ForEachIndex, GivesTheFirstErrorByIndexOnAnyNumberOfThreads) {
  for (const unsigned threads : {1u, 2u, 7u}) {
    const Progress none;
    ListingProgress progress(none);
    std::vector<std::atomic<int>> runs(200);
    const Status status = for_each_index(runs.size(), threads, progress, [&](std::uint64_t i) -> Status {
      ++runs[i];
      if (i == 40 || i == 41 || i == 150) return fail(Code::kIo, std::to_string(i));
      return {};
    });
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message, "40");
    for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(runs[i], 1) << i;
  }
}

TEST(ForEachIndex, EachThreadMakesATaskOfItsOwn) {
  const Progress none;
  ListingProgress progress(none);
  std::atomic<unsigned> made = 0;
  std::atomic<std::uint64_t> sum = 0;
  Mutex mutex;
  std::set<std::thread::id> threads;
  ASSERT_TRUE(for_each_index_by(100, 3, progress, [&]() -> IndexTask {
    ++made;
    return [&, mine = std::this_thread::get_id()](std::uint64_t i) -> Status {
      EXPECT_EQ(mine, std::this_thread::get_id());
      sum += i;
      const MutexLock lock(mutex);
      threads.insert(mine);
      return {};
    };
  }));
  EXPECT_EQ(sum, 4950u);
  EXPECT_LE(threads.size(), made);
  EXPECT_LE(made, 3u);
}

TEST(ForEachIndex, ItsCallerIsAskedThoughOthersDidAllTheWork) {
  const Progress stop = [](std::uint64_t seen) { return seen < 8; };
  ListingProgress progress(stop);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> done = 0;
  const Status status = for_each_index_by(8, 2, progress, [&]() -> IndexTask {
    while (std::this_thread::get_id() == caller && done < 8) std::this_thread::yield();
    return [&](std::uint64_t) -> Status {
      EXPECT_NE(std::this_thread::get_id(), caller);
      progress.add(1);
      ++done;
      return {};
    };
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kClosed);
}

}  // namespace
}  // namespace carya::io
