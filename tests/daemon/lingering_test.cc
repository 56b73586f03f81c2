#include <set>
#include <string>
#include <thread>

#include "tests/daemon/other_process.h"
#include "tests/loader/photo_folder.h"

// What a rank keeps while nobody reads it: batches that were made and not taken are not made again.

namespace carya::loader {
namespace {

using Rows = std::vector<std::uint64_t>;

RankStatus rank_of(const DaemonProcess& daemon) {
  const auto status = daemon.status();
  EXPECT_TRUE(status && status->jobs.size() == 1 && status->jobs[0].ranks.size() == 1);
  return status ? status->jobs.at(0).ranks.at(0) : RankStatus();
}

/// A reader that took so many batches and died; until the daemon knows and all slots but those are full.
void die_reading(const DaemonProcess& daemon, const Opened& opened, const JobOptions& options, int batches) {
  const OtherProcess dying(daemon, opened, options, {}, batches, OtherProcess::Then::kDies, 3);
  EXPECT_TRUE(eventually(daemon, [](const DaemonStatus& now) {
    return now.jobs.size() == 1 && now.jobs[0].state == "lingering" && now.jobs[0].ranks.at(0).ready >= 3;
  }));
}

class Lingering : public ::testing::Test {
 protected:
  JobOptions at(std::uint64_t position) const {
    JobOptions options = options_;
    options.position = position;
    return options;
  }
  Rows from(std::ptrdiff_t position) const { return {expected_.begin() + position, expected_.end()}; }

