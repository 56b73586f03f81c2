#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "autotune/order/order.h"
#include "base/clock.h"
#include "loader/plan/order_choice.h"
#include "loader/plan/profile_file.h"
#include "tests/io/temp_dir.h"
#include "tests/loader/job_reading.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

using Order = std::vector<std::size_t>;
using Hashes = std::vector<std::uint64_t>;

/// Colors, flips and windows of which many may change places; as declared the colors come first, the dearest
/// way.
const std::string kSwitchedOps =
    R"({"op":"decode_image"},{"op":"color_jitter","brightness":0.4,"saturation":0.4,"hue":0.1},)"
    R"({"op":"posterize","bits":5},{"op":"random_horizontal_flip"},{"op":"random_vertical_flip"},)"
    R"({"op":"random_crop","size":[16,16]},{"op":"random_grayscale","p":0.5},)"
    R"({"op":"normalize","mean":0.4,"std":0.2})";

Opened open_photos(const PhotoFolder& folder) {
  auto pipeline = transforms::Pipeline::parse(
      R"({"version":1,"source":{"type":"image_folder","path":")" + folder.path().string() +
      R"("},"views":[],"shuffle":{"seed":5},"ops":[)" + kSwitchedOps + R"(],"batch":)" + kBatch4 + "}");
  EXPECT_TRUE(pipeline) << pipeline.error().message;
  auto dataset = Dataset::open(**pipeline, {});
  EXPECT_TRUE(dataset) << dataset.error().message;
  return {*pipeline, *dataset};
}

std::vector<Order> legal_orders(const transforms::Pipeline& pipeline) {
  const auto chain = autotune::Chain::create(planner_input(pipeline, {}).chain);
  EXPECT_TRUE(chain);
  std::vector<Order> legal;
  Order order = declared_order(pipeline);
  do {
    if (autotune::check_order(*chain, autotune::plan_of(order), autotune::Sense::kExact))
      legal.push_back(order);
  } while (std::ranges::next_permutation(order).found);
  return legal;
}

Hashes as_declared(const Opened& opened, JobOptions options) {
  options.reorder = autotune::Sense::kOff;
  return drain(*start(opened, options));
}

/// The planner that a stream makes itself, which looks after another time or begins with another order.
std::shared_ptr<StreamPlanner> planner_of(const Opened& opened, const JobOptions& options,
                                          std::int64_t look_after_ns, const Order& first) {
  StreamPlannerOptions planning = planner_options(options, options.seed.value_or(opened.pipeline->seed()));
  planning.look_after_ns = look_after_ns;
  planning.first_order = first;
  return std::make_shared<StreamPlanner>(opened.pipeline, std::move(planning));
}

/// Turns to the next of these orders every so many chunks.
GivenParts forced(const Opened& opened, const std::vector<Order>& orders, std::uint64_t every) {
  const std::uint64_t seed = opened.pipeline->seed();
  std::vector<std::shared_ptr<PlanInUse>> plans;
  for (const Order& order : orders) {
    auto plan = transforms::Plan::compile(opened.pipeline, {.seed = seed, .order = order});
    EXPECT_TRUE(plan) << plan.error().message;
    plans.push_back(std::make_shared<PlanInUse>(PlanInUse{std::move(*plan), {.order = order}}));
  }
  return {.plan_chooser = [plans, every, taken = std::uint64_t{0}]() mutable -> std::shared_ptr<PlanInUse> {
    return taken++ % every == 0 ? plans[taken / every % plans.size()] : nullptr;
  }};
}

TEST(PlanSwitch, AmongAllLegalOrdersChangesNoBit) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::vector<Order> orders = legal_orders(*opened.pipeline);
  ASSERT_GT(orders.size(), 20U);
  const Hashes expected = as_declared(opened, {});
  for (const std::uint64_t every : {1U, 2U, 5U})
    for (const std::uint32_t threads : {1U, 2U, 3U}) {
      const auto job = start(opened, {.threads = threads}, forced(opened, orders, every));
      EXPECT_EQ(drain(*job), expected) << every << " chunks, " << threads << " threads";
      EXPECT_GT(job->stats().scheduler.plan_switches, 2U);
      drain(*job);
    }
}

