// Jobs at random: many at once, each seeked, closed, made again, its batches held and released by other
// threads. The seed is printed; CARYA_STRESS_SEED repeats a run, CARYA_STRESS_ROUNDS makes it longer.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <mutex>
#include <random>
#include <thread>

#include "job_reading.h"
#include "loader/job/job.h"
#include "photo_folder.h"

namespace carya::loader {
namespace {

constexpr std::uint64_t kRecords = 22;
constexpr std::uint64_t kBatch = 4;
constexpr std::uint64_t kEpochs = 3;

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Batches that a thread took and another gives back.
class Held {
 public:
  void keep(Batch batch) {
    const std::lock_guard lock(mutex_);
    batches_.push_back(std::move(batch));
  }
  void drop(std::size_t left) {
    std::deque<Batch> dropped;
    {
      const std::lock_guard lock(mutex_);
      while (batches_.size() > left) {
        dropped.push_back(std::move(batches_.front()));
        batches_.pop_front();
      }
    }
  }

 private:
  std::mutex mutex_;
  std::deque<Batch> batches_;
};

/// One reader's random life over a job; every row it sees is compared with the one that must be there.
class Reader {
 public:
  Reader(const Opened& opened, const std::vector<std::vector<std::uint64_t>>& expected, Held& held,
         std::uint64_t seed)
      : opened_(opened), expected_(expected), held_(held), random_(seed) {}

  void live(std::uint64_t rounds) {
    for (std::uint64_t round = 0; round < rounds && !::testing::Test::HasFailure(); ++round) {
      if (!job_) open();
      const std::uint64_t act = pick(20);
      if (act == 0) {
        if (pick(2) == 0) job_->close();
        job_.reset();
      } else if (act == 1) {
        seek();
      } else if (act == 2) {
        const auto policy = pick(2) == 0 ? transforms::OnError::kMask : transforms::OnError::kReplace;
        ASSERT_TRUE(job_->set_on_error(policy));
      } else if (act == 3) {
        static_cast<void>(job_->stats());
        static_cast<void>(job_->quarantine());
      } else {
        take();
      }
    }
    job_.reset();
  }

 private:
  std::uint64_t pick(std::uint64_t count) { return random_() % count; }

  void open() {
    slots_ = 2 + pick(5);
    epoch_ = pick(kEpochs);
    position_ = pick(kRecords);
    job_ = start(opened_, {.threads = static_cast<std::uint32_t>(1 + pick(4)),
                           .slots = static_cast<std::uint32_t>(slots_),
                           .read_ahead_bytes = 1 + pick(1 << 16),
                           .on_error = transforms::OnError::kMask,
                           .prefetch_epochs = pick(2) == 0,
                           .epoch = epoch_,
                           .position = position_});
    ASSERT_TRUE(job_);
    // Alone, or it could wait for slots that nobody gives back while it does.
    held_.drop(0);
  }

  void seek() {
    epoch_ = pick(kEpochs);
    position_ = pick(kRecords);
    ASSERT_TRUE(job_->seek(epoch_, position_));
  }

  void take() {
    Result<Batch> batch = job_->next(pick(4) == 0 ? 0 : 30'000);
    if (!batch) {
      ASSERT_EQ(batch.error().code, Code::kTimeout) << batch.error().message;
      return;
    }
    ASSERT_EQ(batch->epoch, epoch_);
    const auto hashes = row_hashes(*job_, *batch);
    ASSERT_EQ(hashes.size(), std::min(kBatch, kRecords - position_));
    for (std::size_t row = 0; row < hashes.size(); ++row)
      ASSERT_EQ(hashes[row], expected_[epoch_][position_ + row]) << "epoch " << epoch_ << " @" << position_;
    position_ += hashes.size();
    const bool last = batch->last;
    held_.keep(std::move(*batch));
    held_.drop(pick(slots_));  // at least one slot stays free
    if (last) seek();          // also where the job parks at the end of an epoch
    if (epoch_ + 1 == kEpochs && position_ == kRecords) seek();
  }

  const Opened& opened_;
  const std::vector<std::vector<std::uint64_t>>& expected_;
  Held& held_;
  std::mt19937_64 random_;
  std::shared_ptr<Job> job_;
  std::uint64_t slots_ = 2;
  std::uint64_t epoch_ = 0;
  std::uint64_t position_ = 0;
};

TEST(JobStress, RandomLivesOfManyJobsSeeNoRowButTheRightOne) {
  const std::uint64_t seed = from_environment("CARYA_STRESS_SEED", std::random_device{}());
  const std::uint64_t rounds = from_environment("CARYA_STRESS_ROUNDS", 300);
  std::cout << "CARYA_STRESS_SEED=" << seed << std::endl;
  const PhotoFolder folder(kRecords);
  const Opened opened = open_folder(folder.path(), kBatch4);
  std::vector<std::vector<std::uint64_t>> expected;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch)
    expected.push_back(drain(*start(opened, {.epoch = epoch})));
  constexpr std::size_t kReaders = 4;
  std::vector<Held> held(kReaders);
  std::vector<std::thread> readers;
  for (std::size_t i = 0; i < kReaders; ++i)
    readers.emplace_back([&, i] { Reader(opened, expected, held[i], seed + i).live(rounds); });
  std::atomic<bool> done{false};
  std::thread dropper([&] {  // releases from a thread of its own, at any time
    while (!done) {
      for (Held& each : held) each.drop(1);
      std::this_thread::yield();
    }
  });
  for (std::thread& reader : readers) reader.join();
  done = true;
  dropper.join();
}

}  // namespace
}  // namespace carya::loader
