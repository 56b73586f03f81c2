// What a daemon's [cache] gives its jobs.
#include "loader/cache/cache_limits.h"

#include <gtest/gtest.h>

namespace carya::loader {
namespace {

using Mode = CacheOptions::Mode;

TEST(CacheLimits, AutoMayUseTheFoldersThatWhoRunsTheDaemonHasNamed) {
  const CacheLimits limits{.disk = {.path = "/nvme/carya", .bytes = 500},
                           .shared = {.path = "", .bytes = 900}};
  std::vector<std::string> said;
  const CacheOptions plain = limits.bound({.mode = Mode::kAuto}, {.mode = Mode::kAuto}, said);
  EXPECT_EQ(plain.disk, limits.disk);
  EXPECT_EQ(plain.shared.bytes, 0) << "there is no folder for it";
  EXPECT_TRUE(plain.has_files());
  const CacheOptions own{.mode = Mode::kAuto, .disk = {.path = "/own", .bytes = 200}};
  const CacheOptions moved = limits.bound(own, own, said);
  EXPECT_EQ(moved.disk, (CacheFolder{.path = "/nvme/carya", .bytes = 200}));
  EXPECT_EQ(said.size(), 1U);
  for (const Mode mode : {Mode::kOff, Mode::kOn})
    EXPECT_FALSE(limits.bound({.mode = mode}, {.mode = mode}, said).has_files()) << "nobody asked for files";
}

}  // namespace
}  // namespace carya::loader
