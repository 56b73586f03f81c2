#include "loader/plan/profile_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "tests/io/temp_dir.h"

namespace carya::loader {
namespace {

namespace fs = std::filesystem;
using Order = std::vector<std::size_t>;

std::shared_ptr<const transforms::Pipeline> pipeline_of(const std::string& path, const std::string& crop) {
  auto pipeline =
      transforms::Pipeline::parse(R"({"version":1,"source":{"type":"image_folder","path":")" + path +
                                  R"("},"ops":[{"op":"decode_image"},{"op":"random_crop","size":)" + crop +
                                  R"(}],"batch":{"batch_size":2}})");
  EXPECT_TRUE(pipeline) << pipeline.error().message;
  return *pipeline;
}

PlanProfile small_profile(std::uint64_t timed = 10) {
  transforms::OpProfile stage{.name = "decode_image+random_crop", .ops = {0, 1}};
  stage.samples = 32 * timed;
  stage.timed_samples = timed;
  stage.cpu_ns = timed * 1000;
  stage.bytes_in = timed * 5000;
  stage.bytes_out = timed * 300;
  stage.pictures = timed;
  stage.height = timed * 40;
  stage.width = timed * 50;
  PlanProfile profile;
  profile.add(Order{0, 1}, std::vector{stage}, 1000);
  profile.rates = {.read_latency_s = 0.0025,
                   .read_bytes_per_s = 3e8,
                   .reads_at_s = 1000,
                   .demand_per_s = 1234.5,
                   .demand_at_s = 990};
  return profile;
}

OverflowProfile some_overflow() {
  return {.order = {1, 0},
          .run = {.demand = 1234.5,
                  .local_cpu_s = 1e-3,
                  .link_in_bytes_per_s = 1.25e9,
                  .ops_remote = 2,
                  .host_cpu_s = 5e-5,
                  .worker_cpu_s = 2e-3,
                  .worker_cores = 8,
                  .workers = 3,
                  .serves = true},
          .samples_away = 2.5};
}

const ProfileMachine kMachine{.cpu = "Some \"CPU\"", .simd = "AVX2", .cores = 4};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// What is loaded of a file with `good` in it, but `to` in the place of its first `from`.
Result<PlanProfile> load_changed(const std::string& path, const transforms::Pipeline& pipeline,
                                 const std::string& good, const std::string& from, const std::string& to) {
  const std::size_t at = good.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  write(path, std::string(good).replace(at, from.size(), to));
  return load_profile(path, pipeline, 2000);
}

TEST(ProfileFile, GivesBackWhatWasKept) {
  const io::TempDir folder;
  const auto pipeline = pipeline_of("x", "[9,9]");
  const std::string path = profile_path(folder.path() + "/new/cache", *pipeline, kMachine);
  EXPECT_EQ(load_profile(path, *pipeline, 2000).error().code, Code::kNotFound);
  ASSERT_TRUE(store_profile(path, small_profile(), kMachine));
  const auto kept = load_profile(path, *pipeline, 2000);
  ASSERT_TRUE(kept) << kept.error().message;
  ASSERT_EQ(kept->orders.size(), 1U);
  const PlanProfile before = small_profile();
  const auto& stage = kept->orders[0].stages[0];
  const auto& expected = before.orders[0].stages[0];
  EXPECT_EQ(stage.name, expected.name);
  EXPECT_EQ(stage.ops, expected.ops);
  EXPECT_EQ(stage.cpu_ns, expected.cpu_ns);
  EXPECT_EQ(stage.height, expected.height);
  EXPECT_EQ(kept->orders[0].measured_at_s, 1000);
  EXPECT_EQ(kept->rates.read_latency_s, 0.0025);
  EXPECT_EQ(kept->rates.read_bytes_per_s, 3e8);
  EXPECT_EQ(kept->rates.reads_at_s, 1000);
  EXPECT_EQ(kept->rates.demand_per_s, 1234.5);
  EXPECT_EQ(kept->rates.demand_at_s, 990);
  const auto early = load_profile(path, *pipeline, 500);
  EXPECT_EQ(early->orders[0].measured_at_s, 500) << "nothing is from the future";
  EXPECT_EQ(early->rates.reads_at_s, 500);
}

TEST(ProfileFile, OneOfBeforeSaysNothingOfTheStream) {
  const io::TempDir folder;
  const auto pipeline = pipeline_of("x", "[9,9]");
  const std::string path = profile_path(folder.path(), *pipeline, kMachine);
  write(path, R"({"carya_profile":1,"orders":[{"order":[0,1],"at":1,"stages":[]}]})");
  const auto kept = load_profile(path, *pipeline, 2000);
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->orders.size(), 1U);
  EXPECT_EQ(kept->rates.demand_per_s, 0);
  EXPECT_EQ(kept->rates.read_latency_s, 0);
}

