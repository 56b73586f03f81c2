#include "loader/daemon/job_table.h"

#include <gtest/gtest.h>

#include "tests/daemon/hand_client.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

TEST(MemoryShare, ReadAheadShrinksFirstThenSlotsAndTheyGrowBackInTheOtherOrder) {
  MemoryShare share;
  EXPECT_FALSE(share.follow(0)) << "all of it is the most";
  EXPECT_TRUE(share.follow(40));
  EXPECT_DOUBLE_EQ(share.read_ahead(), 0.5);
  EXPECT_FALSE(share.follow(5)) << "neither high nor low";
  while (share.slots() == 1) ASSERT_TRUE(share.follow(99));
  const double least = share.read_ahead();
  EXPECT_GT(least, 0) << "one chunk is always read";
  EXPECT_LT(least, 0.1);
  for (int i = 0; i < 20; ++i) share.follow(99);
  EXPECT_GT(share.slots(), 0);
  EXPECT_FALSE(share.follow(99));
  while (share.slots() < 1) {
    EXPECT_DOUBLE_EQ(share.read_ahead(), least);
    ASSERT_TRUE(share.follow(0));
  }
  for (int i = 0; i < 20; ++i) share.follow(0);
  EXPECT_DOUBLE_EQ(share.read_ahead(), 1);
}

/// By a client that lends this key of S3.
std::shared_ptr<io::StoreAccess> lending(const std::string& key) {
  const auto lent = std::make_shared<io::LentGrants>([] {});
  EXPECT_TRUE(lent->lend({{.account = "s3", .grant = {.access_key = key, .secret_key = "a secret"}}}));
  return std::make_shared<io::StoreAccess>(io::StoreTerms{}, std::vector{lent});
}

/// One of the two replicas of a job over these photos.
AttachCall replica_of_two(const PhotoFolder& photos, std::uint32_t replica, const std::string& key) {
  AttachRequest request{.job = "two", .replica = replica, .replicas = 2};
  request.options.threads = 1;
  request.options.slots = 4;
  const UniqueFd document(HandClient::sealed(
      R"({"version":1,"source":{"type":"image_folder","path":")" + photos.path().string() +
      R"("},"views":[],"shuffle":{"seed":5},"ops":[{"op":"decode_image"},{"op":"resize","size":[8,8]}],)"
      R"("batch":{"batch_size":4,"global_size":null,"drop_last":true,"pad_last":false}})"));
  return {.request = request,
          .document = SealedBytes::map(document, 1 << 20, "pipeline document").value(),
          .access = lending(key)};
}

TEST(JobAccess, WhoMadeARankAsksWithNothingThatLaterMembersLend) {
  const PhotoFolder photos(8);
  JobTable table({.jobs = 1, .shared_bytes = 64 << 20, .threads = 1, .linger_s = 0});
  const AttachCall first = replica_of_two(photos, 0, "AKIDFIRST");
  const AttachCall second = replica_of_two(photos, 1, "AKIDSECOND");
  const auto alone = first.access->rights();
  ASSERT_TRUE(alone);
  const auto seat = table.attach(first, {});
  const auto other = table.attach(second, {});
  ASSERT_TRUE(seat) << seat.error().message;
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(seat->seat.stream, other->seat.stream);
  EXPECT_EQ(first.access->rights(), alone);
  table.stop_all();
}

}  // namespace
}  // namespace carya::loader
