#include "shm/extents.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "shm/memfd.h"

namespace carya::shm {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
#ifdef CARYA_SANITIZED
constexpr std::uint64_t kSteps = 2'000;
#else
constexpr std::uint64_t kSteps = 20'000;
#endif

/// Bytes that only this extent has: of its place and length and a number of its own.
std::byte mark(const Extent& extent, std::uint64_t number, std::uint64_t at) {
  return static_cast<std::byte>((extent.offset / kExtentAlign + extent.bytes * 7 + number * 31 + at) % 251);
}

void fill(std::span<std::byte> memory, const Extent& extent, std::uint64_t number) {
  for (std::uint64_t at = 0; at < memory.size(); ++at) memory[at] = mark(extent, number, at);
}

bool is_filled(std::span<const std::byte> memory, const Extent& extent, std::uint64_t number) {
  for (std::uint64_t at = 0; at < memory.size(); ++at)
    if (memory[at] != mark(extent, number, at)) return false;
  return memory.size() == extent.bytes;
}

TEST(Extents, RandomAllocationsAndFreesKeepToTheModel) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    auto extents = Extents::create("test", kMiB);
    ASSERT_TRUE(extents.has_value()) << extents.error().message;
    const std::uint64_t all_free = extents->free_bytes();
    auto reader = ExtentReader::map(extents->fd(), 8 * kMiB, "extents");
    ASSERT_TRUE(reader.has_value()) << reader.error().message;
    std::map<std::uint64_t, std::pair<Extent, std::uint64_t>> model;  // offset -> extent, its number
    int refused = 0;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const bool allocates = model.empty() || random() % 100 < 55;
      if (allocates) {
        const std::uint64_t bytes = 1 + (random() % 10 == 0 ? random() % 200'000 : random() % 3'000);
        const auto made = extents->allocate(bytes);
        if (!made) {
          ASSERT_EQ(made.error().code, Code::kExhausted);
          ++refused;
        } else {
          ASSERT_EQ(made->bytes, bytes);
          ASSERT_EQ(made->offset % kExtentAlign, 0u);
          ASSERT_LE(made->offset + made->bytes, extents->bytes());
          const auto after = model.lower_bound(made->offset);
          if (after != model.end()) {
            ASSERT_LE(made->offset + made->bytes, after->first);
          }
          if (after != model.begin()) {
            const Extent& before = std::prev(after)->second.first;
            ASSERT_LE(before.offset + before.bytes, made->offset);
          }
          fill(extents->memory(*made), *made, step);
          model.emplace(made->offset, std::pair(*made, step));
        }
      }
      if (!allocates || extents->count() > 400) {
        auto chosen = std::next(model.begin(), static_cast<std::ptrdiff_t>(random() % model.size()));
        const auto [extent, number] = chosen->second;
        const auto seen = reader->at(extent);
        ASSERT_TRUE(seen && is_filled(*seen, extent, number)) << "step " << step;
        extents->free(extent);
        model.erase(chosen);
      }
      ASSERT_EQ(extents->count(), model.size());
    }
    EXPECT_GT(refused, 0) << "the file was never full: the test tests too little";
    for (const auto& [offset, made] : model) {
      const auto seen = reader->at(made.first);
      ASSERT_TRUE(seen && is_filled(*seen, made.first, made.second));
      extents->free(made.first);
    }
    EXPECT_EQ(extents->free_bytes(), all_free) << "free neighbours become one piece again";
    EXPECT_TRUE(extents->allocate(all_free - 8 * kExtentAlign).has_value());
  }
}

