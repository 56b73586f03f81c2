#include <thread>

#include "tests/daemon/other_process.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

TEST(Replicas, OneThatClosesDoesNotDisturbTheOthers) {
  const PhotoFolder folder(48);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  const DaemonProcess daemon;
  const JobOptions options{.epochs = 1, .slots = 4};
  const auto leaving = must(daemon.open(opened, options, replica(0)));
  const auto staying = must(daemon.open(opened, options, replica(1)));
  std::vector<Batch> kept;
  auto rows = take(*staying, 1);
  EXPECT_EQ(take(*leaving, 3, &kept), std::vector(expected.begin(), expected.begin() + 12));
  kept.erase(kept.begin());
  leaving->close();
  ASSERT_TRUE(has_readers(daemon, 1));
  const auto rest = drain(*staying);
  rows.insert(rows.end(), rest.begin(), rest.end());
  EXPECT_EQ(rows, expected) << "two slots are held for good, the others go round";
  EXPECT_EQ(row_hashes(*leaving, kept[0]), std::vector(expected.begin() + 4, expected.begin() + 8));
  EXPECT_EQ(row_hashes(*leaving, kept[1]), std::vector(expected.begin() + 8, expected.begin() + 12));
  EXPECT_EQ(daemon.status()->jobs.at(0).ranks.at(0).samples, 48u) << "made once";
  EXPECT_TRUE(
      eventually(daemon, [](const DaemonStatus& now) { return now.jobs.at(0).ranks.at(0).held == 2; }));
  kept.clear();
  EXPECT_TRUE(
      eventually(daemon, [](const DaemonStatus& now) { return now.jobs.at(0).ranks.at(0).held == 0; }));
  staying->close();
  EXPECT_TRUE(eventually(daemon, [](const DaemonStatus& now) { return now.jobs.empty(); })) << "the last one";
}

TEST(Replicas, WhatOneThatClosedHeldIsFreeWhenItsProcessEnds) {
  const PhotoFolder folder(48);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  const DaemonProcess daemon;
  const JobOptions options{.epochs = 1, .slots = 3};
  std::shared_ptr<Job> staying;
  std::thread other([&] { staying = must(daemon.open(opened, options, replica(0))); });
  OtherProcess leaving(daemon, opened, options, replica(1), 2, OtherProcess::Then::kCloses);
  other.join();
  auto rows = take(*staying, 6);
  EXPECT_TRUE(
      eventually(daemon, [](const DaemonStatus& now) { return now.jobs.at(0).ranks.at(0).held == 2; }));
  leaving.end();
  EXPECT_TRUE(
      eventually(daemon, [](const DaemonStatus& now) { return now.jobs.at(0).ranks.at(0).held == 0; }));
  const auto rest = drain(*staying);
  rows.insert(rows.end(), rest.begin(), rest.end());
  EXPECT_EQ(rows, expected);
}

TEST(Replicas, OneThatDiedComesBackWhereAllItNeedsIsStillThere) {
  const PhotoFolder folder(48);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  const DaemonProcess daemon;
  const JobOptions options{.epochs = 1, .slots = 5};
  std::shared_ptr<Job> staying;
  std::thread other([&] { staying = must(daemon.open(opened, options, replica(0))); });
  const OtherProcess dying(daemon, opened, options, replica(1), 3, OtherProcess::Then::kDies);
  other.join();
  ASSERT_TRUE(has_readers(daemon, 1));
  std::vector<Batch> kept;
  auto rows = take(*staying, 3, &kept);
  kept.erase(kept.begin());  // its slot is filled again
  ASSERT_TRUE(
      eventually(daemon, [](const DaemonStatus& now) { return now.jobs.at(0).ranks.at(0).samples == 24; }));

  // Batch 0 is gone; 1 and 2 are held; 3, 4 and 5 are ready.
  JobOptions place = options;
  place.position = 0;
  const auto early = daemon.open(opened, place, replica(1));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, Code::kInvalidArgument);
  EXPECT_NE(early.error().message.find("epoch 0 position 0"), std::string::npos) << early.error().message;
  EXPECT_NE(early.error().message.find("epoch 0 position 24"), std::string::npos) << early.error().message;
  place.position = 28;
  EXPECT_FALSE(daemon.open(opened, place, replica(1))) << "not there yet";
  place.position = 8;
  const auto back = must(daemon.open(opened, place, replica(1)));
  ASSERT_TRUE(back);
  std::vector<std::uint64_t> theirs;
  std::thread reading([&] { theirs = drain(*back); });
  kept.clear();
  const auto rest = drain(*staying);
  reading.join();
  rows.insert(rows.end(), rest.begin(), rest.end());
  EXPECT_EQ(rows, expected);
  EXPECT_EQ(theirs, std::vector(expected.begin() + 8, expected.end()));
  EXPECT_EQ(daemon.status()->jobs.at(0).ranks.at(0).samples, 48u) << "made once";
  // Both move on together.
  ASSERT_TRUE(back->seek(0, 16));
  ASSERT_TRUE(staying->seek(0, 16));
  EXPECT_EQ(take(*staying, 2), std::vector(expected.begin() + 16, expected.begin() + 24));
  EXPECT_EQ(take(*back, 2), std::vector(expected.begin() + 16, expected.begin() + 24));
}

