// Jobs that share an engine: each has its turns, and each is woken when there is something for it to do.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "loader/rank_stream.h"
#include "tests/loader/job_reading.h"
#include "tests/pace.h"

namespace carya::loader {
namespace {

/// Images in memory: no reads, so that who computes is all that there is to share.
class Images {
 public:
  Images(std::uint64_t count, std::uint64_t side, const std::string& ops) : values_(count * side * side * 3) {
    const std::string shape = std::to_string(side) + "," + std::to_string(side) + ",3";
    const std::string json = R"({"version":1,"source":{"type":"arrays","count":)" + std::to_string(count) +
                             R"(,"arrays":{"image":{"dtype":"uint8","shape":[)" + shape +
                             R"(],"fingerprint":"00"}}},"views":[],"shuffle":{"seed":1},"ops":[)" + ops +
                             R"(],"batch":)" + kBatch4 + "}";
    const auto pipeline = transforms::Pipeline::parse(json);
    EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message);
    const std::map<std::string, ArrayMemory> arrays{
        {"image", {reinterpret_cast<const std::byte*>(values_.data()), side * side * 3, count}}};
    const auto dataset = Dataset::open(**pipeline, {.arrays = arrays});
    EXPECT_TRUE(dataset) << (dataset ? "" : dataset.error().message);
    opened = {*pipeline, *dataset};
  }
  Opened opened;

 private:
  std::vector<std::uint8_t> values_;
};

TEST(JobTurns, AJobIsNotStarvedByAnotherThatTakesAllItCanGet) {
  const Images images(400, 96, R"({"op":"gaussian_blur","kernel_size":23})");
  constexpr std::uint32_t kSlots = 8;
  const auto greedy = start(images.opened, {.threads = 1, .slots = 32});
  std::atomic<int> taken{0};
  std::atomic<bool> done{false};
  std::thread reading([&] {
    for (; !done && greedy->next(120'000); ++taken) {
    }
  });
  while (taken < 20) std::this_thread::yield();
  const auto other = start(images.opened, {.threads = 1, .slots = kSlots});
  // In turns it has its slots full when the greedy one was given as many batches; ten times as many are
  // plenty.
  const int from = taken;
  while (taken < from + 10 * static_cast<int>(kSlots)) std::this_thread::yield();
  const std::uint64_t made = other->stats().production.batches;
  done = true;
  reading.join();
  EXPECT_EQ(made, kSlots);
}

/// A stream with one slot and a reader of its own, beside the engine's threads.
struct Handed {
  explicit Handed(const Opened& opened, std::uint32_t slots) {
    auto made = RankStream::create(opened.pipeline, opened.dataset, {.threads = 1, .slots = slots});
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    stream = *made;
    const auto index = stream->attach_reader();
    EXPECT_TRUE(index);
    reader = std::move(*shm::RingReader::attach(stream->reader_fds(*index), *index));
    EXPECT_TRUE(stream->start());
  }
  ~Handed() { stream->close(); }
  std::shared_ptr<RankStream> stream;
  std::unique_ptr<shm::RingReader> reader;
};

// It never sleeps, and all slots but one are held: each release falls into the moment in which the engine,
// which has published just now, finds no free slot and goes to sleep.
TEST(JobTurns, AReleaseWhileTheEngineGoesToSleepIsNotLost) {
  constexpr int kHandoffs = 20'000;
  const Images images(400, 2, "");
  Handed handed(images.opened, 2);
  const auto held = handed.reader->next(120'000);
  ASSERT_TRUE(held);
  const Patience patience(kHandoffs / 20);
  int taken = 0;
  while (taken < kHandoffs && !patience.over())
    if (handed.reader->next(0)) ++taken;
  EXPECT_EQ(taken, kHandoffs);
}

TEST(JobTurns, AReaderThatSleepsIsWokenForEachBatch) {
  constexpr int kHandoffs = 300;
  const Images images(400, 64, R"({"op":"gaussian_blur","kernel_size":23})");
  Handed handed(images.opened, 2);
  const Patience patience(kHandoffs);
  int taken = 0;
  while (taken < kHandoffs && !patience.over())
    if (handed.reader->next(patience.left_ms())) ++taken;
  EXPECT_EQ(taken, kHandoffs);
}

}  // namespace
}  // namespace carya::loader