TEST(ProfileFile, FiguresOfAStreamThatCannotBeAreLeftOutOrRefused) {
  const io::TempDir folder;
  const auto pipeline = pipeline_of("x", "[9,9]");
  const std::string path = profile_path(folder.path(), *pipeline, kMachine);
  const auto load = [&](const std::string& demand, const std::string& at) {
    write(path, R"({"carya_profile":1,"orders":[],"stream":{"read_latency_s":1,"read_bytes_per_s":2,)"
                R"("reads_at":3,"demand_per_s":)" +
                    demand + R"(,"demand_at":)" + at + "}}");
    return load_profile(path, *pipeline, 2000);
  };
  ASSERT_TRUE(load("7", "5"));
  EXPECT_EQ(load("7", "5")->rates.demand_per_s, 7);
  EXPECT_EQ(load("7", "18446744073709551615")->rates.demand_at_s, 2000);
  for (const char* lie : {"-1", "0", "1e300"}) EXPECT_EQ(load(lie, "5")->rates.demand_per_s, 0) << lie;
  for (const char* bad : {"null", "\"7\"", "[]", "true", "1e999", "NaN"})
    EXPECT_EQ(load(bad, "5").error().code, Code::kCorrupt) << bad;
  for (const char* bad : {"-1", "1.5", "null"}) EXPECT_EQ(load("7", bad).error().code, Code::kCorrupt) << bad;
  for (const char* bad : {"7", "[]", "{}", "null"}) {
    write(path, R"({"carya_profile":1,"orders":[],"stream":)" + std::string(bad) + "}");
    EXPECT_EQ(load_profile(path, *pipeline, 2000).error().code, Code::kCorrupt) << bad;
  }
}

TEST(ProfileFile, WhatWasKnownOfWorkersIsKept) {
  const io::TempDir folder;
  const auto pipeline = pipeline_of("x", "[9,9]");
  const std::string path = profile_path(folder.path(), *pipeline, kMachine);
  PlanProfile profile = small_profile();
  ASSERT_TRUE(store_profile(path, profile, kMachine));
  EXPECT_FALSE(load_profile(path, *pipeline, 2000)->overflow);
  profile.overflow = some_overflow();
  ASSERT_TRUE(store_profile(path, profile, kMachine));
  const auto kept = load_profile(path, *pipeline, 2000);
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->overflow, some_overflow());
}

TEST(ProfileFile, WhatCannotBeKnownOfWorkersIsLeftOutOrRefused) {
  const io::TempDir folder;
  const auto pipeline = pipeline_of("x", "[9,9]");
  const std::string path = profile_path(folder.path(), *pipeline, kMachine);
  PlanProfile profile = small_profile();
  profile.overflow = some_overflow();
  ASSERT_TRUE(store_profile(path, profile, kMachine));
  const std::string good = read(path);
  const auto load = [&](const std::string& from, const std::string& to) {
    return load_changed(path, *pipeline, good, from, to);
  };
  for (const auto& [from, to] : {std::pair{"\"workers\": 3", "\"workers\": 4000000000"},
                                 {"\"workers\": 3", "\"workers\": 18446744073709551615"},
                                 {"\"worker_cores\": 8.0", "\"worker_cores\": -8.0"},
                                 {"\"samples_away\": 2.5", "\"samples_away\": -1.0"},
                                 {"\"local_cpu_s\": 0.001", "\"local_cpu_s\": 1e300"},
                                 {"\"local_cpu_s\": 0.001", "\"local_cpu_s\": 1e-300"}}) {
    const auto loaded = load(from, to);
    ASSERT_TRUE(loaded) << to;
    EXPECT_FALSE(loaded->overflow) << to;
    EXPECT_EQ(loaded->orders.size(), 1U) << to;
  }
  for (const auto& [from, to] : {std::pair{"\"workers\": 3", "\"workers\": -3"},
                                 {"\"workers\": 3", "\"workers\": null"},
                                 {"\"worker_cores\": 8.0", "\"worker_cores\": \"8\""},
                                 {"\"serves\": true", "\"serves\": 1"},
                                 {"\"ops_remote\": 2", "\"ops_remote\": [2]"},
                                 {"\"overflow\": {", "\"overflow\": 7, \"x\": {"}})
    EXPECT_EQ(load(from, to).error().code, Code::kCorrupt) << to;
}