TEST(PlanSwitch, BrokenRowsAreReplacedAndMaskedAlike) {
  const PhotoFolder folder(40);
  for (const int record : {3, 7, 8, 21, 39}) folder.spoil(record);
  const Opened opened = open_photos(folder);
  const std::vector<Order> orders = legal_orders(*opened.pipeline);
  for (const auto policy : {transforms::OnError::kMask, transforms::OnError::kReplace}) {
    const auto plain = start(opened, {.on_error = policy, .reorder = autotune::Sense::kOff});
    const Hashes expected = drain(*plain);
    const auto job = start(opened, {.threads = 2, .on_error = policy}, forced(opened, orders, 1));
    EXPECT_EQ(drain(*job), expected);
    EXPECT_GE(job->quarantine().size(), 5U);
    EXPECT_EQ(job->quarantine().size(), plain->quarantine().size());
  }
}

TEST(PlanSwitch, ResumesAndSeeksToTheSameRows) {
  const PhotoFolder folder(24);
  const Opened opened = open_photos(folder);
  const std::vector<Order> orders = legal_orders(*opened.pipeline);
  const Hashes expected = as_declared(opened, {});
  const Hashes second = as_declared(opened, {.epoch = 1});
  for (std::uint64_t position = 0; position < 24; position += 4) {
    const auto job = start(opened, {.threads = 2, .position = position}, forced(opened, orders, 1));
    const Hashes rest(expected.begin() + static_cast<long>(position), expected.end());
    EXPECT_EQ(drain(*job), rest);
    ASSERT_TRUE(job->seek(1, 0));
    EXPECT_EQ(drain(*job), second);
    ASSERT_TRUE(job->seek(0, position));
    EXPECT_EQ(drain(*job), rest);
  }
}

/// Epochs until the stream has turned to another plan; the rows of each.
std::vector<Hashes> drain_until_switched(Job& job) {
  std::vector<Hashes> epochs;
  while (job.stats().scheduler.plan_switches == 0 && epochs.size() < 3000) epochs.push_back(drain(job));
  epochs.push_back(drain(job));
  return epochs;
}

TEST(PlanSwitch, FromTheOrderAsDeclaredTheStreamFindsABetterOneWithTheSameBits) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const Order declared = declared_order(*opened.pipeline);
  const JobOptions options{.threads = 2};
  const auto job =
      start(opened, options, GivenParts{.planner = planner_of(opened, options, 1'000'000, declared)});
  EXPECT_EQ(job->stats().order[1], "color_jitter");
  const std::vector<Hashes> epochs = drain_until_switched(*job);
  const JobStats stats = job->stats();
  ASSERT_GT(stats.scheduler.plan_switches, 0U);
  EXPECT_NE(stats.order[1], "color_jitter") << "the crop runs first";
  ASSERT_FALSE(stats.plan_lines.empty());
  EXPECT_NE(stats.plan_lines.front().find("random_crop before color_jitter"), std::string::npos)
      << stats.plan_lines.front();
  ASSERT_FALSE(stats.plan_profile.empty());
  const auto plain = start(opened, {.reorder = autotune::Sense::kOff});
  for (std::size_t epoch = 0; epoch < epochs.size(); ++epoch)
    ASSERT_EQ(epochs[epoch], drain(*plain)) << "epoch " << epoch;
}

TEST(PlanSwitch, OffNeverSwitches) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const JobOptions options{.threads = 2, .reorder = autotune::Sense::kOff};
  const auto job = start(opened, options, GivenParts{.planner = planner_of(opened, options, 1, {})});
  for (int epoch = 0; epoch < 40; ++epoch) drain(*job);
  EXPECT_EQ(job->stats().scheduler.plan_switches, 0U);
  EXPECT_EQ(job->stats().order[1], "color_jitter");
}

TEST(PlanSwitch, StagesOfAllPlansAreCounted) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const auto job = start(opened, {.threads = 1}, forced(opened, legal_orders(*opened.pipeline), 1));
  drain(*job);
  const JobStats stats = job->stats();
  std::uint64_t decoded = 0;
  for (const transforms::OpProfile& stage : stats.scheduler.ops)
    if (stage.name.starts_with("decode_image")) decoded += stage.samples;
  EXPECT_GE(decoded, 61U);
  EXPECT_LE(decoded, stats.scheduler.samples + 61 + 200) << "each sample once, also those made ahead";
}

