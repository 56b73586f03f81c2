// Whoever computes chunks, local threads or the workers of an Executor, and whatever becomes of the chunks: the stream
// has the same bits, it goes on, and it can be left at any moment.
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "tests/overflow/subjects.h"

namespace carya::loader {
namespace {

using Fate = Script::Fate;

template <typename Subject>
class ExecutorConformance : public testing::Test {
 protected:
  /// A stream of the photos whose chunks get the fates that `choice` says.
  void begin(std::uint64_t cut, Script::Choice choice, JobOptions options = {}, double verify = 0) {
    end();
    script = std::make_shared<Script>(std::move(choice));
    subject.emplace(folder, opened, cut, script, verify);
    options.threads = 2;
    options.slots = 6;
    job = start(opened, options, subject->parts());
  }
  void end() {
    if (script) script->release();
    job.reset();
    subject.reset();
  }
  void TearDown() override { end(); }

  /// Reads on, over any number of epochs, until that is so.
  template <typename Condition>
  bool read_until(Condition condition) {
    for (int i = 0; i < 100'000 && !condition(); ++i)
      if (const auto batch = job->next(5); !batch && batch.error().code != Code::kTimeout) return false;
    return condition();
  }

  const PhotoFolder folder{61};
  Opened opened = open_photos(folder);
  std::shared_ptr<Script> script;
  std::optional<Subject> subject;
  std::shared_ptr<Job> job;
};

using Subjects = testing::Types<LocalThreads, WorkerThreads, RemoteWorkers>;
TYPED_TEST_SUITE(ExecutorConformance, Subjects);

TYPED_TEST(ExecutorConformance, HasTheBitsOfTheHostAtEveryCut) {
  for (const std::uint64_t cut : TypeParam::kCuts)
    for (const bool narrow : {false, true}) {
      const Rows expected = alone(this->opened, {.label_int32 = narrow});
      this->begin(cut, [](std::uint64_t) { return Fate::kComputed; }, {.label_int32 = narrow});
      ASSERT_TRUE(this->read_until([&] { return this->script->given() >= 8; })) << "cut " << cut;
      ASSERT_TRUE(this->job->seek(0, 0));
      EXPECT_EQ(drain(*this->job), expected) << "cut " << cut;
    }
}

TYPED_TEST(ExecutorConformance, WhatFailsIsComputedAgainWhateverWasWritten) {
  const Rows expected = alone(this->opened);
  for (const std::uint64_t cut : TypeParam::kCuts)
    for (const std::uint64_t each : {1U, 3U}) {
      this->begin(
          cut, [each](std::uint64_t n) { return n < 40 && n % each == 0 ? Fate::kFails : Fate::kComputed; });
      EXPECT_EQ(drain(*this->job), expected);
      for (int epoch = 0; epoch < 3000 && this->script->given() < 20; ++epoch) {
        ASSERT_TRUE(this->job->seek(0, 0));
        ASSERT_EQ(drain(*this->job), expected) << "cut " << cut << ", each " << each;
      }
      EXPECT_GE(this->script->given(), 20U);
    }
}

TYPED_TEST(ExecutorConformance, WhatComesBackLateChangesNoBit) {
  const Rows expected = alone(this->opened);
  for (const std::uint64_t cut : TypeParam::kCuts) {
    this->begin(cut, [](std::uint64_t n) { return n % 4 == 0 ? Fate::kLate : Fate::kComputed; });
    for (int epoch = 0; epoch < 3000 && (epoch == 0 || this->script->given() < 8); ++epoch) {
      ASSERT_TRUE(this->job->seek(0, 0));
      ASSERT_EQ(drain(*this->job), expected) << "cut " << cut;
    }
    EXPECT_GE(this->script->given(), 8U);
  }
}

TYPED_TEST(ExecutorConformance, BrokenRecordsHaveTheHostsVerdict) {
  for (const int record : {3, 7, 8, 21, 39}) this->folder.spoil(record);
  this->opened = open_photos(this->folder);  // they are listed as they are now
  for (const auto policy : {transforms::OnError::kMask, transforms::OnError::kReplace})
    for (const std::uint64_t cut : TypeParam::kCuts) {
      const auto plain = start(this->opened, {.on_error = policy});
      const Rows expected = drain(*plain);
      this->begin(cut, [](std::uint64_t) { return Fate::kComputed; }, {.on_error = policy});
      for (int epoch = 0; epoch < 3000 && (epoch == 0 || this->script->given() < 8); ++epoch) {
        ASSERT_TRUE(this->job->seek(0, 0));
        ASSERT_EQ(drain(*this->job), expected) << "cut " << cut;
        if (epoch == 0) {
          ASSERT_EQ(this->job->quarantine().size(), plain->quarantine().size());
        }
      }
      EXPECT_GE(this->script->given(), 8U);
    }
}

TYPED_TEST(ExecutorConformance, LiesThatAreFoundLeaveNoTrace) {
  const Rows expected = alone(this->opened);
  for (const std::uint64_t cut : TypeParam::kCuts) {
    this->begin(
        cut, [](std::uint64_t n) { return n >= 3 && n % 2 == 1 ? Fate::kWrong : Fate::kComputed; }, {}, 1);
    for (int epoch = 0; epoch < 3000 && (epoch < 3 || !this->subject->found_out()); ++epoch) {
      ASSERT_TRUE(this->job->seek(0, 0));
      ASSERT_EQ(drain(*this->job), expected) << "cut " << cut << ", epoch " << epoch;
    }
    EXPECT_TRUE(this->subject->found_out());
  }
}

TYPED_TEST(ExecutorConformance, WhatIsGivenUpWhileItIsHeldIsNeverSeen) {
  const Rows first = alone(this->opened), second = alone(this->opened, {.epoch = 1});
  for (const std::uint64_t position : {0U, 4U, 28U, 60U}) {
    this->begin(kAllOps, [](std::uint64_t n) { return n == 2 ? Fate::kHeld : Fate::kComputed; },
                {.position = position});
    ASSERT_TRUE(this->read_until([&] { return this->script->held() > 0; }));
    ASSERT_TRUE(this->job->seek(1, 0));
    this->script->release();
    EXPECT_EQ(drain(*this->job), second);
    ASSERT_TRUE(this->job->seek(0, position));
    EXPECT_EQ(drain(*this->job), Rows(first.begin() + static_cast<long>(position), first.end()));
  }
}

TYPED_TEST(ExecutorConformance, ClosesWhileChunksAreUnderWay) {
  for (const std::uint64_t held : {0U, 1U, 9U}) {
    this->begin(kAllOps, [held](std::uint64_t n) { return n == held ? Fate::kHeld : Fate::kComputed; });
    ASSERT_TRUE(this->read_until([&] { return this->script->held() > 0; }));
    std::jthread releasing([script = this->script] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      script->release();
    });
    this->job.reset();  // returns when nobody writes into the stream's memory any more
  }
}

TYPED_TEST(ExecutorConformance, OneStreamAfterTheOtherLeavesNothingBehind) {
  for (int i = 0; i < 10; ++i) {
    this->begin(kAllOps, [](std::uint64_t) { return Fate::kComputed; });
    ASSERT_TRUE(this->job->next(120'000));
    this->job.reset();
  }
  this->begin(kAllOps, [](std::uint64_t) { return Fate::kComputed; });
  EXPECT_EQ(drain(*this->job), alone(this->opened));
}

}  // namespace
}  // namespace carya::loader