TEST(ProfileFile, WhatIsKnownOfStoragesIsKeptAndCheckedWhenRead) {
  const io::TempDir folder;
  const auto pipeline = pipeline_of("x", "[9,9]");
  const std::string path = profile_path(folder.path(), *pipeline, kMachine);
  PlanProfile profile = small_profile();
  const StorageRates rates{.time = {{{1e-5, 1e-10}, {1e-4, 1e-9}, {1e-4, 2e-9}}},
                           .cpu = {{{0, 3e-10}, {0, 5e-10}, {0, 5e-10}}},
                           .measured_at_s = 1500};
  for (int i = 0; i < 10; ++i)
    profile.add(std::vector<StorageProfile>{{.folder = "/nvme/" + std::to_string(i), .rates = rates}});
  profile.add(std::vector<StorageProfile>{{.folder = "/nvme/5", .rates = rates}});
  ASSERT_EQ(profile.storages.size(), kStoragesKept);
  EXPECT_EQ(profile.storages.back().folder, "/nvme/5");
  ASSERT_TRUE(store_profile(path, profile, kMachine));
  const auto kept = load_profile(path, *pipeline, 2000);
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->storages, profile.storages);
  EXPECT_EQ(load_profile(path, *pipeline, 1200)->storages[0].rates.measured_at_s, 1200);
  const std::string good = read(path);
  const auto load = [&](const std::string& from, const std::string& to) {
    return load_changed(path, *pipeline, good, from, to);
  };
  for (const char* lie : {"-1e-05", "1e300", "100000.0"}) {
    const auto loaded = load("\"fixed_s\": 1e-05", "\"fixed_s\": " + std::string(lie));
    ASSERT_TRUE(loaded) << lie;
    EXPECT_EQ(loaded->storages.size(), kStoragesKept - 1) << lie;
  }
  for (const char* bad : {"null", "\"1\"", "[]", "1e999"})
    EXPECT_EQ(load("\"fixed_s\": 1e-05", "\"fixed_s\": " + std::string(bad)).error().code, Code::kCorrupt)
        << bad;
  EXPECT_EQ(load("\"storages\": [", "\"storages\": [7, ").error().code, Code::kCorrupt);
  EXPECT_EQ(load("\"folder\": \"/nvme/2\"", "\"folder\": 2").error().code, Code::kCorrupt);
}

TEST(ProfileFile, MuchThatWasKeptWeighsLittle) {
  const io::TempDir folder;
  const auto pipeline = pipeline_of("x", "[9,9]");
  const std::string path = profile_path(folder.path(), *pipeline, kMachine);
  ASSERT_TRUE(store_profile(path, small_profile(1'000'000), kMachine));
  const auto kept = load_profile(path, *pipeline, 2000);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->orders[0].timed_samples(), 64U);
  EXPECT_EQ(kept->orders[0].cpu_ns(), 1000);
}

TEST(ProfileFile, OnePerPipelineAndMachineWhateverTheSource) {
  const auto pipeline = pipeline_of("x", "[9,9]");
  const std::string path = profile_path("c", *pipeline, kMachine);
  EXPECT_EQ(profile_path("c", *pipeline_of("y", "[9,9]"), kMachine), path);
  EXPECT_NE(profile_path("c", *pipeline_of("x", "[9,8]"), kMachine), path);
  EXPECT_NE(profile_path("c", *pipeline, {.cpu = "Other", .simd = "AVX2", .cores = 4}), path);
  EXPECT_NE(profile_path("c", *pipeline, {.cpu = kMachine.cpu, .simd = "SSE4", .cores = 4}), path);
  EXPECT_NE(profile_path("c", *pipeline, {.cpu = kMachine.cpu, .simd = "AVX2", .cores = 8}), path);
}