TEST(Replicas, EachIsToldOfAllBrokenRecordsOfItsBatches) {
  const PhotoFolder folder(48);
  for (int record = 0; record < 48; record += 3) folder.spoil(record);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const JobOptions options{.epochs = 1, .slots = 5, .on_error = transforms::OnError::kMask};
  const auto paths = [](const Job& job, std::uint64_t from, std::uint64_t to) {
    std::vector<std::string> found;
    for (const RecordError& entry : job.quarantine())
      if (entry.position >= from && entry.position < to) found.push_back(entry.path);
    return found;
  };
  const auto here = start(opened, options);
  static_cast<void>(drain(*here));
  const DaemonProcess daemon;
  const auto first = must(daemon.open(opened, options, replica(0)));
  auto second = must(daemon.open(opened, options, replica(1)));
  std::vector<Batch> kept;
  EXPECT_EQ(take(*first, 3, &kept).size(), 12u);  // ahead of the other
  EXPECT_EQ(take(*second, 2).size(), 8u);
  EXPECT_EQ(paths(*second, 0, 48), paths(*here, 0, 8)) << "of its own batches";
  second->close();
  ASSERT_TRUE(has_readers(daemon, 1));
  JobOptions place = options;
  place.position = 8;
  second = must(daemon.open(opened, place, replica(1)));
  ASSERT_TRUE(second);
  std::thread reading([&] { static_cast<void>(drain(*second)); });
  kept.clear();
  static_cast<void>(drain(*first));
  reading.join();
  EXPECT_EQ(paths(*first, 0, 48), paths(*here, 0, 48));
  EXPECT_EQ(paths(*second, 0, 48), paths(*here, 8, 48)) << "it begins at position 8";
  EXPECT_EQ(daemon.status()->jobs.at(0).ranks.at(0).quarantined, 16u) << "each is counted once";
}

TEST(Replicas, OneThatClosedTakesItsSeatAgainAlsoWhileItHoldsBatches) {
  const PhotoFolder folder(48);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  const DaemonProcess daemon;
  const JobOptions options{.epochs = 1, .slots = 8};
  auto leaving = must(daemon.open(opened, options, replica(0)));
  const auto staying = must(daemon.open(opened, options, replica(1)));
  std::vector<Batch> kept;
  EXPECT_EQ(take(*leaving, 1, &kept), std::vector(expected.begin(), expected.begin() + 4));
  for (std::uint64_t position = 4; position <= 8; position += 4) {
    leaving->close();
    ASSERT_TRUE(has_readers(daemon, 1));
    JobOptions place = options;
    place.position = position;
    leaving = must(daemon.open(opened, place, replica(0)));
    ASSERT_TRUE(leaving);
    const auto from = expected.begin() + static_cast<std::ptrdiff_t>(position);
    EXPECT_EQ(take(*leaving, 1, &kept), std::vector(from, from + 4));
  }
  std::vector<std::uint64_t> theirs;
  std::thread reading([&] { theirs = drain(*leaving); });
  EXPECT_EQ(drain(*staying), expected);
  reading.join();
  EXPECT_EQ(theirs, std::vector(expected.begin() + 12, expected.end()));
  for (std::ptrdiff_t i = 0; i < 3; ++i)
    EXPECT_EQ(row_hashes(*leaving, kept[static_cast<std::size_t>(i)]),
              std::vector(expected.begin() + 4 * i, expected.begin() + 4 * i + 4));
}

TEST(Replicas, OneThatDiesBeforeAllHaveComeHoldsNobodyUp) {
  const PhotoFolder folder(24);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  const DaemonProcess daemon;
  const OtherProcess dying(daemon, opened, {}, replica(0), 0, OtherProcess::Then::kDies);
  ASSERT_TRUE(has_readers(daemon, 0));
  const auto first = must(daemon.open(opened, {}, replica(0)));
  const auto second = must(daemon.open(opened, {}, replica(1)));
  std::vector<std::uint64_t> theirs;
  std::thread reading([&] { theirs = drain(*second); });
  EXPECT_EQ(drain(*first), expected);
  reading.join();
  EXPECT_EQ(theirs, expected);
}

TEST(Replicas, WhileTheyGatherNobodyMovesTheStream) {
  const PhotoFolder folder(24);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  const DaemonProcess daemon;
  {
    std::thread other(
        [&] { const OtherProcess dying(daemon, opened, {}, replica(0), 1, OtherProcess::Then::kDies); });
    const OtherProcess dying(daemon, opened, {}, replica(1), 1, OtherProcess::Then::kDies);
    other.join();
  }
  ASSERT_TRUE(has_readers(daemon, 0));
  // Both come again; the first of them asks for another place before the second is there.
  const auto first = must(daemon.open(opened, {}, replica(0)));
  const Status moved = first->seek(0, 8);
  ASSERT_FALSE(moved);
  EXPECT_NE(moved.error().message.find("waits for its other replicas"), std::string::npos);
  const auto second = must(daemon.open(opened, {}, replica(1)));
  ASSERT_TRUE(second);
  EXPECT_EQ(take(*second, 2), std::vector(expected.begin(), expected.begin() + 8));
  ASSERT_TRUE(daemon.status()) << "it lives";
}

TEST(Replicas, AllHearOfANewPolicy) {
  const PhotoFolder folder(24);
  folder.spoil(7);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {.on_error = transforms::OnError::kMask}));
  const DaemonProcess daemon;
  const auto first = must(daemon.open(opened, {}, replica(0)));
  const auto second = must(daemon.open(opened, {}, replica(1)));
  for (const auto& job : {first, second}) ASSERT_TRUE(job->set_on_error(transforms::OnError::kMask));
  std::vector<std::uint64_t> theirs;
  std::thread reading([&] { theirs = drain(*second); });
  EXPECT_EQ(drain(*first), expected);
  reading.join();
  EXPECT_EQ(theirs, expected);
}

}  // namespace
}  // namespace carya::loader
