// Answers that do not fit into one control message: of the daemon's present clients and of those of
// protocol 1.0.

#include "loader/control/long_message.h"
#include "tests/daemon/daemon_process.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

std::shared_ptr<Job> opened_job(Result<std::shared_ptr<Job>> job) {
  EXPECT_TRUE(job) << (job ? "" : job.error().message);
  return job ? *job : nullptr;
}

/// What a client of protocol 1.0 is answered.
Result<Message> ask_as_1_0(const DaemonProcess& daemon, MessageType question, const std::string& body) {
  ASSIGN(Channel channel, Channel::connect(daemon.socket()));
  TRY(channel.send(
      {.type = MessageType::kHello, .request = 1, .minor = 0, .body = encode(Hello{.client = "old"})}, 1000));
  TRY(channel.receive(120'000));
  TRY(channel.send({.type = question, .request = 2, .minor = 0, .body = body}, 1000));
  return channel.receive(120'000);
}

TEST(Daemon, AnswersThatAreLongerThanAMessageArrive) {
  // Long names: 32 jobs of two ranks, each with a source of 3000 bytes, and lines about them.
  const PhotoFolder folder(6);
  std::string deep = folder.path().string();
  while (deep.size() < 3000) deep += "/" + std::string(200, 'd');
  std::filesystem::create_directories(deep + "/a");
  std::filesystem::copy_file(folder.file(0), deep + "/a/photo.jpg");
  const Opened opened = open_folder(deep, kBatch4);
  const DaemonProcess daemon;
  const auto early = ask_as_1_0(daemon, MessageType::kStatus, Message().body);
  ASSERT_TRUE(early);
  EXPECT_EQ(early->type, MessageType::kStatusIs) << "short: as before";
  std::vector<std::shared_ptr<Job>> jobs;
  const auto name = [](int i) { return std::string(190, 'n') + std::to_string(i); };
  for (int i = 0; i < 32; ++i)
    for (std::uint64_t rank = 0; rank < 2; ++rank)
      jobs.push_back(opened_job(
          daemon.open(opened, {.rank = rank, .world_size = 2, .threads = 1, .slots = 2}, {.job = name(i)})));
  const auto status = daemon.status();
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_TRUE(is_long(encode(*status).size())) << encode(*status).size();
  ASSERT_EQ(status->jobs.size(), 32u);
  for (const JobStatus& job : status->jobs) EXPECT_EQ(job.ranks.size(), 2u) << job.job;
  const auto old = ask_as_1_0(daemon, MessageType::kStatus, Message().body);
  ASSERT_TRUE(old) << old.error().message;
  EXPECT_EQ(old->type, MessageType::kError);

  jobs.clear();
  for (int i = 0; i < 160; ++i)
    opened_job(daemon.open(opened, {.threads = 1, .slots = 2}, {.job = name(100 + i % 20)}));
  const LogsRequest wanted{1000};
  const auto body =
      ask_daemon(daemon.socket(), MessageType::kLogs, encode(wanted), MessageType::kLogsAre, 120'000);
  ASSERT_TRUE(body) << body.error().message;
  EXPECT_TRUE(is_long(body->size())) << body->size();
  const auto all = decode<LogsAre>(*body);
  ASSERT_TRUE(all);
  const auto some = ask_as_1_0(daemon, MessageType::kLogs, encode(wanted));
  ASSERT_TRUE(some) << some.error().message;
  ASSERT_EQ(some->type, MessageType::kLogsAre) << "as many of the last as fit";
  const auto lines = decode<LogsAre>(some->body);
  ASSERT_TRUE(lines);
  EXPECT_GT(lines->lines.size(), 10u);
  EXPECT_LT(lines->lines.size(), all->lines.size());
}

}  // namespace
}  // namespace carya::loader
