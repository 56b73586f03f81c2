// Jobs that share batches (loader/daemon/shared_streams.h).

#include <chrono>
#include <thread>

#include "tests/daemon/hand_client.h"
#include "tests/daemon/other_process.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

DaemonOptions sharing(std::uint32_t jobs = 1, const std::string& share = "sweep") {
  return {.share = share, .share_jobs = jobs};
}

/// The readers of each stream, the fewest first.
std::vector<std::size_t> readers_of(const DaemonStatus& status) {
  std::vector<std::size_t> found;
  for (const JobStatus& job : status.jobs)
    for (const RankStatus& rank : job.ranks) found.push_back(rank.readers.size());
  std::ranges::sort(found);
  return found;
}

/// A folder of 96 photos in batches of four, and the rows of a lone run.
class SharedStreams : public testing::Test {
 protected:
  std::vector<std::uint64_t> rows(int first, int end) const {
    return {expected_.begin() + 4 * first, expected_.begin() + 4 * end};
  }
  std::shared_ptr<Job> open(const DaemonOptions& options, JobOptions job = {.epochs = 1, .slots = 4}) {
    return must(daemon_.open(opened_, job, options));
  }
  std::vector<std::uint64_t> drain_second_epoch() const {
    const auto lone = start(opened_, {});
    EXPECT_TRUE(lone->seek(1, 0));
    return drain(*lone);
  }
  bool are(const std::vector<std::size_t>& readers) {
    return eventually(daemon_, [&](const DaemonStatus& now) { return readers_of(now) == readers; });
  }

  const PhotoFolder folder_{96};
  const Opened opened_ = open_folder(folder_.path(), kBatch4);
  const std::vector<std::uint64_t> expected_ = drain(*start(opened_, {}));
  const DaemonProcess daemon_;
};

TEST_F(SharedStreams, WhoLagsIsPartedThoughItHasAPartOfTheSlotsOnly) {
  const auto fast = open(sharing(3));
  const auto slow = open(sharing(3));
  const auto closing = open(sharing(3));
  std::vector<Batch> kept;
  EXPECT_EQ(take(*closing, 2, &kept), rows(0, 2));
  closing->close();
  EXPECT_EQ(take(*slow, 2), rows(0, 2));
  EXPECT_EQ(drain(*fast), expected_) << "two slots are held by the one that closed, two owed by the slow one";
  EXPECT_EQ(drain(*slow), rows(2, 24)) << "it goes on by itself, from its place";
  EXPECT_EQ(row_hashes(*closing, kept[1]), rows(1, 2)) << "no slot that is held is written again";
}

TEST_F(SharedStreams, AfterOneThatLaggedAStreamTakesNobodyInForAWhile) {
  const auto staying = open(sharing(2));
  const auto lagging = open(sharing(2));
  EXPECT_EQ(take(*staying, 8), rows(0, 8)) << "without the other";
  const JobOptions next{.epochs = 1, .slots = 4, .position = 32};
  const auto again = open(sharing(), next);
  EXPECT_TRUE(are({1, 1})) << "it has a stream of its own, though the other's window has its place";
  EXPECT_EQ(drain(*staying), rows(8, 24)) << "nobody waits for it";
  EXPECT_EQ(drain(*again), rows(8, 24));
}

TEST_F(SharedStreams, ManyThatKeepTheSameBatchTakeOneSlotOnly) {
  const auto staying = open(sharing(4));
  std::vector<std::shared_ptr<Job>> closed;
  for (int i = 0; i < 3; ++i) closed.push_back(open(sharing(4)));
  std::vector<Batch> kept;
  for (const auto& job : closed) EXPECT_EQ(take(*job, 1, &kept), rows(0, 1));
  EXPECT_EQ(take(*staying, 1), rows(0, 1));
  for (const auto& job : closed) job->close();
  EXPECT_TRUE(are({1}));
  std::this_thread::sleep_for(std::chrono::seconds(8));  // several looks more than a stream is given up after
  EXPECT_EQ(staying->reattached(), 0u) << "three slots are enough to work with";
  EXPECT_EQ(drain(*staying), rows(1, 24));
}

TEST_F(SharedStreams, WhereThoseThatLeftHoldAllButOneSlotTheOthersGoOnWithANewStream) {
  const auto staying = open(sharing(2));
  const auto greedy = open(sharing(2));
  std::vector<Batch> kept;
  std::vector<std::uint64_t> mine;
  for (int i = 0; i < 4; ++i) {  // in step: neither falls behind
    EXPECT_EQ(take(*greedy, 1, &kept), rows(i, i + 1));
    EXPECT_EQ(take(*staying, 1), rows(i, i + 1));
  }
  greedy->close();
  EXPECT_EQ(drain(*staying), rows(4, 24));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(row_hashes(*greedy, kept[static_cast<std::size_t>(i)]), rows(i, i + 1));
}

