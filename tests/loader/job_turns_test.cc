// Jobs that share an engine: each has its turns, and each is woken when there is something for it to do.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "loader/job/local_stream.h"
#include "loader/read/read_buffer.h"
#include "loader/stream/stream_scheduler.h"
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

/// A stream and a reader of its own, beside the engine's threads; `cores` for all streams of the process, 0: what it has.
struct Handed {
  explicit Handed(const Opened& opened, std::uint32_t slots, std::uint32_t cores = 0, double weight = 1) {
    auto made = LocalStream::create(opened.pipeline, opened.dataset,
                                    {.threads = 1, .weight = weight, .slots = slots}, {.cores = cores});
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    stream = *made;
    const auto index = stream->attach_reader();
    EXPECT_TRUE(index);
    reader = std::move(*shm::RingReader::attach(stream->reader_fds(*index), *index));
    EXPECT_TRUE(stream->start());
  }
  ~Handed() { stream->close(); }
  std::shared_ptr<LocalStream> stream;
  std::unique_ptr<shm::RingReader> reader;
};

TEST(JobTurns, AJobIsNotStarvedByAnotherThatTakesAllItCanGet) {
  const Images images(400, 96, R"({"op":"gaussian_blur","kernel_size":23})");
  constexpr std::uint32_t kSlots = 8;
  // One core for both: with one for each there is nothing to share.
  Handed greedy(images.opened, 32, 1);
  std::atomic<int> taken{0};
  std::atomic<bool> done{false};
  std::thread reading([&] {
    for (; !done && greedy.reader->next(120'000); ++taken) {
    }
  });
  while (taken < 20) std::this_thread::yield();
  const Handed other(images.opened, kSlots, 1);
  // In turns it has its slots full when the greedy one was given as many batches; ten times as many are
  // plenty.
  const int from = taken;
  while (taken < from + 10 * static_cast<int>(kSlots)) std::this_thread::yield();
  const std::uint64_t made = other.stream->stats()->scheduler.batches;
  done = true;
  reading.join();
  EXPECT_EQ(made, kSlots);
}

/// Takes all that a stream makes until it is gone.
class Taking {
 public:
  explicit Taking(Handed& from)
      : thread_([this, &from] {
          while (!done_) static_cast<void>(from.reader->next(1'000'000));
        }) {}
  ~Taking() {
    done_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

// Chunks of a millisecond with small results: a reader that is away for long leaves free slots for all that time. And CPU
// time is what counts, whoever else has the cores.
TEST(JobTurns, CpuTimeFollowsTheWeights) {
  const std::string ops = R"({"op":"gaussian_blur","kernel_size":23},{"op":"resize","size":8})";
  const Images large(16, 640, ops), small(16, 320, ops);
  Handed heavy(large.opened, shm::kSlotsMax, 1, 3), light(small.opened, shm::kSlotsMax, 1, 1);
  const Taking from_heavy(heavy), from_light(light);
  const auto figures = [](const Handed& stream) { return stream.stream->stats()->scheduler; };
  const auto until = [&](std::uint64_t batches) {
    while (figures(light).batches < batches) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  until(8);  // both are under way
  const std::int64_t heavy_ns = figures(heavy).cpu_ns, light_ns = figures(light).cpu_ns;
  until(88);
  const double ratio = static_cast<double>(figures(heavy).cpu_ns - heavy_ns) /
                       static_cast<double>(figures(light).cpu_ns - light_ns);
  EXPECT_GT(ratio, 2.2);
  EXPECT_LT(ratio, 4.0);
}

/// A ring that is told of a release in the very moment in which its owner asks for the bell.
class LateRelease final : public shm::SlotRing {
 public:
  explicit LateRelease(std::shared_ptr<shm::SlotRing> ring) : ring_(std::move(ring)) {}
  shm::Lease released;

  void set_waiting(bool waiting) override {
    if (waiting) released.release();  // before the flag is up: it rings no bell
    ring_->set_waiting(waiting);
  }

  const shm::SlotLayout& layout() const override { return ring_->layout(); }
  std::uint32_t slots() const override { return ring_->slots(); }
  void set_limit(std::uint32_t slots) override { ring_->set_limit(slots); }
  std::optional<std::uint32_t> acquire() override { return ring_->acquire(); }
  std::byte* data(std::uint32_t slot) override { return ring_->data(slot); }
  void publish(std::uint32_t slot, std::uint64_t sequence, const shm::Meta& meta,
               std::uint32_t mask) override {
    ring_->publish(slot, sequence, meta, mask);
  }
  void abandon(std::uint32_t slot) override { ring_->abandon(slot); }
  std::uint32_t collect() override { return ring_->collect(); }
  int event_fd() const override { return ring_->event_fd(); }
  Result<std::uint32_t> attach_reader(std::uint64_t from) override { return ring_->attach_reader(from); }
  void retire_reader(std::uint32_t reader, const std::string& why) override {
    ring_->retire_reader(reader, why);
  }
  void keep_untaken(std::uint32_t reader) override { ring_->keep_untaken(reader); }
  void drop_kept(std::uint64_t before) override { ring_->drop_kept(before); }
  void stop_keeping() override { ring_->stop_keeping(); }
  void detach_reader(std::uint32_t reader, const std::string& why) override {
    ring_->detach_reader(reader, why);
  }
  std::string detach_reason(std::uint32_t reader) const override { return ring_->detach_reason(reader); }
  std::uint32_t held_by(std::uint32_t reader) const override { return ring_->held_by(reader); }
  std::uint32_t owed_by(std::uint32_t reader) const override { return ring_->owed_by(reader); }
  std::uint32_t held_by_retired() const override { return ring_->held_by_retired(); }
  std::uint64_t waited_ns(std::uint32_t reader) const override { return ring_->waited_ns(reader); }
  std::uint64_t least_waited_ns() const override { return ring_->least_waited_ns(); }
  ReaderFds reader_fds(std::uint32_t reader) const override { return ring_->reader_fds(reader); }
  shm::SlotRingStats stats() const override { return ring_->stats(); }

 private:
  std::shared_ptr<shm::SlotRing> ring_;
};

// As the engine's thread of bells does it: a bell has rung, others have used the slot, and nobody computes.
TEST(JobTurns, AReleaseJustBeforeTheBellIsAskedForIsNotLost) {
  const Images images(40, 2, "");
  const auto ring = std::make_shared<LateRelease>(
      *shm::SlotRing::create(Handed(images.opened, 2).reader->layout(), {.slots = 2}));
  const auto planner = std::make_shared<StreamPlanner>(images.opened.pipeline, StreamPlannerOptions());
  ReadBufferPool pool(1 << 20);
  const auto scheduler = StreamScheduler::create(
      {.pipeline = images.opened.pipeline,
       .dataset = images.opened.dataset,
       .ring = ring,
       .index = DecodeIndex::open(*images.opened.dataset, {}),
       .planner = planner},
      *planner->first_plan(), pool, {.shape = *StreamShape::create(40, 4, 0, 1, 0, false, false)});
  const std::uint32_t index = *ring->attach_reader(UINT64_MAX);
  const auto reader = *shm::RingReader::attach(ring->reader_fds(index), index);
  Outbox out;
  scheduler->pump(out);
  while (Chunk* const chunk = scheduler->take_runnable()) {
    ComputeScratch scratch = scheduler->parallelism().take_scratch();
    scheduler->compute(*chunk, scratch);
    scheduler->finish(*chunk, std::move(scratch), {}, out);
    scheduler->pump(out);
  }
  ring->released = *reader->next(0);
  const shm::Lease held = *reader->next(0);
  ring->set_waiting(false);
  ASSERT_EQ(ring->stats().held, 2u);
  scheduler->pump(out);
  EXPECT_EQ(ring->stats().filling, 1u) << "the slot that was released is taken";
  EXPECT_NE(scheduler->take_runnable(), nullptr);
}

TEST(JobTurns, AReaderThatSleepsIsWokenForEachBatch) {
  constexpr int kHandoffs = 300;
  const Images images(400, 64, R"({"op":"gaussian_blur","kernel_size":23})");
  Handed handed(images.opened, 2);
  const Pace patience(kHandoffs);
  int taken = 0;
  while (taken < kHandoffs && !patience.over())
    if (handed.reader->next(Pace::kLookMs)) ++taken;
  EXPECT_EQ(taken, kHandoffs);
}

}  // namespace
}  // namespace carya::loader
