#include <sched.h>

#include <sys/socket.h>

#include <fstream>
#include <thread>

#include "loader/host/host.h"
#include "loader/host/leak.h"
#include "tests/daemon/daemon_process.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

TEST(Daemon, GivesTheStreamOfAnEmbeddedJob) {
  const PhotoFolder folder(37);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {.threads = 1}));
  const DaemonProcess daemon;
  const auto job = must(daemon.open(opened, {}));
  ASSERT_TRUE(job);
  EXPECT_EQ(job->place(), daemon.socket());
  EXPECT_EQ(job->dataset(), opened.dataset->fingerprint());
  EXPECT_EQ(drain(*job), expected);
  const auto second = drain(*job);
  ASSERT_TRUE(job->seek(0, 0));
  EXPECT_EQ(drain(*job), expected);
  EXPECT_EQ(drain(*job), second);
  EXPECT_GE(job->stats().scheduler.samples, 37u);
}

TEST(Daemon, KeepsDecodeIndexesInTheReadersCache) {
  const PhotoFolder folder(24);
  const PhotoFolder cache(1);  // a temporary folder
  const Opened opened = open_folder(folder.path(), kBatch4);
  const DaemonProcess daemon;
  JobOptions options;
  options.decode_index.wanted = true;
  options.decode_index.spacing = 0;
  const auto job = must(daemon.open(opened, options, {.cache_dir = cache.path()}));
  const auto first = drain(*job);
  ASSERT_TRUE(job->seek(0, 0));
  EXPECT_EQ(drain(*job), first);
  const DecodeIndexStats stats = job->stats().decode_index;
  EXPECT_TRUE(stats.on) << stats.reason;
  EXPECT_GT(stats.made, 0u);
}

TEST(Daemon, RanksOfAJobAreServedEachAtItsOwnPlace) {
  const PhotoFolder folder(24);
  const Opened opened =
      open_folder(folder.path(), R"({"batch_size":null,"global_size":4,"drop_last":true,"pad_last":false})");
  const DaemonProcess daemon;
  std::vector<std::vector<std::uint64_t>> expected;
  std::vector<std::shared_ptr<Job>> jobs;
  for (std::uint64_t rank = 0; rank < 2; ++rank) {
    const JobOptions options{.rank = rank, .world_size = 2, .position = rank * 8};
    expected.push_back(drain(*start(opened, options)));
    jobs.push_back(must(daemon.open(opened, options)));
  }
  for (std::uint64_t rank = 0; rank < 2; ++rank) EXPECT_EQ(drain(*jobs[rank]), expected[rank]);
  const auto status = daemon.status();
  ASSERT_TRUE(status);
  ASSERT_EQ(status->jobs.size(), 1u);
  EXPECT_EQ(status->jobs[0].ranks.size(), 2u);
  EXPECT_EQ(status->jobs[0].state, "running");
}

TEST(Daemon, ReplicasLeaseTheSameSlots) {
  const PhotoFolder folder(24);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  const DaemonProcess daemon;
  const auto first = must(daemon.open(opened, {.epochs = 1}, {.replica = 0, .replicas = 2}));
  const auto second = must(daemon.open(opened, {.epochs = 1}, {.replica = 1, .replicas = 2}));
  std::vector<std::uint64_t> rows;
  std::thread other([&] { rows = drain(*second); });
  EXPECT_EQ(drain(*first), expected);
  other.join();
  EXPECT_EQ(rows, expected);
  const auto status = daemon.status();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->jobs.at(0).ranks.at(0).samples, 24u) << "made once";
  EXPECT_EQ(status->jobs.at(0).ranks.at(0).readers.size(), 2u);
}