TEST(ProfileFile, DamageIsRefusedOrHarmless) {
  const io::TempDir folder;
  const auto pipeline = pipeline_of("x", "[9,9]");
  const std::string path = profile_path(folder.path(), *pipeline, kMachine);
  PlanProfile profile = small_profile();
  profile.overflow = some_overflow();
  ASSERT_TRUE(store_profile(path, profile, kMachine));
  const std::string good = read(path);
  for (const std::string& bad :
       {std::string(), std::string("{}"), std::string("[1"), std::string("null"), std::string(300 << 10, ' '),
        std::string(100'000, '['), std::string(R"({"carya_profile":2,"orders":[]})"),
        std::string(R"({"carya_profile":1,"orders":[{"order":[0,1],"at":1}]})"),
        std::string(R"({"carya_profile":1,"orders":[{"order":[0,-1],"at":1,"stages":[]}]})"),
        std::string(R"({"carya_profile":1,"orders":[{"order":[0,1],"at":1e300,"stages":[]}]})"),
        std::string(R"({"carya_profile":1,"orders":[{"order":[0,1],"at":NaN,"stages":[]}]})")}) {
    write(path, bad);
    const auto refused = load_profile(path, *pipeline, 2000);
    ASSERT_FALSE(refused) << bad.substr(0, 80);
    EXPECT_EQ(refused.error().code, Code::kCorrupt);
  }
  // Any byte another one: an error, or a profile by which it can be planned.
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    std::string bytes = good;
    for (unsigned changes = random() % 4 + 1; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (i % 5 == 0) bytes.resize(random() % bytes.size());
    write(path, bytes);
    const auto loaded = load_profile(path, *pipeline, 2000);
    if (!loaded) continue;
    ASSERT_TRUE(!loaded->overflow || autotune::check(loaded->overflow->run)) << bytes;
    const PipelineInfo facts = facts_of(*pipeline, *loaded);
    for (const auto& [label, cost] : facts.costs) ASSERT_TRUE(autotune::check(cost, label)) << bytes;
    ASSERT_TRUE(cheapest_exact_order(*pipeline, facts)) << bytes;
  }
}

TEST(ProfileFile, WhatIsNoFileHoldsNobodyUp) {
  const io::TempDir folder;
  const auto pipeline = pipeline_of("x", "[9,9]");
  const std::string path = profile_path(folder.path(), *pipeline, kMachine);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(load_profile(path, *pipeline, 1).error().code, Code::kCorrupt);
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_FALSE(load_profile(path, *pipeline, 1));
  EXPECT_FALSE(store_profile(path, small_profile(), kMachine));
  EXPECT_FALSE(store_profile("/proc/none/x.json", small_profile(), kMachine));
}

TEST(ProfileFile, OnlyTheNewestStay) {
  const io::TempDir folder;
  const auto pipeline = pipeline_of("x", "[9,9]");
  for (std::uint32_t cores = 1; cores <= 12; ++cores) {
    const std::string path = profile_path(folder.path(), *pipeline, {.cores = cores});
    ASSERT_TRUE(store_profile(path, small_profile(), kMachine));
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(20 - cores));
  }
  write(folder.path() + "/index-1.store", "not ours");
  const std::string oldest = profile_path(folder.path(), *pipeline, {.cores = 1});
  remove_old_profiles(oldest, 5);
  EXPECT_TRUE(fs::exists(oldest)) << "that is the one in use";
  EXPECT_TRUE(fs::exists(folder.path() + "/index-1.store"));
  for (std::uint32_t cores = 2; cores <= 12; ++cores)
    EXPECT_EQ(fs::exists(profile_path(folder.path(), *pipeline, {.cores = cores})), cores >= 8) << cores;
}

}  // namespace
}  // namespace carya::loader