  const PhotoFolder folder_{40};
  const Opened opened_ = open_folder(folder_.path(), kBatch4);
  const Rows expected_ = drain(*start(opened_, {}));
  const DaemonProcess daemon_;
  const JobOptions options_{.epochs = 1, .slots = 6};
};

TEST_F(Lingering, BatchesThatWereReadyAreNotMadeAgain) {
  die_reading(daemon_, opened_, options_, 3);
  const auto job = must(daemon_.open(opened_, at(12)));
  ASSERT_TRUE(job);
  EXPECT_EQ(drain(*job), from(12));
  EXPECT_EQ(job->stats().scheduler.samples, 40u);
  EXPECT_EQ(job->stats().scheduler.reads, 40u) << "each photo was read once";
}

TEST_F(Lingering, BatchesBeforeTheSuccessorsPlaceAreDropped) {
  die_reading(daemon_, opened_, options_, 3);
  const auto job = must(daemon_.open(opened_, at(20)));
  ASSERT_TRUE(job);
  EXPECT_EQ(drain(*job), from(20));
  EXPECT_EQ(job->stats().scheduler.samples, 40u) << "all slots are free again, and nothing was made twice";
}

TEST_F(Lingering, AnotherPlaceIsMadeAnew) {
  for (const std::uint64_t position : {4, 0, 14}) {
    die_reading(daemon_, opened_, options_, 3);
    const auto job = must(daemon_.open(opened_, at(position)));
    ASSERT_TRUE(job);
    if (position % 4 == 0)
      EXPECT_EQ(drain(*job), from(static_cast<std::ptrdiff_t>(position)));
    else  // a batch of other rows, which no slot has
      EXPECT_EQ(drain(*job), drain(*start(opened_, at(position))));
    EXPECT_GT(rank_of(daemon_).samples, 40u);
    job->close();
    EXPECT_TRUE(eventually(daemon_, [](const DaemonStatus& now) { return now.jobs.empty(); }));
  }
}

TEST_F(Lingering, DeathAfterDeathTheStreamIsMadeOnce) {
  for (std::uint64_t position = 0; position < 20; position += 4)
    die_reading(daemon_, opened_, at(position), 1);
  const auto job = must(daemon_.open(opened_, at(20)));
  EXPECT_EQ(drain(*job), from(20));
  EXPECT_EQ(job->stats().scheduler.reads, 40u);
  // It moves as any other.
  ASSERT_TRUE(job->seek(0, 8));
  EXPECT_EQ(drain(*job), from(8));
}

TEST_F(Lingering, TheFirstReaderOfASeekIsSucceededInItsSession) {
  die_reading(daemon_, opened_, options_, 3);
  die_reading(daemon_, opened_, at(4), 2);  // a place that is gone: a new session
  const std::uint64_t before = rank_of(daemon_).samples;
  const auto job = must(daemon_.open(opened_, at(12)));
  EXPECT_EQ(drain(*job), from(12));
  EXPECT_LE(rank_of(daemon_).samples, before + 40 - 4 - 12) << "12 rows at least were ready";
}

TEST_F(Lingering, ReplicasThatAllDiedGatherAtWhatIsReady) {
  {
    std::thread other([&] {
      const OtherProcess dying(daemon_, opened_, options_, replica(0), 2, OtherProcess::Then::kDies);
    });
    const OtherProcess dying(daemon_, opened_, options_, replica(1), 2, OtherProcess::Then::kDies);
    other.join();
  }
  ASSERT_TRUE(has_readers(daemon_, 0));
  const auto first = must(daemon_.open(opened_, at(8), replica(0)));
  ASSERT_TRUE(first);
  Rows rows = take(*first, 3);  // before the other is there
  const auto elsewhere = daemon_.open(opened_, at(12), replica(1));
  ASSERT_FALSE(elsewhere);
  EXPECT_NE(elsewhere.error().message.find("position 12"), std::string::npos) << elsewhere.error().message;
  EXPECT_NE(elsewhere.error().message.find("position 8"), std::string::npos);
  const auto second = must(daemon_.open(opened_, at(8), replica(1)));
  ASSERT_TRUE(second);
  Rows theirs;
  std::thread reading([&] { theirs = drain(*second); });
  const Rows rest = drain(*first);
  reading.join();
  rows.insert(rows.end(), rest.begin(), rest.end());
  EXPECT_EQ(rows, from(8));
  EXPECT_EQ(theirs, from(8));
  EXPECT_EQ(rank_of(daemon_).samples, 40u);
}

TEST(LingeringWithBrokenRecords, TheSuccessorHearsOfThoseInItsBatchesOnly) {
  const PhotoFolder folder(40);
  for (int record = 0; record < 40; record += 3) folder.spoil(record);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const DaemonProcess daemon;
  JobOptions options{.epochs = 1, .slots = 6, .on_error = transforms::OnError::kMask};
  die_reading(daemon, opened, options, 2);
  options.position = 12;  // one batch that was ready is dropped
  const auto here = start(opened, options);
  const auto job = must(daemon.open(opened, options));
  EXPECT_EQ(drain(*job), drain(*here));
  EXPECT_EQ(job->stats().scheduler.samples, 40u);
  const auto paths = [](const Job& one) {  // inside a batch in any order
    std::multiset<std::string> found;
    for (const RecordError& entry : one.quarantine()) found.insert(entry.path);
    return found;
  };
  EXPECT_EQ(paths(*job), paths(*here));
  EXPECT_FALSE(here->quarantine().empty());
}

TEST(LingeringWithBrokenRecords, AFailedStreamIsTriedAgain) {
  const PhotoFolder folder(40);
  folder.spoil(7);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto here = start(opened, {});
  std::uint64_t batches = 0;
  while (here->next(120'000)) ++batches;
  ASSERT_TRUE(here->failure());
  const DaemonProcess daemon;
  {
    const OtherProcess dying(daemon, opened, {}, {}, static_cast<int>(batches), OtherProcess::Then::kDies);
    ASSERT_TRUE(has_readers(daemon, 0));
  }
  const auto job = must(daemon.open(opened, {.position = 4 * batches}));
  ASSERT_TRUE(job);
  EXPECT_EQ(job->next(120'000).error().code, Code::kCorrupt);
  ASSERT_TRUE(job->failure());
  EXPECT_EQ(job->failure()->path, here->failure()->path);
  ASSERT_TRUE(job->set_on_error(transforms::OnError::kMask));
  EXPECT_TRUE(job->next(120'000));
}

}  // namespace
}  // namespace carya::loader
