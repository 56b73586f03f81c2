#include "autotune/placement/remote_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/autotune/brute_force.h"

namespace carya::autotune {
namespace {

// decode (1000 bytes -> 600), flip (600), to_float (2400 bytes): 2700, 300 and 610 ns alone.
Instance cut_instance() {
  Instance instance;
  OpModel decode{.name = "decode"};
  decode.size = {.pixels = Change::set(200), .channels = Change::set(3)};
  decode.cost = {.fixed_ns = 2700};
  OpModel flip{.name = "flip", .random = true, .geometric = true};
  flip.cost = {.fixed_ns = 300};
  OpModel to_float{.name = "to_float", .per_pixel = true};
  to_float.size.element_bytes = Change::set(4);
  to_float.cost = {.fixed_ns = 610};
  instance.spec.ops = {decode, flip, to_float};
  instance.spec.fusing = {{0, 1}, {1, 2}};
  instance.profile.source = {.pixels = 1000};
  return instance;
}

class RemoteCutTest : public ::testing::Test {
 protected:
  void make(const Plan& plan, const Transfer& transfer, double worker_speed = 1) {
    chain_ = Chain::create(instance_.spec).value();
    const auto model = StageModel::create(*chain_, instance_.profile);
    ASSERT_TRUE(model);
    const auto found = remote_cuts(*model, plan, {}, {.speed = worker_speed}, transfer);
    ASSERT_TRUE(found) << found.error().message;
    cuts_ = *found;
  }
  Instance instance_ = cut_instance();
  std::optional<Chain> chain_;
  RemoteCuts cuts_;
};

TEST_F(RemoteCutTest, BothSidesComeFromTheCostFunction) {
  make({{{{0}}, {{1}}, {{2}}}}, {.receive_s_per_byte = 1e-10, .reply_s_per_byte = 2e-10}, 2);
  EXPECT_NEAR(cuts_.local_cpu_s, 3610e-9, 1e-15);
  EXPECT_EQ(cuts_.source_bytes, 1000);
  ASSERT_EQ(cuts_.cuts.size(), 3U);
  EXPECT_EQ(cuts_.cuts[0].ops_remote, 1U);
  EXPECT_NEAR(cuts_.cuts[0].host_cpu_s, 910e-9 + 600e-10, 1e-15);
  EXPECT_NEAR(cuts_.cuts[0].worker_cpu_s, 1350e-9 + 1200e-10, 1e-15);  // a worker of twice the speed
  EXPECT_EQ(cuts_.cuts[0].bytes_in, 600);
  EXPECT_EQ(cuts_.cuts[0].bytes_out, 0);
  EXPECT_NEAR(cuts_.cuts[2].host_cpu_s, 2400e-10, 1e-15);
  EXPECT_EQ(cuts_.cuts[2].bytes_in, 2400);
}

TEST_F(RemoteCutTest, ACutInsideOfAStageBreaksItsFusion) {
  instance_.profile.estimate = {.boundary_ns = 100, .follower_share_min = 0.5};
  make({{{{0, 1, 2}}}}, {});
  EXPECT_NEAR(cuts_.local_cpu_s, (2700 + 200 + 510) * 1e-9, 1e-15);
  EXPECT_NEAR(cuts_.cuts[0].worker_cpu_s, 2700e-9, 1e-15);
  EXPECT_NEAR(cuts_.cuts[0].host_cpu_s, (300 + 510) * 1e-9, 1e-15);
  EXPECT_NEAR(cuts_.cuts[1].worker_cpu_s, 2900e-9, 1e-15);
  EXPECT_NEAR(cuts_.cuts[1].host_cpu_s, 610e-9, 1e-15);
  EXPECT_NEAR(cuts_.cuts[2].worker_cpu_s, cuts_.local_cpu_s, 1e-15);
}

TEST_F(RemoteCutTest, RecordsThatAreSentCostTheLinkAndTheHost) {
  make({{{{0}}, {{1}}, {{2}}}}, {.sends_records = true, .request_s_per_byte = 1e-9});
  EXPECT_EQ(cuts_.cuts[2].bytes_out, 1000);
  EXPECT_NEAR(cuts_.cuts[2].host_cpu_s, 1e-6, 1e-15);
}

TEST_F(RemoteCutTest, CompressionIsACutOfItsOwn) {
  make({{{{0}}, {{1}}, {{2}}}}, {.receive_s_per_byte = 1e-9,
                                 .compressed_share = 0.25,
                                 .compress_s_per_byte = 3e-9,
                                 .decompress_s_per_byte = 1e-9});
  ASSERT_EQ(cuts_.cuts.size(), 6U);
  EXPECT_FALSE(cuts_.cuts[4].compressed);
  EXPECT_TRUE(cuts_.cuts[5].compressed);
  EXPECT_NEAR(cuts_.cuts[5].bytes_in, 600, 1e-9);
  EXPECT_NEAR(cuts_.cuts[5].host_cpu_s, 600e-9 + 2400e-9, 1e-15);
  EXPECT_NEAR(cuts_.cuts[5].worker_cpu_s, 3610e-9 + 7200e-9, 1e-15);
}

TEST_F(RemoteCutTest, WithoutTransferTheTwoSidesAreThePlanSplit) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) {
    instance_ = random_instance(random, 5);
    instance_.spec.fusing.clear();
    instance_.profile.fused.clear();
    const auto chain = Chain::create(instance_.spec);
    ASSERT_TRUE(chain);
    make(declared_plan(*chain), {});
    for (const RemoteCut& cut : cuts_.cuts)
      ASSERT_NEAR((cut.host_cpu_s + cut.worker_cpu_s) / cuts_.local_cpu_s, 1, 1e-9);
  }
}

TEST_F(RemoteCutTest, NumbersThatCannotBeAreNamed) {
  chain_ = Chain::create(instance_.spec).value();
  const auto model = StageModel::create(*chain_, instance_.profile);
  ASSERT_TRUE(model);
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const auto wrong = remote_cuts(*model, declared_plan(*chain_), {}, {}, {.receive_s_per_byte = bad});
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().code, Code::kInvalidArgument);
    EXPECT_THAT(wrong.error().message, ::testing::HasSubstr("receive_s_per_byte"));
    EXPECT_FALSE(remote_cuts(*model, declared_plan(*chain_), {}, {.speed = bad}, {}));
  }
}

}  // namespace
}  // namespace carya::autotune
