// Where samples are kept: chosen from what is known, left when it turns out not to pay.
#include "loader/plan/stream_cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "loader/plan/cache_places.h"
#include "short_memory.h"

namespace carya::loader {
namespace {

using Mode = CacheOptions::Mode;
using Order = std::vector<std::size_t>;

std::shared_ptr<const transforms::Pipeline> pipeline_of(const std::string& ops) {
  const auto parsed = transforms::Pipeline::parse(
      R"({"version":1,"source":{"type":"image_folder","path":"x"},"views":[],"shuffle":null,"ops":[)" + ops +
      R"(],"batch":{"batch_size":4,"global_size":null,"drop_last":false,"pad_last":false}})");
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
  return *parsed;
}

std::shared_ptr<const transforms::Pipeline> crops() {
  return pipeline_of(
      R"({"op":"decode_image"},{"op":"resize","size":[64,64]},{"op":"random_crop","size":[32,32]})");
}

/// What a stream of crops() measured of an order: a decode and resize of so many microseconds, and the crop.
PlanProfile measured(double us, const Order& order = {0, 1, 2}) {
  transforms::OpProfile decode{.name = "decode_image", .samples = 3200, .timed_samples = 100, .ops = {0}};
  decode.cpu_ns = static_cast<std::uint64_t>(us * 100'000);
  decode.bytes_in = 100 * 100'000;
  decode.bytes_out = 100 * 500'000;
  decode.pictures = 100;
  decode.height = decode.width = 100 * 400;
  transforms::OpProfile rest{
      .name = "resize+random_crop", .samples = 3200, .timed_samples = 100, .ops = {1, 2}};
  rest.cpu_ns = 100 * 20'000;
  rest.bytes_in = decode.bytes_out;
  rest.bytes_out = 100 * 32 * 32 * 3;
  return {.orders = {{.order = order, .stages = {decode, rest}, .measured_at_s = 1}}};
}

StreamCacheOptions options(Mode mode, std::optional<std::uint64_t> epochs = 90) {
  static const auto dataset = std::make_shared<int>();
  return {.cache = {.mode = mode},
          .dataset = dataset,
          .capacity_bytes = 1 << 30,
          .records = 1000,
          .epochs = epochs};
}

std::shared_ptr<StreamCache> made(const StreamCacheOptions& asked, const PlanProfile& known = {}) {
  auto cache = StreamCache::create(crops(), asked, {0, 1, 2}, known);
  EXPECT_TRUE(cache) << (cache ? "" : cache.error().message);
  return *cache;
}

TEST(CachePlaces, EndBeforeTheFirstRandomOp) {
  const auto places = [](const std::string& ops, Order order) {
    return cache_places(pipeline_of(ops), order);
  };
  EXPECT_EQ(cache_places(crops(), Order{0, 1, 2}), (Order{1, 2}));
  EXPECT_EQ(places(R"({"op":"decode_image"},{"op":"random_resized_crop","size":[8,8]},{"op":"grayscale"})",
                   {0, 1, 2}),
            (Order{1}));
  EXPECT_EQ(places(R"({"op":"decode_image"},{"op":"resize","size":[8,8]})", {0, 1}), (Order{1, 2}));
  EXPECT_EQ(places(R"({"op":"decode_image"},{"op":"resize","size":[8,8]},)"
                   R"({"op":"random_apply","p":0.5,"ops":[{"op":"grayscale","num_output_channels":3}]})",
                   {0, 1, 2}),
            (Order{1, 2}));
  // A float32 picture of any size cannot be packed.
  EXPECT_EQ(
      places(R"({"op":"decode_image"},{"op":"to_dtype","dtype":"float32"},{"op":"resize","size":[8,8]})",
             {0, 1, 2}),
      (Order{1, 3}));
}

constexpr char kReuse[] = R"({"op":"reuse_augmentation","epochs":3})";

/// What is before reuse_augmentation() gives the same for three epochs.
std::shared_ptr<const transforms::Pipeline> reusing(const std::string& behind = "") {
  return pipeline_of(std::string(R"({"op":"decode_image"},{"op":"random_resized_crop","size":[32,32]},)") +
                     kReuse + behind);
}

TEST(CachePlaces, BehindWhatIsReusedForSomeEpochs) {
  const std::string flip = R"(,{"op":"random_horizontal_flip"})";
  const auto pipeline = reusing(flip);
  EXPECT_EQ(cache_places(pipeline, Order{0, 1, 2}), (Order{1, 2}))
      << "not behind the flip, which is not reused";
  EXPECT_FALSE(place_groups(*pipeline, Order{0, 1, 2}, 1));
  ASSERT_TRUE(place_groups(*pipeline, Order{0, 1, 2}, 2));
  EXPECT_EQ(place_groups(*pipeline, Order{0, 1, 2}, 2)->end(3), 6U);
  EXPECT_EQ(cache_places(reusing(R"(,{"op":"to_dtype","dtype":"float32"})"), Order{0, 1, 2}),
            (Order{1, 2, 3}));
  // In an order where the flip comes first nothing behind it can be kept.
  EXPECT_EQ(cache_places(pipeline, Order{0, 2, 1}), (Order{1}));
  const auto of_records = [](const std::string& records) {
    std::string document = reusing()->to_json();
    document.back() = ',';
    const auto parsed = transforms::Pipeline::parse(document + R"("records":)" + records + "}");
    EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
    return cache_places(*parsed, Order{0, 1});
  };
  EXPECT_EQ(of_records(R"({"kept":{"fingerprint":"x","count":4}})"), (Order{1, 2}));
  EXPECT_EQ(of_records(R"({"repeated":{"times":2,"within":4,"positions":8}})"), (Order{1}))
      << "each row differs";
  EXPECT_EQ(of_records(R"({"drawn":{"fingerprint":"x","key":1,"positions":8}})"), (Order{1}));
}

/// A stream of reusing(), which is asked to keep what is behind the crop.
std::shared_ptr<StreamCache> made_reusing(StreamCacheOptions asked, const std::string& behind = "") {
  asked.cache.after = "random_resized_crop";
  auto cache = StreamCache::create(reusing(behind), asked, behind.empty() ? Order{0, 1} : Order{0, 1, 2}, {});
  EXPECT_TRUE(cache) << (cache ? "" : cache.error().message);
  return *cache;
}

/// Puts a sample at a place.
void fill(const KeptPlace& place, std::uint64_t sample) {
  ASSERT_NE(place.samples->reserve(sample, 3072), nullptr);
  place.samples->publish(sample, 3072);
}

TEST(StreamCache, WhatIsReusedIsKeptForItsPeriod) {
  const auto cache = made_reusing(options(Mode::kOn));
  cache->enter(1);
  const auto first = cache->place_of(1);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->period(), 3U);
  fill(*first, 7);
  cache->enter(2);
  EXPECT_EQ(cache->place_of(2), first);
  EXPECT_TRUE(first->outlives(1));
  EXPECT_FALSE(first->outlives(2)) << "the next epoch has other samples";
  cache->enter(3);
  EXPECT_FALSE(cache->place_of(2)) << "rows of the period before are computed";
  const auto second = cache->place_of(3);
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->samples->find(7));
  EXPECT_TRUE(first->samples->find(7)) << "a chunk has it still";
  fill(*second, 8);
  EXPECT_EQ(second->figures, first->figures);
  cache->enter(0);  // the stream is set back
  ASSERT_TRUE(cache->place_of(0));
  EXPECT_TRUE(cache->place_of(0)->samples->find(7)) << "as long as somebody holds it";
  EXPECT_FALSE(cache->place_of(3));
}

TEST(StreamCache, WhatIsReusedIsSharedByStreamsWithTheSameRandomNumbersOnly) {
  const StreamCacheOptions asked = options(Mode::kOn);
  const auto one = made_reusing(asked), same = made_reusing(asked);
  EXPECT_EQ(one->place()->samples, same->place()->samples);
  same->enter(4);
  EXPECT_NE(one->place()->samples, same->place()->samples) << "of another period";
  StreamCacheOptions seeded = asked;
  seeded.seed = 1;
  EXPECT_NE(one->place()->samples, made_reusing(seeded)->place()->samples);
  // What is behind the place may differ.
  const auto flips = made_reusing(asked, R"(,{"op":"random_horizontal_flip"})");
  EXPECT_EQ(one->place()->samples, flips->place()->samples);
}

TEST(StreamCache, ANewPeriodWaitsForTheMemoryOfTheLast) {
  StreamCacheOptions asked = options(Mode::kOn);
  asked.capacity_bytes = 1 << 20;
  asked.budget = SharedBudget::create(asked.capacity_bytes);
  const auto cache = made_reusing(asked);
  auto chunk = cache->place_of(0);
  ASSERT_TRUE(chunk);
  fill(*chunk, 7);
  cache->enter(3);
  ASSERT_TRUE(cache->place_of(3));
  EXPECT_FALSE(cache->place_of(3)->samples->admits(7)) << "the memory is in use by a chunk";
  cache->look({}, {0, 1}, {.epoch = 3});
  cache->enter(3);
  EXPECT_FALSE(cache->place_of(3)->samples->admits(7));
  chunk.reset();
  cache->look({}, {0, 1}, {.epoch = 3});
  cache->enter(3);
  ASSERT_TRUE(cache->place_of(3));
  EXPECT_EQ(cache->place_of(3)->samples->stats().capacity_bytes, asked.capacity_bytes);
  EXPECT_TRUE(cache->place_of(3)->samples->admits(7));
}

TEST(StreamCache, APeriodThatBeganWhileMemoryWasShortHasItsOwnSamplesOnly) {
  if (!ShortMemory::possible()) GTEST_SKIP() << "the sanitizer has an operator new of its own";
  StreamCacheOptions asked = options(Mode::kOn);
  asked.capacity_bytes = 1 << 20;
  int failed = 0;
  for (std::int64_t nth = 1;; ++nth) {
    asked.budget = SharedBudget::create(asked.capacity_bytes);
    const auto cache = made_reusing(asked);
    auto chunk = cache->place_of(0);
    ASSERT_TRUE(chunk);
    fill(*chunk, 7);
    const std::weak_ptr<SampleCache> first = chunk->samples;
    cache->enter(3);  // which waits for the memory of the first
    bool ran_out = false;
    try {
      const ShortMemoryHere memory(nth);
      cache->enter(6);
    } catch (const std::bad_alloc&) {
      ran_out = true;
    }
    StreamCacheOptions freely = asked;
    freely.budget = nullptr;
    freely.epoch = 3;
    const auto other = made_reusing(freely);
    fill(*other->place_of(3), 8);
    chunk.reset();
    cache->look({}, {0, 1}, {.epoch = 6});
    cache->enter(6);
    cache->look({}, {0, 1}, {.epoch = 6});
    cache->enter(6);
    const auto now = cache->place_of(6);
    ASSERT_TRUE(now) << nth;
    EXPECT_TRUE(first.expired()) << nth << ": its memory is given back";
    EXPECT_FALSE(now->samples->find(8)) << nth << ": that is of another period";
    EXPECT_TRUE(now->samples->admits(9)) << nth;
    if (!ran_out) break;
    ++failed;
  }
  EXPECT_GT(failed, 3);
}

TEST(StreamCache, AutoWaitsForMeasurementsAndKeepsWhatPays) {
  const auto cache = made(options(Mode::kAuto));
  EXPECT_FALSE(cache->place());
  cache->look({}, {0, 1, 2}, {.epoch = 0});
  EXPECT_FALSE(cache->place()) << "nothing was measured";
  cache->look(measured(500, {0, 2, 1}), {0, 1, 2}, {.epoch = 0});
  EXPECT_FALSE(cache->place()) << "of another order";
  cache->look(measured(500), {0, 1, 2}, {.epoch = 0});
  ASSERT_TRUE(cache->place());
  EXPECT_EQ(cache->place()->at.ops, 2U) << "behind the resize, at a fraction of the bytes";
  EXPECT_NE(cache->report().find("kept after resize"), std::string::npos);
}

TEST(StreamCache, ItLooksSoonAtFirstAndOnceASecondLater) {
  const auto cache = made(options(Mode::kAuto));
  const auto looks = [&] {
    while (!cache->ask()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const bool urgent = cache->is_urgent();
    cache->look({}, {0, 1, 2}, {.epoch = 0});
    EXPECT_FALSE(cache->is_urgent()) << "nobody asked again";
    return urgent;
  };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(looks()) << i;  // after 0.1, 0.2, 0.4 and 0.8 s
  cache->look({}, {0, 1, 2}, {.epoch = 0});
  EXPECT_FALSE(looks());
  cache->look(measured(500), {0, 1, 2}, {.epoch = 0});
  ASSERT_TRUE(cache->place()) << "what it turned to is looked at soon";
  EXPECT_TRUE(looks());
}

TEST(StreamCache, WhatFillingOnePlaceTookIsExpectedOfTheOthers) {
  autotune::CacheInputs facts{.sample_s = 1e-3};
  facts.places = {
      {.at = {1}, .fill_s = 2e-3, .hit_s = 5e-4, .bytes = 600},
      {.at = {2}, .fill_s = 1e-3, .hit_s = 1e-4, .bytes = 200},
      {.at = {.form = autotune::CacheForm::kRecords}, .fill_s = 4e-3, .hit_s = 1e-3, .bytes = 100}};
  autotune::CacheInputs unmeasured = facts;
  take_measured(unmeasured, {});
  EXPECT_GT(unmeasured.places[0].fill_s, facts.places[0].fill_s) << "the model says too little";
  EXPECT_EQ(unmeasured.places[2].fill_s, 4e-3);
  EXPECT_EQ(unmeasured.places[0].hit_s, 5e-4);
  take_measured(facts, {{{2}, {.at = {2}, .fill_s = 1.5e-3, .hit_s = 2e-4, .bytes = 210}}});
  EXPECT_DOUBLE_EQ(facts.places[0].fill_s, 3e-3);
  EXPECT_EQ(facts.places[1].fill_s, 1.5e-3);
  EXPECT_EQ(facts.places[1].hit_s, 2e-4);
  EXPECT_EQ(facts.places[1].bytes, 210);
  EXPECT_EQ(facts.places[2].fill_s, 4e-3);
}

TEST(StreamCache, AutoKeepsNothingInTheLastEpoch) {
  const auto cache = made(options(Mode::kAuto, 5));
  cache->look(measured(500), {0, 1, 2}, {.epoch = 4});
  EXPECT_FALSE(cache->place());
  EXPECT_TRUE(cache->fills(3));
  EXPECT_FALSE(cache->fills(4));
  EXPECT_TRUE(made(options(Mode::kAuto, std::nullopt))->fills(1'000));
}

TEST(StreamCache, WhatWasMeasuredNotToPayIsLeftAndNotTakenAgain) {
  const auto cache = made(options(Mode::kAuto, 4));
  cache->look(measured(500), {0, 1, 2}, {.epoch = 0});
  ASSERT_TRUE(cache->place());
  for (int i = 0; i < 2; ++i) {  // both places, one after the other
    const auto place = cache->place();
    if (!place) break;
    for (int sample = 0; sample < 100; ++sample) {
      place->figures->fills.add(9'000'000);
      place->figures->hits.add(900'000);
    }
    cache->look(measured(500), {0, 1, 2}, {.epoch = 0});
  }
  EXPECT_FALSE(cache->place());
  for (int i = 0; i < 5; ++i) {
    cache->look(measured(500), {0, 1, 2}, {.epoch = 0});
    EXPECT_FALSE(cache->place());
  }
}

TEST(StreamCache, NothingMoreIsPutThereWhereThatNoLongerPaysBeforeTheEnd) {
  StreamCacheOptions one_place = options(Mode::kAuto, 10);
  one_place.cache.after = "resize";
  const auto cache = made(one_place);
  cache->look(measured(500), {0, 1, 2}, {.epoch = 0});
  const auto place = cache->place();
  ASSERT_TRUE(place);
  for (int sample = 0; sample < 100; ++sample) {
    place->figures->fills.add(1'500'000);
    place->figures->hits.add(20'000);
  }
  cache->look(measured(500), {0, 1, 2}, {.epoch = 6});  // 980 us more once, 500 us less three times
  EXPECT_EQ(cache->place(), place);
  EXPECT_TRUE(place->fills_more);
  cache->look(measured(500), {0, 1, 2}, {.epoch = 8});
  EXPECT_FALSE(place->fills_more);
  const auto asked = made(options(Mode::kOn, 10));
  const auto kept = asked->place();
  for (int sample = 0; sample < 100; ++sample)
    kept->figures->fills.add(1'500'000), kept->figures->hits.add(20'000);
  asked->look(measured(500), {0, 1, 2}, {.epoch = 9});
  EXPECT_TRUE(kept->fills_more) << "what was asked for is for later runs too";
}

TEST(StreamCache, WhatIsAskedForIsKeptFromTheBeginningWhetherItPaysOrNot) {
  const auto cache = made(options(Mode::kOn, 2));
  const auto place = cache->place();
  ASSERT_TRUE(place);
  for (int sample = 0; sample < 100; ++sample) {
    place->figures->fills.add(9'000'000);
    place->figures->hits.add(9'000'000);
  }
  cache->look(measured(500), {0, 1, 2}, {.epoch = 0});
  EXPECT_EQ(cache->place(), place);
  StreamCacheOptions named = options(Mode::kOn);
  named.cache.after = "decode_image";
  EXPECT_EQ(made(named)->place()->at.ops, 1U);
}

TEST(StreamCache, CoefficientsAreWeighedWhereJpegsWereMet) {
  StreamCacheOptions asked = options(Mode::kAuto, 1000);
  asked.capacity_bytes =
      20 << 20;  // of 110 MB as coefficients, of 480 MB as pictures, of 12 MB behind the resize
  const auto pipeline = pipeline_of(
      R"({"op":"decode_image"},{"op":"random_crop","size":[32,32]},{"op":"resize","size":[64,64]})");
  for (const bool jpegs : {false, true}) {
    const auto cache = StreamCache::create(pipeline, asked, {0, 1, 2}, {});
    ASSERT_TRUE(cache);
    (*cache)->look(measured(5000), {0, 1, 2}, {.epoch = 0, .has_jpegs = jpegs});
    const auto place = (*cache)->place();
    ASSERT_TRUE(place);
    EXPECT_EQ(place->at.ops, jpegs ? 0U : 1U) << "five times as many of them fit";
    const auto report = nlohmann::json::parse((*cache)->report());
    EXPECT_EQ(report["choices"].size(), jpegs ? 3U : 2U);
    EXPECT_EQ(report["form"], jpegs ? "coefficients" : "raw");
  }
  asked.cache.form = CacheOptions::Form::kRaw;
  const auto raw = StreamCache::create(pipeline, asked, {0, 1, 2}, {});
  ASSERT_TRUE(raw);
  (*raw)->look(measured(5000), {0, 1, 2}, {.has_jpegs = true});
  ASSERT_TRUE((*raw)->place());
  EXPECT_EQ((*raw)->place()->at.ops, 1U);
}

TEST(StreamCache, MeasuredCostsOfCoefficientsDecide) {
  StreamCacheOptions asked = options(Mode::kAuto, 1000);
  asked.capacity_bytes = 20 << 20;
  const auto pipeline = pipeline_of(R"({"op":"decode_image"},{"op":"random_crop","size":[32,32]})");
  PlanProfile known = measured(5000, {0, 1});
  known.orders.front().stages.back().ops = {1};
  const auto cache = StreamCache::create(pipeline, asked, {0, 1}, {});
  ASSERT_TRUE(cache);
  (*cache)->look(known, {0, 1}, {.has_jpegs = true});
  const auto place = (*cache)->place();
  ASSERT_TRUE(place);
  ASSERT_EQ(place->at.ops, 0U);
  for (int sample = 0; sample < 100; ++sample) place->figures->hits.add(5'000'000);
  (*cache)->look(known, {0, 1}, {.has_jpegs = true});
  ASSERT_TRUE((*cache)->place());
  EXPECT_EQ((*cache)->place()->at.ops, 1U) << "they save nothing";
}

/// A store that was asked for all of options()' records: a request each, of so many seconds, at so many $ per 1,000.
StoreFigures asked_store(double request_s, double price) {
  return {.source = "s3://bucket",
          .requests = 1000,
          .bytes = 1000 * 100'000,
          .reads = 1000,
          .answered = 1000,
          .answered_ns = static_cast<std::int64_t>(request_s * 1e12),
          .cpu_ns = 1000 * 50'000,
          .allowed = 64,
          .epoch_records = 1000,
          .epoch_reads = 1000,
          .epoch_bytes = 1000 * 100'000,
          .prices = {.per_1000_requests = price}};
}

TEST(ReadCost, IsWhatRequestsTakeAndCost) {
  const StoreFigures store = asked_store(0.064, 0.0005);
  const ReadCost cost = read_cost(std::span(&store, 1), 1e-5, 8);
  EXPECT_NEAR(cost.cpu_s, 50e-6, 1e-12);
  EXPECT_NEAR(cost.money_s, 0.05, 1e-9);
  EXPECT_NEAR(cost.wait_s, 8 * 0.001, 1e-9) << "64 requests of 64 ms at the same time: one a millisecond";
  StoreFigures joined = store;
  joined.requests = joined.answered = 100;
  joined.answered_ns /= 10;
  EXPECT_NEAR(read_cost(std::span(&joined, 1), 1e-5, 8).money_s, 0.005, 1e-9);
  const StoreFigures fresh{.epoch_records = 10, .epoch_reads = 20, .prices = {.per_1000_requests = 0.0005}};
  EXPECT_NEAR(read_cost(std::span(&fresh, 1), 1e-5, 1).money_s, 0.1, 1e-9) << "two requests a record";
  EXPECT_EQ(read_cost({}, 1e-5, 8).wait_s, 0);
}

TEST(StreamCache, RecordsOfAStoreAreKeptWhereThatSavesMoreThanPictures) {
  const auto pipeline = pipeline_of(R"({"op":"decode_image"},{"op":"random_crop","size":[32,32]})");
  PlanProfile known = measured(500, {0, 1});
  known.orders.front().stages.back().ops = {1};
  const auto chosen = [&](std::uint64_t capacity, double request_s, double price) {
    StreamCacheOptions asked = options(Mode::kAuto, 90);
    asked.capacity_bytes = capacity;
    asked.record_bytes = 100'000;
    asked.stores = {asked_store(request_s, price)};
    const auto cache = StreamCache::create(pipeline, asked, {0, 1}, {});
    EXPECT_TRUE(cache);
    (*cache)->look(known, {0, 1}, {.epoch = 0, .stores = asked.stores});
    const auto report = nlohmann::json::parse((*cache)->report());
    EXPECT_TRUE(report["read"].is_object());
    return report["form"].is_null() ? "" : report["form"].get<std::string>();
  };
  EXPECT_EQ(chosen(150'000'000, 0.01, 0.0004), "records") << "all of them, or three in ten of the pictures";
  EXPECT_EQ(chosen(1'000'000'000, 0.01, 0.0004), "raw")
      << "with room for all pictures no request is left either";
  EXPECT_EQ(chosen(150'000'000, 1, 0), "records") << "the store is what the threads wait for";
  EXPECT_EQ(chosen(150'000'000, 1e-6, 0), "raw") << "it costs nothing and is never waited for";
}

TEST(StreamCache, RecordsAreKeptBeforeAllOpsWhereAskedFor) {
  StreamCacheOptions asked = options(Mode::kOn);
  asked.cache.form = CacheOptions::Form::kRecords;
  const auto cache = made(asked, measured(500));
  ASSERT_TRUE(cache->place());
  EXPECT_TRUE(cache->place()->keeps_records());
  const auto report = nlohmann::json::parse(cache->report());
  EXPECT_EQ(report["after"], "reading");
  EXPECT_EQ(report["form"], "records");
  EXPECT_TRUE(report["read"].is_null());
  asked.cache.after = "resize";
  const auto refused = StreamCache::create(crops(), asked, {0, 1, 2}, {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("records"), std::string::npos);
}

TEST(StreamCache, ADistrustedRecordStaysSo) {
  KeptPlace place;
  EXPECT_FALSE(place.distrusts(3));
  place.distrust(3);
  place.distrust(3);
  EXPECT_TRUE(place.distrusts(3));
  EXPECT_FALSE(place.distrusts(4));
  EXPECT_EQ(place.damaged, 1U);
}

/// Put so many samples of these bytes into the place of a stream, with nothing in them.
void fill(const StreamCache& cache, std::uint64_t samples, std::uint64_t bytes = 1000) {
  for (std::uint64_t record = 0; record < samples; ++record)
    if (cache.place()->samples->reserve(record, bytes) != nullptr)
      cache.place()->samples->publish(record, bytes);
}

TEST(StreamCache, ALaterOneTakesWhatTheFirstHasFilled) {
  for (const Mode mode : {Mode::kOn, Mode::kAuto})
    for (const char* const marked : {"decode_image", "resize"}) {
      StreamCacheOptions asked = options(Mode::kOn, 4);
      asked.budget = SharedBudget::create(asked.capacity_bytes = 2 << 20);
      asked.cache.after = marked;
      const auto first = made(asked, measured(500));
      fill(*first, 900);
      asked.cache = {.mode = mode};
      const auto second = made(asked, measured(500));
      second->look(measured(500), {0, 1, 2}, {.epoch = 0});
      ASSERT_TRUE(second->place());
      EXPECT_EQ(second->place()->samples, first->place()->samples);
      const auto report = nlohmann::json::parse(second->report());
      EXPECT_EQ(report["after"], marked) << "the first has all the room";
      EXPECT_NEAR(report["found_share"], 0.9, 1e-9);
      EXPECT_NE(report["why"].get<std::string>().find("90 % of the samples were there already"),
                std::string::npos);
      for (const auto& choice : report["choices"])
        EXPECT_NEAR(choice["kept_share"], choice["after"] == marked ? 0.9 : 0, 1e-9);
    }
}

TEST(StreamCache, WhatOthersKeepIsTakenInALastEpochAndNothingIsPutBesideIt) {
  for (const std::uint64_t epoch : {0U, 3U}) {
    StreamCacheOptions asked = options(Mode::kOn, 4);
    asked.cache.after = "resize";
    const auto first = made(asked, measured(500));
    fill(*first, 900);
    asked.cache.mode = Mode::kAuto;
    const auto second = made(asked);
    second->look(measured(500), {0, 1, 2}, {.epoch = epoch});
    const auto place = second->place();
    ASSERT_TRUE(place);
    EXPECT_EQ(place->samples, first->place()->samples);
    EXPECT_EQ(place->fills_more, epoch == 0) << "from the moment it turns there, not from the next look on";
  }
}

TEST(StreamCache, WhatOthersKeepIsWeighedBesideABetterPlace) {
  const auto after = [](double filled, std::uint64_t epochs) {
    StreamCacheOptions asked = options(Mode::kOn, epochs);
    asked.cache.after = "decode_image";
    const auto first = made(asked, measured(500));
    fill(*first, static_cast<std::uint64_t>(filled * 1000));
    asked.cache = {.mode = Mode::kAuto};
    const auto second = made(asked);
    second->look(measured(500), {0, 1, 2}, {.epoch = 0});
    return nlohmann::json::parse(second->report())["after"].get<std::string>();
  };
  EXPECT_EQ(after(1, 3), "decode_image") << "nothing has to be filled there";
  EXPECT_EQ(after(0, 3), "resize");
  EXPECT_EQ(after(1, 1000), "resize") << "it saves more in so many epochs";
}

TEST(StreamCache, WhatItLeavesComesBackBeforeItTakesAnotherPlace) {
  StreamCacheOptions asked = options(Mode::kAuto, 90);
  asked.budget = SharedBudget::create(asked.capacity_bytes);
  const auto cache = made(asked);
  cache->look(measured(500), {0, 1, 2}, {.epoch = 0});
  auto place = cache->place();
  ASSERT_TRUE(place);
  EXPECT_EQ(place->at.ops, 2U);
  EXPECT_EQ(asked.budget->left(), 0U);
  for (int sample = 0; sample < 100; ++sample)
    place->figures->hits.add(450'000), place->figures->fills.add(900'000);
  cache->look(measured(500), {0, 1, 2}, {.epoch = 0});
  EXPECT_FALSE(cache->place()) << "its memory is in use by a chunk until here";
  place.reset();
  cache->look(measured(500), {0, 1, 2}, {.epoch = 0});
  ASSERT_TRUE(cache->place());
  EXPECT_EQ(cache->place()->at.ops, 1U);
  EXPECT_EQ(cache->place()->samples->stats().capacity_bytes, asked.capacity_bytes);
}

TEST(StreamCache, ItsReportHasEveryPlace) {
  const auto report = nlohmann::json::parse(made(options(Mode::kOn), measured(500))->report());
  ASSERT_EQ(report["choices"].size(), 3U);
  EXPECT_TRUE(report["choices"][0]["after"].is_null());
  EXPECT_EQ(report["choices"][1]["after"], "decode_image");
  EXPECT_EQ(report["choices"][2]["after"], "resize");
  EXPECT_LT(report["choices"][2]["run_us"], report["choices"][0]["run_us"]);
  EXPECT_EQ(report["after"], "resize");
  EXPECT_EQ(report["capacity_bytes"], 1 << 30);
}

}  // namespace
}  // namespace carya::loader