TEST_F(SharedStreams, StreamsThatMeetBecomeOne) {
  const JobOptions parks{.epochs = 2, .slots = 4, .prefetch_epochs = false};
  const auto next = drain_second_epoch();
  const auto first = open(sharing(), parks);
  EXPECT_EQ(take(*first, 1), rows(0, 1));
  EXPECT_TRUE(eventually(daemon_, [](const DaemonStatus& now) {
    return now.jobs.at(0).ranks.at(0).samples >= 20;  // the slot of the first batch has the fifth one
  }));
  const auto late = open(sharing(), parks);  // its place is gone
  EXPECT_TRUE(are({1, 1}));
  EXPECT_EQ(drain(*late), expected_);
  EXPECT_EQ(drain(*first), rows(1, 24));
  EXPECT_TRUE(are({1})) << "both stand at the end of the epoch";
  ASSERT_TRUE(first->seek(1, 0));
  ASSERT_TRUE(late->seek(1, 0));
  std::vector<std::uint64_t> theirs;
  std::thread reading([&] { theirs = drain(*late); });
  EXPECT_EQ(drain(*first), next);
  reading.join();
  EXPECT_EQ(theirs, next);
}

TEST_F(SharedStreams, ASeekMovesTheOneThatAsksOnly) {
  const auto moving = open(sharing(2));
  const auto staying = open(sharing(2));
  EXPECT_EQ(take(*staying, 1), rows(0, 1));
  EXPECT_EQ(take(*moving, 1), rows(0, 1));
  ASSERT_TRUE(moving->seek(0, 40));
  EXPECT_EQ(take(*moving, 2), rows(10, 12));
  ASSERT_EQ(moving->reattached(), 1u)
      << "it goes on elsewhere; moved here, the other waits for slots that never come";
  EXPECT_EQ(staying->reattached(), 0u);
  EXPECT_EQ(take(*staying, 2), rows(1, 3));
  EXPECT_TRUE(are({1, 1}));
}

TEST_F(SharedStreams, OneThatSeeksBeforeTheFirstBatchWaitsForTheOthersThere) {
  const auto first = open(sharing(2));
  ASSERT_TRUE(first->seek(0, 40)) << "as from a checkpoint";
  const auto second = open(sharing(2));
  EXPECT_TRUE(are({1, 1})) << "it waits at another place as yet";
  EXPECT_EQ(daemon_.status()->jobs.at(0).ranks.at(0).batches, 0u);
  ASSERT_TRUE(second->seek(0, 40));
  std::vector<std::uint64_t> theirs;
  std::thread reading([&] { theirs = drain(*second); });
  EXPECT_EQ(drain(*first), rows(10, 24));
  reading.join();
  EXPECT_EQ(theirs, rows(10, 24));
  std::uint64_t samples = 0;
  for (const JobStatus& job : daemon_.status()->jobs) samples += job.ranks.at(0).samples;
  EXPECT_EQ(samples, 56u) << "made once";
}

TEST_F(SharedStreams, AfterOneThatDiedWaitingElsewhereTheOthersBeginAtTheirPlace) {
  const JobOptions options{.epochs = 1, .slots = 4};
  JobOptions elsewhere = options;
  elsewhere.position = 40;
  for (const JobOptions& at : {options, elsewhere}) {
    const OtherProcess dying(daemon_, opened_, at, sharing(2), 0, OtherProcess::Then::kDies);
    ASSERT_TRUE(are({0})) << "the stream waits for successors";
  }
  const auto first = open(sharing(2));
  const auto second = open(sharing(2));
  EXPECT_TRUE(are({2}));
  std::vector<std::uint64_t> theirs;
  std::thread reading([&] { theirs = drain(*second); });
  EXPECT_EQ(drain(*first), expected_);
  reading.join();
  EXPECT_EQ(theirs, expected_);
}

TEST_F(SharedStreams, ThoseThatComeTogetherFindEachOther) {
  constexpr int kJobs = 8;
  std::vector<std::shared_ptr<Job>> jobs(kJobs);
  std::vector<std::thread> threads;
  for (std::shared_ptr<Job>& job : jobs)
    threads.emplace_back([&] {
      job = open(sharing(kJobs));
      EXPECT_EQ(drain(*job), expected_);
    });
  for (std::thread& thread : threads) thread.join();
  std::uint64_t samples = 0;
  for (const JobStatus& job : daemon_.status()->jobs) samples += job.ranks.at(0).samples;
  EXPECT_EQ(samples, 96u) << "made once";
}