TEST(PlanProfileKept, TheNextStreamBeginsWithWhatThisOneMeasured) {
  const PhotoFolder folder(61);
  const io::TempDir cache;
  const Opened opened = open_photos(folder);
  const Order declared = declared_order(*opened.pipeline);
  std::vector<std::string> order;
  {
    const JobOptions options{.threads = 2, .cache_dir = cache.path()};
    const auto job =
        start(opened, options, GivenParts{.planner = planner_of(opened, options, 1'000'000, declared)});
    drain_until_switched(*job);
    ASSERT_GT(job->stats().scheduler.plan_switches, 0U);
    drain(*job);
    order = job->stats().order;
    job->close();
  }
  const std::string path = profile_path(cache.path(), *opened.pipeline, ProfileMachine::here());
  const auto kept = load_profile(path, *opened.pipeline, unix_s());
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_GE(kept->orders.size(), 1U);
  EXPECT_NE(kept->find(declared), nullptr);
  const auto next = start(opened, {.cache_dir = cache.path()});
  const JobStats stats = next->stats();
  EXPECT_FALSE(stats.plan_profile.empty()) << "before anything ran";
  EXPECT_NE(stats.order[1], "color_jitter");
  EXPECT_EQ(drain(*next), as_declared(opened, {}));
}

TEST(PlanProfileKept, WhatTheStreamMetIsThereForTheNext) {
  const PhotoFolder folder(80);
  const io::TempDir cache;
  const Opened opened = open_photos(folder);
  {
    const auto job = start(opened, {.threads = 2, .cache_dir = cache.path()});
    for (int epoch = 0; epoch < 2; ++epoch) drain(*job);
    const JobStats stats = job->stats();
    EXPECT_GE(stats.trainer.steps, TrainerMeter::kBlockSteps + 1);
    EXPECT_EQ(stats.trainer.asked, stats.trainer.steps);
    EXPECT_GT(stats.trainer.demand_per_s, 0);
    EXPECT_EQ(stats.rates.demand_per_s, stats.trainer.demand_per_s);
    EXPECT_GE(stats.scheduler.reads, 160U);
    EXPECT_GT(stats.scheduler.reading_ns, 0);
    EXPECT_GT(stats.rates.read_latency_s, 0);
    EXPECT_GT(stats.rates.read_bytes_per_s, 0);
    EXPECT_GE(stats.rates.reads_at_s, 1'700'000'000);
    job->close();
  }
  const auto next = start(opened, {.cache_dir = cache.path()});
  const JobStats stats = next->stats();
  EXPECT_EQ(stats.trainer.demand_per_s, 0) << "it has not measured any";
  EXPECT_GT(stats.rates.demand_per_s, 0) << "the one before has";
  EXPECT_GT(stats.rates.read_latency_s, 0);
}

TEST(PlanProfileKept, TroubleWithItIsNoTroubleOfTheStream) {
  const PhotoFolder folder(20);
  const io::TempDir cache;
  const Opened opened = open_photos(folder);
  const Hashes expected = as_declared(opened, {});
  const std::string path = profile_path(cache.path(), *opened.pipeline, ProfileMachine::here());
  cache.write(path.substr(path.rfind('/') + 1), R"({"carya_profile":1,"orders":7})");
  {
    const auto job = start(opened, {.cache_dir = cache.path()});
    EXPECT_EQ(drain(*job), expected);
    ASSERT_FALSE(job->stats().plan_lines.empty());
    EXPECT_NE(job->stats().plan_lines.front().find("begun without it"), std::string::npos);
    job->close();
  }
  EXPECT_TRUE(load_profile(path, *opened.pipeline, unix_s())) << "written anew";
  const std::string file = cache.write("a-file", "x");
  const auto job = start(opened, {.cache_dir = file});
  EXPECT_EQ(drain(*job), expected);
  job->close();
}

}  // namespace
}  // namespace carya::loader