TEST(Extents, AFullFileSaysSoAndHasRoomAgain) {
  auto extents = Extents::create("test", kMiB);
  ASSERT_TRUE(extents.has_value());
  std::vector<Extent> made;
  for (;;) {
    const auto next = extents->allocate(10'000);
    if (!next) {
      EXPECT_EQ(next.error().code, Code::kExhausted);
      EXPECT_NE(next.error().message.find("10000 B"), std::string::npos) << next.error().message;
      break;
    }
    made.push_back(*next);
  }
  EXPECT_GE(made.size(), 100u);
  EXPECT_LE(made.size(), 104u);
  extents->free(made[50]);
  const auto again = extents->allocate(10'000);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->offset, made[50].offset);
  for (const std::uint64_t bytes : {kMiB, kMiB + 1, std::numeric_limits<std::uint64_t>::max() - 1,
                                    std::numeric_limits<std::uint64_t>::max()}) {
    const auto refused = extents->allocate(bytes);
    ASSERT_FALSE(refused.has_value()) << bytes;
    EXPECT_EQ(refused.error().code, Code::kExhausted);
  }
  EXPECT_EQ(extents->allocate(0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Extents::create("test", 64).error().code, Code::kInvalidArgument);
}

TEST(ExtentsDeathTest, WhatIsNotAllocatedIsNotFreed) {
  auto extents = Extents::create("test", kMiB);
  ASSERT_TRUE(extents.has_value());
  const auto extent = extents->allocate(1000);
  ASSERT_TRUE(extent.has_value());
  EXPECT_DEATH(extents->free({extent->offset + kExtentAlign, 1000}), "extents.cc");
  EXPECT_DEATH(extents->free({extent->offset, 999}), "extents.cc");
  extents->free(*extent);
  EXPECT_DEATH(extents->free(*extent), "extents.cc");
}

TEST(Extents, HostileOffsetsAreRefused) {
  auto extents = Extents::create("test", kMiB);
  ASSERT_TRUE(extents.has_value());
  const auto reader = ExtentReader::map(extents->fd(), kMiB, "extents");
  ASSERT_TRUE(reader.has_value());
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  for (const Extent hostile :
       {Extent{0, kMiB + 1}, Extent{1, kMiB}, Extent{kMiB, 1}, Extent{kMiB + 1, 0}, Extent{kMost, 1},
        Extent{kMost, kMost}, Extent{1, kMost}, Extent{64, kMost - 63}}) {
    const auto seen = reader->at(hostile);
    ASSERT_FALSE(seen.has_value()) << hostile.offset << ", " << hostile.bytes;
    EXPECT_EQ(seen.error().code, Code::kCorrupt);
  }
  std::mt19937_64 random(5);
  for (int i = 0; i < 10'000; ++i) {  // what is not refused can be read to its end
    const auto seen = reader->at({random() >> random() % 64, random() >> random() % 64});
    if (seen && !seen->empty()) {
      ASSERT_LE(static_cast<std::uint64_t>(seen->size()), kMiB);
      static_cast<void>(*const_cast<const volatile std::byte*>(&seen->back()));
    }
  }
}

TEST(Extents, OnlyTheWriterWritesAndNobodyChangesTheSize) {
  auto extents = Extents::create("test", kMiB);
  ASSERT_TRUE(extents.has_value());
  EXPECT_EQ(mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, extents->fd(), 0), MAP_FAILED);
  EXPECT_EQ(pwrite(extents->fd(), "x", 1, 0), -1);
  EXPECT_NE(ftruncate(extents->fd(), 4096), 0);
  EXPECT_NE(fallocate(extents->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
}

TEST(Extents, OtherFilesAreRefused) {
  EXPECT_EQ(ExtentReader::map(-1, kMiB, "x").error().code, Code::kCorrupt);
  const UniqueFd device(open("/dev/zero", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(ExtentReader::map(device.get(), kMiB, "x").error().code, Code::kCorrupt);
  const auto unsealed = create_memfd("test", 4096, false);
  EXPECT_EQ(ExtentReader::map(unsealed->get(), kMiB, "x").error().code, Code::kCorrupt);
  const UniqueFd holes(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(holes.get(), 64 * 4096), 0);
  ASSERT_TRUE(seal_memfd(holes.get(), kSealReadOnly).has_value());
  EXPECT_EQ(ExtentReader::map(holes.get(), kMiB, "x").error().code, Code::kCorrupt);
  const auto extents = Extents::create("test", kMiB);
  EXPECT_EQ(ExtentReader::map(extents->fd(), kMiB - 1, "x").error().code, Code::kCorrupt) << "too large";
}

/// What the child says about one of its extents, before it does the next thing.
struct Said {
  Extent extent;
  std::uint64_t number = 0;  // 0: it is about to be freed
};

/// Allocates, fills, says so, says what it frees, frees it, for ever: until it is killed.
[[noreturn]] void write_until_killed(Extents extents, int out) {
  std::mt19937_64 random(9);
  std::vector<Extent> live;
  const auto say = [&](const Said& said) {
    if (write(out, &said, sizeof said) != sizeof said) _exit(1);
  };
  say({{static_cast<std::uint64_t>(extents.fd()), 0}, 0});
  for (std::uint64_t number = 1;; ++number) {
    const auto extent = extents.allocate(1 + random() % 5'000);
    if (extent) {
      fill(extents.memory(*extent), *extent, number);
      live.push_back(*extent);
      say({*extent, number});
    }
    if (!extent || random() % 3 == 0) {
      const std::size_t at = random() % live.size();
      say({live[at], 0});
      extents.free(live[at]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
}

TEST(Extents, AWriterKilledInTheMiddleLeavesItsExtentsReadable) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(ends[0]);
      auto extents = Extents::create("test", kMiB);
      if (!extents) _exit(2);
      write_until_killed(std::move(*extents), ends[1]);
    }
    close(ends[1]);
    const UniqueFd in(ends[0]);
    Said said;
    ASSERT_EQ(read(in.get(), &said, sizeof said), static_cast<ssize_t>(sizeof said));
    const std::string file = "/proc/" + std::to_string(child) + "/fd/" + std::to_string(said.extent.offset);
    const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(fd) << file;
    std::map<std::uint64_t, Said> live;
    const auto hear = [&] {
      if (read(in.get(), &said, sizeof said) != static_cast<ssize_t>(sizeof said)) return false;
      if (said.number == 0)
        live.erase(said.extent.offset);
      else
        live[said.extent.offset] = said;
      return true;
    };
    for (std::uint64_t heard = 0, last = 500 + random() % 1'000; heard < last; ++heard) ASSERT_TRUE(hear());
    usleep(static_cast<useconds_t>(random() % 300));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    while (hear()) {
    }
    const auto reader = ExtentReader::map(fd.get(), kMiB, "extents");
    ASSERT_TRUE(reader.has_value()) << reader.error().message;
    EXPECT_GT(live.size(), 10u);
    for (const auto& [offset, made] : live) {
      const auto seen = reader->at(made.extent);
      ASSERT_TRUE(seen && is_filled(*seen, made.extent, made.number)) << offset;
    }
    // Nobody can go on in its place: the tree may be torn, and the file takes no other writer.
    EXPECT_EQ(mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), MAP_FAILED);
  }
}

TEST(Extents, AForkedChildCanEndAndMakeItsOwn) {
  auto extents = Extents::create("test", 4 * kMiB);
  ASSERT_TRUE(extents.has_value());
  const auto extent = extents->allocate(100);
  fill(extents->memory(*extent), *extent, 1);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::optional<Extents> inherited(std::move(*extents));
    inherited.reset();  // its addresses are not this process's
    auto own = Extents::create("test", 4 * kMiB);
    if (!own || !own->allocate(1'000)) _exit(1);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(is_filled(extents->memory(*extent), *extent, 1));
}

}  // namespace
}  // namespace carya::shm