TEST(Daemon, ReplicasThatAskForDifferentPlacesAreToldBoth) {
  const PhotoFolder folder(24);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const DaemonProcess daemon;
  const auto first = must(daemon.open(opened, {.position = 4}, {.replica = 0, .replicas = 2}));
  const auto second = daemon.open(opened, {.position = 8}, {.replica = 1, .replicas = 2});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kInvalidArgument);
  EXPECT_NE(second.error().message.find("position 4"), std::string::npos) << second.error().message;
  EXPECT_NE(second.error().message.find("position 8"), std::string::npos);
}

TEST(Daemon, KilledAndStartedAgainTheStreamGoesOn) {
  const PhotoFolder folder(80);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  DaemonProcess daemon;
  const auto job = must(daemon.open(opened, {}));
  std::vector<std::uint64_t> rows;
  std::vector<Batch> kept;
  for (int step = 0; step < 20; ++step) {
    if (step == 5 || step == 11) {
      daemon.kill(SIGKILL);
      daemon.start();
    }
    Result<Batch> batch = job->next(120'000);
    ASSERT_TRUE(batch) << batch.error().message;
    const auto hashes = row_hashes(*job, *batch);
    rows.insert(rows.end(), hashes.begin(), hashes.end());
    if (step == 4) kept.push_back(std::move(*batch));
  }
  EXPECT_EQ(rows, expected);
  EXPECT_EQ(job->reattached(), 2u);
  // What was leased of the first daemon is still what it was.
  EXPECT_EQ(row_hashes(*job, kept[0]), std::vector(expected.begin() + 16, expected.begin() + 20));
}

TEST(Daemon, LostForGoodTheStreamGoesOnInThisProcess) {
  const PhotoFolder folder(40);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  DaemonProcess daemon;
  const JobOptions options;
  const auto job =
      must(daemon.open(opened, options, {.reattach_timeout_s = 0.2, .embedded = [&]() -> Result<Attach> {
                                           return attach_embedded(opened.pipeline, opened.dataset, options);
                                         }}));
  Result<Batch> batch = job->next(120'000);
  ASSERT_TRUE(batch);
  std::vector<std::uint64_t> rows = row_hashes(*job, *batch);
  batch = fail(Code::kClosed, "");
  daemon.kill(SIGKILL);
  const auto rest = drain(*job);
  rows.insert(rows.end(), rest.begin(), rest.end());
  EXPECT_EQ(rows, expected);
  EXPECT_EQ(job->place(), "embedded");
}

TEST(Daemon, LostForGoodIsAnErrorWhereThatIsWanted) {
  const PhotoFolder folder(40);
  const Opened opened = open_folder(folder.path(), kBatch4);
  DaemonProcess daemon;
  const auto job = must(daemon.open(opened, {}, {.reattach_timeout_s = 0.2}));
  daemon.kill(SIGKILL);
  Result<Batch> batch = job->next(120'000);
  while (batch) batch = job->next(120'000);
  EXPECT_EQ(batch.error().code, Code::kClosed);
  EXPECT_NE(batch.error().message.find(daemon.socket()), std::string::npos);
}

TEST(Daemon, BrokenRecordsAreReportedAsInThisProcess) {
  const PhotoFolder folder(20);
  folder.spoil(7);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto here = start(opened, {.on_error = transforms::OnError::kMask});
  const auto expected = drain(*here);
  const DaemonProcess daemon;
  const auto job = must(daemon.open(opened, {.on_error = transforms::OnError::kMask}));
  EXPECT_EQ(drain(*job), expected);
  ASSERT_EQ(job->quarantine().size(), 1u);
  EXPECT_EQ(job->quarantine()[0].path, here->quarantine()[0].path);
  EXPECT_EQ(job->quarantine()[0].reason, here->quarantine()[0].reason);

  const auto strict = must(daemon.open(opened, {.on_error = transforms::OnError::kRaise}, {.job = "strict"}));
  Result<Batch> batch = strict->next(120'000);
  while (batch) batch = strict->next(120'000);
  EXPECT_EQ(batch.error().code, Code::kCorrupt);
  ASSERT_TRUE(strict->failure());
  ASSERT_TRUE(strict->set_on_error(transforms::OnError::kMask));
  EXPECT_TRUE(strict->next(120'000));
}

TEST(Daemon, ClosedJobsLeaveNothing) {
  const PhotoFolder folder(24);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const DaemonProcess daemon({"--linger", "0"});
  const auto before = daemon.status();
  ASSERT_TRUE(before);
  for (int i = 0; i < 3; ++i) {
    const auto job = must(daemon.open(opened, {}));
    ASSERT_TRUE(job->next(120'000));
  }
  EXPECT_TRUE(eventually(daemon, [&](const DaemonStatus& status) {
    return status.jobs.empty() && status.connections <= 1 && status.shared_bytes == 0 &&
           status.descriptors <= before->descriptors;
  }));
}

TEST(Daemon, AnArrayInThisMemoryIsSentOnce) {
  std::vector<std::uint8_t> values(30 * 6);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * 7);
  const std::string json =
      R"({"version":1,"source":{"type":"arrays","count":30,"arrays":{"x":{"dtype":"uint8","shape":[6],"fingerprint":"00"}}},)"
      R"("views":[],"shuffle":{"seed":1},"ops":[],"batch":)" +
      std::string(kBatch4) + "}";
  const auto pipeline = transforms::Pipeline::parse(json);
  ASSERT_TRUE(pipeline) << pipeline.error().message;
  const std::map<std::string, ArrayMemory> arrays{
      {"x", {reinterpret_cast<const std::byte*>(values.data()), 6, 30}}};
  const auto dataset = Dataset::open(**pipeline, {.arrays = arrays});
  ASSERT_TRUE(dataset) << dataset.error().message;
  const Opened opened{*pipeline, *dataset};
  const auto expected = drain(*start(opened, {}));
  DaemonProcess daemon;
  const auto job = must(daemon.open(opened, {}, {.arrays = arrays}));
  ASSERT_TRUE(job);
  EXPECT_EQ(drain(*job), expected);
  const auto second = drain(*start(opened, {.epoch = 1}));
  std::ranges::fill(values, std::uint8_t{0});  // was copied: it is sent to the next daemon as it was
  daemon.kill(SIGKILL);
  daemon.start();
  EXPECT_EQ(drain(*job), second);
  EXPECT_GE(job->reattached(), 1u);
}

TEST(Daemon, TermLetsReadersFinishAndEnds) {
  const PhotoFolder folder(24);
  const Opened opened = open_folder(folder.path(), kBatch4);
  DaemonProcess daemon;
  auto job = must(daemon.open(opened, {}));
  {
    const auto batch = job->next(120'000);
    ASSERT_TRUE(batch);
  }
  const int status = daemon.kill(SIGTERM);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_FALSE(std::filesystem::exists(daemon.socket()));
}

TEST(Daemon, AReaderThatDiesIsSucceeded) {
  const PhotoFolder folder(40);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  const DaemonProcess daemon;
  const pid_t child = fork();
  if (child == 0) {
    auto job = daemon.open(opened, {});
    for (int i = 0; job && i < 3; ++i) {
      auto batch = (*job)->next(120'000);
      if (!batch) _exit(1);
      leak(std::move(*batch));  // held when it dies
    }
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(eventually(daemon, [](const DaemonStatus& now) {
    return now.jobs.size() == 1 && now.jobs[0].state == "lingering";
  }));
  const auto job = must(daemon.open(opened, {.position = 12}));
  ASSERT_TRUE(job);
  EXPECT_EQ(drain(*job), std::vector(expected.begin() + 12, expected.end()));
  EXPECT_EQ(daemon.status()->killed, 1u);
}

TEST(Daemon, ReadsBelowItsRootsOnlyAndHearsOfNewOnes) {
  const PhotoFolder folder(8);
  const std::string config = testing::TempDir() + "carya-roots-" + std::to_string(getpid()) + ".toml";
  const auto write = [&](const std::string& root) {
    std::ofstream(config) << "roots = [\"" << root << "\"]\n";
  };
  const std::string beside = folder.path().string().substr(0, folder.path().string().size() - 1);
  write(beside);  // a name that the folder's begins with is not its parent
  const DaemonProcess daemon({"--config", config});
  const Opened opened = open_folder(folder.path(), kBatch4);
  const std::string listed = R"({"type":"files","paths":[")" + folder.file(0).string() + R"("]})";
  for (const Opened& one : {opened, open_source(listed)}) {
    const auto refused = daemon.open(one, {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kPermission);
    EXPECT_NE(refused.error().message.find(folder.path().string()), std::string::npos)
        << refused.error().message;
    EXPECT_NE(refused.error().message.find("roots"), std::string::npos);
  }
  const std::filesystem::path link = config + ".link";
  std::filesystem::create_directory_symlink(folder.path().parent_path(), link);
  write(link);  // a root may be a link
  kill(daemon.pid(), SIGHUP);
  Result<std::shared_ptr<Job>> job = daemon.open(opened, {});
  for (int i = 0; !job && i < 300; ++i) {
    usleep(10'000);
    job = daemon.open(opened, {});
  }
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(drain(**job), drain(*start(opened, {})));
  EXPECT_TRUE(daemon.open(open_source(listed), {}, {.job = "listed"}));
  std::filesystem::remove(link);
  std::filesystem::remove(config);
}

TEST(Daemon, ASuccessorThatWantsAnotherStreamGetsIt) {
  const PhotoFolder folder(40);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const Opened other =
      open_folder(folder.path(), R"({"batch_size":2,"global_size":null,"drop_last":false,"pad_last":false})");
  const DaemonProcess daemon;
  const auto die_reading = [&](const Opened& what, const JobOptions& options) {
    const pid_t child = fork();
    if (child == 0) {
      const auto job = daemon.open(what, options);
      if (!job || !(*job)->next(120'000)) _exit(1);
      raise(SIGKILL);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_TRUE(eventually(daemon, [](const DaemonStatus& now) {
      return now.jobs.size() == 1 && now.jobs[0].state == "lingering";
    }));
  };
  die_reading(opened, {});
  const JobOptions other_seed{.seed = 99};
  EXPECT_EQ(drain(*must(daemon.open(opened, other_seed))), drain(*start(opened, other_seed)));
  die_reading(opened, {});
  EXPECT_EQ(drain(*must(daemon.open(other, {}))), drain(*start(other, {})));
  die_reading(opened, {});
  std::filesystem::copy_file(folder.file(0), folder.file(0).parent_path() / "zz.jpg");
  const Opened grown = open_folder(folder.path(), kBatch4);
  EXPECT_EQ(drain(*must(daemon.open(grown, {}))), drain(*start(grown, {})));
}

TEST(Daemon, AStoppedJobTellsItsReaderAndDoesNotComeAgain) {
  const PhotoFolder folder(24);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const DaemonProcess daemon;
  const auto job = must(daemon.open(opened, {}));
  ASSERT_TRUE(job->next(120'000));
  const auto stopped = ask_daemon(daemon.socket(), MessageType::kStopJob, encode(StopJobRequest{"test"}),
                                  MessageType::kDone, 120'000);
  ASSERT_TRUE(stopped) << stopped.error().message;
  Result<Batch> batch = job->next(120'000);
  for (int i = 0; batch && i < 100; ++i) batch = job->next(120'000);
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code, Code::kClosed);
  EXPECT_NE(batch.error().message.find("stopped"), std::string::npos) << batch.error().message;
  EXPECT_EQ(job->next(120'000).error().code, Code::kClosed) << "again and again";
  EXPECT_TRUE(daemon.status()->jobs.empty());
  const auto unknown = ask_daemon(daemon.socket(), MessageType::kStopJob, encode(StopJobRequest{"test"}),
                                  MessageType::kDone, 120'000);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kNotFound);
}

TEST(Daemon, FollowsTheCoresItMayUse) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "one core";
  if (read_host_info().allowed_cores < CPU_COUNT(&before)) GTEST_SKIP() << "a quota of fewer cores";
  const PhotoFolder folder(24);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  const DaemonProcess daemon;
  const auto job = must(daemon.open(opened, {}));
  const auto threads_are = [&](int count) {
    return eventually(daemon,
                      [&](const DaemonStatus& now) { return now.threads == static_cast<unsigned>(count); });
  };
  EXPECT_TRUE(threads_are(CPU_COUNT(&before)));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(daemon.pid(), sizeof(one), &one), 0);
  EXPECT_TRUE(threads_are(1));
  EXPECT_EQ(drain(*job), expected);
  ASSERT_EQ(sched_setaffinity(daemon.pid(), sizeof(before), &before), 0);
  EXPECT_TRUE(threads_are(CPU_COUNT(&before)));
  ASSERT_TRUE(job->seek(0, 0));
  EXPECT_EQ(drain(*job), expected);
}

TEST(Daemon, LostWhileAskedAboutABrokenRecordTheBatchComesAgain) {
  const PhotoFolder folder(24);
  for (int record = 0; record < 24; ++record)
    if (record % 4 != 0) folder.spoil(record);  // something is broken in nearly every batch
  const Opened opened = open_folder(folder.path(), kBatch4);
  const JobOptions options{.on_error = transforms::OnError::kMask};
  const auto expected = drain(*start(opened, options));
  DaemonProcess daemon;
  const auto job = must(daemon.open(opened, options));
  ASSERT_TRUE(
      eventually(daemon, [](const DaemonStatus& status) { return status.jobs.at(0).ranks.at(0).ready > 0; }));
  daemon.kill(SIGKILL);
  daemon.start();
  EXPECT_EQ(drain(*job), expected);
  EXPECT_EQ(job->reattached(), 1u);
  EXPECT_EQ(job->quarantine().size(), 18u);
}

TEST(Daemon, AStoppedJobIsHeardOfByAsking) {
  const PhotoFolder folder(24);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const DaemonProcess daemon;
  const auto other = must(daemon.open(opened, {}));
  ASSERT_TRUE(ask_daemon(daemon.socket(), MessageType::kStopJob, encode(StopJobRequest{"test"}),
                         MessageType::kDone, 120'000));
  const Status moved = other->seek(1, 0);
  ASSERT_FALSE(moved);
  EXPECT_NE(moved.error().message.find("was stopped"), std::string::npos) << moved.error().message;
}

TEST(Daemon, AReaderWhoseConnectionIsShutTakesItsSeatAgain) {
  const PhotoFolder folder(40);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  const DaemonProcess daemon;
  const auto job = must(daemon.open(opened, {}));
  for (int fd = 3; fd < 256; ++fd) {
    int type = 0;
    socklen_t size = sizeof(type);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET)
      shutdown(fd, SHUT_RDWR);
  }
  const auto again =
      must(daemon.open(opened, {}));  // at once: the daemon cannot know yet that this process lives
  ASSERT_TRUE(again);
  EXPECT_EQ(drain(*again), expected);
}

TEST(Daemon, TheSeatOfALivingReaderIsNotGivenAway) {
  const PhotoFolder folder(24);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const DaemonProcess daemon;
  const auto job = must(daemon.open(opened, {}));
  const auto again = daemon.open(opened, {});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kInvalidArgument);
  EXPECT_NE(again.error().message.find(std::to_string(getpid())), std::string::npos) << again.error().message;
  EXPECT_TRUE(job->next(120'000));
}

}  // namespace
}  // namespace carya::loader