TEST_F(SharedStreams, OtherSeedsThatComeTogetherAreStreamsOfTheirOwn) {
  constexpr int kJobs = 8;
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < kJobs; ++seed)
    threads.emplace_back([&, seed] {
      const JobOptions options{.epochs = 1, .slots = 2, .seed = seed};
      EXPECT_EQ(drain(*open(sharing(), options)), drain(*start(opened_, options)));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SharedStreams, AJobOfThatNameIsNoJobOfTheSweep) {
  const auto one = open(sharing());
  const std::string name = daemon_.status()->jobs.at(0).job;
  const auto intruder = daemon_.open(opened_, {.epochs = 1, .slots = 4}, {.job = name});
  ASSERT_FALSE(intruder);
  EXPECT_EQ(intruder.error().code, Code::kInvalidArgument);
  EXPECT_NE(intruder.error().message.find("those that share"), std::string::npos) << intruder.error().message;
  EXPECT_EQ(drain(*one), expected_);
  const auto lone = must(daemon_.open(opened_, {.epochs = 1, .slots = 4}, {.job = "other~1"}));
  EXPECT_EQ(drain(*open(sharing(1, "other"))), expected_) << "it gets a name that is free";
  EXPECT_EQ(drain(*lone), expected_);
}

using Json = HandClient::Json;

/// A reader of the sweep that speaks by hand.
void attach_by_hand(HandClient& client, const Opened& opened, std::uint32_t jobs) {
  const auto answer = client.attach(opened.pipeline->to_json(), [&](Json& body) {
    body["share"] = "sweep";
    body["share_jobs"] = jobs;
    body["options"]["slots"] = 4;
    body["options"]["epochs"] = 1;
  });
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->type, HandClient::kAttached) << answer->body;
  client.skip_descriptors();
}

TEST_F(SharedStreams, OneThatWasSentAwayChangesNoPolicyOfTheOthers) {
  const auto staying = open(sharing());
  HandClient hostile(daemon_.socket());
  attach_by_hand(hostile, opened_, 1);
  ASSERT_TRUE(are({2}));
  // Asked at once, before the daemon closes its connection.
  ASSERT_TRUE(hostile.send(HandClient::kSeek, {{"epoch", 0}, {"position", 40}}));
  ASSERT_TRUE(
      hostile.send(HandClient::kPolicy, {{"on_error", static_cast<int>(transforms::OnError::kMask)}}));
  for (int answers = 0; answers < 2; ++answers) {
    const auto answer = hostile.receive();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->type, HandClient::kError) << answer->body;
  }
  EXPECT_EQ(drain(*staying), expected_);
}

TEST_F(SharedStreams, NoNameAndNoNumberOfAShareEndsTheDaemon) {
  const auto staying = open(sharing());
  std::vector<Json> shares{"sweep~1",
                           "~",
                           "a/../b",
                           std::string("\0\x1b[2J\n", 6),
                           std::string(200, 'a'),
                           std::string(201, 'a'),
                           std::string(60'000, 'a'),
                           "\xff",
                           7,
                           nullptr,
                           Json::array()};
  for (const Json& share : shares)
    for (const Json& jobs : {Json(0), Json(1), Json(32), Json(33), Json(-1), Json(1e308), Json("2")})
      for (const Json& replicas : {Json(1), Json(2)}) {
        HandClient client(daemon_.socket());
        const auto answer = client.attach(opened_.pipeline->to_json(), [&](Json& body) {
          body["share"] = share;
          body["share_jobs"] = jobs;
          body["replicas"] = replicas;
          body["options"]["slots"] = 2;
        });
        ASSERT_TRUE(answer) << share << jobs << replicas;
        const bool good = share.is_string() && share.get<std::string>().size() <= 200 &&
                          jobs.is_number_integer() && jobs >= 1 && jobs <= 32 && replicas == 1;
        EXPECT_EQ(answer->type, good ? HandClient::kAttached : HandClient::kError)
            << share << jobs << replicas;
      }
  EXPECT_EQ(drain(*staying), expected_);
  EXPECT_EQ(staying->reattached(), 0u);
  EXPECT_EQ(daemon_.status()->pid, static_cast<std::uint64_t>(daemon_.pid()));
}

TEST_F(SharedStreams, AStormOfSeeksDisturbsNobody) {
  const auto staying = open(sharing());
  EXPECT_EQ(take(*staying, 1), rows(0, 1));
  for (int i = 0; i < 100; ++i) {
    HandClient hostile(daemon_.socket());
    const auto answer = hostile.attach(opened_.pipeline->to_json(), [&](Json& body) {
      body["share"] = "sweep";
      body["options"]["slots"] = 2;
      body["options"]["epochs"] = 1;
      body["options"]["position"] = 4 * (i % 5);
    });
    ASSERT_TRUE(answer);
    if (answer->type != HandClient::kAttached) continue;  // as many as there may be
    hostile.skip_descriptors();
    for (const std::uint64_t place : {std::uint64_t{40}, std::uint64_t{0}, UINT64_MAX})
      hostile.send(HandClient::kSeek, {{"epoch", place}, {"position", place}});
    hostile.receive();
  }
  EXPECT_EQ(take(*staying, 22), rows(1, 23));
  EXPECT_TRUE(are({1})) << "all others have left";
  EXPECT_EQ(drain(*staying), rows(23, 24));
}

}  // namespace
}  // namespace carya::loader
