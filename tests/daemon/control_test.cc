#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <random>
#include <sstream>

#include "base/unix_socket.h"
#include "loader/control/channel.h"
#include "loader/control/documents.h"
#include "loader/control/long_message.h"
#include "loader/control/sealed_bytes.h"

namespace carya::loader {
namespace {

TEST(Documents, SurviveEncoding) {
  AttachRequest request{.job = "exp7", .replica = 1, .replicas = 2, .cache_dir = "/c"};
  request.options.rank = 3;
  request.options.seed = ~0ULL;
  request.options.on_error = transforms::OnError::kMask;
  request.options.decode_index.spacing = 8;
  request.options.order = {0, 2, 1};
  request.arrays = {{"x", 6, 30}};
  const auto again = decode<AttachRequest>(encode(request));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->job, "exp7");
  EXPECT_EQ(again->options.rank, 3u);
  EXPECT_EQ(again->options.seed, ~0ULL);
  EXPECT_FALSE(again->options.epochs);
  EXPECT_EQ(again->options.order, (std::vector<std::size_t>{0, 2, 1}));
  EXPECT_EQ(again->options.on_error, transforms::OnError::kMask);
  EXPECT_EQ(again->options.decode_index.spacing, 8);
  EXPECT_EQ(again->options.order, (std::vector<std::size_t>{0, 2, 1}));
  ASSERT_EQ(again->arrays.size(), 1u);
  EXPECT_EQ(again->arrays[0].rows, 30u);

  DeliveredErrors found;
  found.failure = RecordError{
      .error = {Code::kCorrupt, "decode_image: no", 5}, .record = 9, .path = "p\xff", .reason = "no"};
  const auto seen = decode<DeliveredErrors>(encode(found));
  ASSERT_TRUE(seen) << seen.error().message;
  ASSERT_TRUE(seen->failure);
  EXPECT_EQ(seen->failure->error.code, Code::kCorrupt);
  EXPECT_EQ(seen->failure->path, "p\xff") << "a path is bytes";
  EXPECT_EQ(seen->failure->substitute, -1);
}

TEST(Documents, FiguresOfAStreamSurviveAndWhatIsNotKnownStaysSo) {
  StreamStats stats;
  stats.scheduler.reading_ns = 12;
  stats.rates = {
      .read_latency_s = 0.5, .read_bytes_per_s = 2, .reads_at_s = 3, .demand_per_s = 4, .demand_at_s = 5};
  stats.pressure = {.cpu = 0.0, .runnable = 6, .cores = 2, .throttled_s = 1.5};
  const auto again = decode<StreamStats>(encode(stats));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->scheduler.reading_ns, 12);
  EXPECT_EQ(again->rates.read_latency_s, 0.5);
  EXPECT_EQ(again->rates.demand_at_s, 5);
  EXPECT_EQ(again->pressure.cpu, 0.0);
  EXPECT_EQ(again->pressure.runnable, 6U);
  EXPECT_EQ(again->pressure.throttled_s, 1.5);
  EXPECT_FALSE(again->pressure.io || again->pressure.memory || again->pressure.throttled_share);
  std::string of_earlier = encode(stats);
  const std::size_t key = of_earlier.find("ischeduler");
  ASSERT_NE(key, std::string::npos);
  of_earlier.replace(key, 10, "jproduction");  // a text of 10 bytes instead of 9
  const auto renamed = decode<StreamStats>(of_earlier);
  ASSERT_TRUE(renamed) << "of a daemon that has the earlier name: " << renamed.error().message;
  EXPECT_EQ(renamed->scheduler.reading_ns, 12);
  const auto earlier = decode<StreamStats>(Message().body);
  ASSERT_TRUE(earlier) << "of a daemon that does not know them";
  EXPECT_EQ(earlier->rates.demand_per_s, 0);
  EXPECT_FALSE(earlier->pressure.cpu);
  EXPECT_EQ(decode<DetachRequest>(Message().body)->demand_per_s, 0) << "of an earlier reader";
  EXPECT_EQ(decode<DetachRequest>(encode(DetachRequest{7.5}))->demand_per_s, 7.5);
}

TEST(Documents, FieldsOfALaterVersionAreIgnoredAndWrongOnesNamed) {
  // {"epoch": 2, "later": [1]}
  const auto later = decode<SeekRequest>(
      "\xa2\x65"
      "epoch\x02\x65"
      "later\x81\x01");
  ASSERT_TRUE(later);
  EXPECT_EQ(later->epoch, 2u);
  EXPECT_EQ(later->position, 0u);
  const auto wrong = decode<SeekRequest>(
      "\xa1\x65"
      "epoch\x20");  // -1
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("epoch"), std::string::npos) << wrong.error().message;
  EXPECT_FALSE(
      decode<PolicyRequest>("\xa1\x68"
                            "on_error\x03"))
      << "there is no fourth policy";
  EXPECT_FALSE(decode<SeekRequest>("\x81\x01")) << "no map";
}

struct Pair {
  UniqueFd raw;
  Channel channel;
};

Pair connected() {
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {UniqueFd(ends[0]), Channel(UniqueFd(ends[1]))};
}

TEST(Channel, CarriesMessagesWithDescriptors) {
  Pair pair = connected();
  Channel other(std::move(pair.raw));
  Message message{.type = MessageType::kSeek, .request = 7, .body = encode(SeekRequest{2, 96})};
  message.fds.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(other.send(message, 1000));
  const auto got = pair.channel.receive(1000);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->type, MessageType::kSeek);
  EXPECT_EQ(got->request, 7u);
  EXPECT_EQ(got->body, message.body);
  EXPECT_EQ(got->fds.size(), 1u);
  EXPECT_EQ(pair.channel.receive(0).error().code, Code::kTimeout);
  other = Channel();
  EXPECT_EQ(pair.channel.receive(0).error().code, Code::kClosed);
}

TEST(Channel, TheDocumentsExampleIsWhatIsSent) {
  const std::string path = CARYA_PROTOCOL;
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::string expected, line;
  bool inside = false;
  while (std::getline(file, line)) {
    if (line.starts_with("```")) {
      inside = line == "```hex";
      continue;
    }
    if (!inside) continue;
    std::istringstream words(line.substr(4));
    for (int byte = 0; words >> std::hex >> byte;) expected.push_back(static_cast<char>(byte));
  }
  Pair pair = connected();
  ASSERT_TRUE(
      pair.channel.send({.type = MessageType::kSeek, .request = 7, .body = encode(SeekRequest{2, 96})}, 0));
  std::string sent(1000, '\0');
  const ssize_t bytes = recv(pair.raw.get(), sent.data(), sent.size(), 0);
  ASSERT_GT(bytes, 0);
  sent.resize(static_cast<std::size_t>(bytes));
  EXPECT_EQ(sent, expected);
}

TEST(Channel, RubbishIsAnErrorAndNothingElse) {
  std::mt19937_64 random(3);
  Pair pair = connected();
  ASSERT_TRUE(
      pair.channel.send({.type = MessageType::kSeek, .request = 7, .body = encode(SeekRequest{2, 96})}, 0));
  std::string good(1000, '\0');
  good.resize(static_cast<std::size_t>(recv(pair.raw.get(), good.data(), good.size(), 0)));
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    for (std::size_t flips = 1 + random() % 4; flips > 0; --flips)
      bad[random() % bad.size()] = static_cast<char>(random());
    if (i % 3 == 0) bad.resize(random() % bad.size() + 1);
    ASSERT_EQ(send(pair.raw.get(), bad.data(), bad.size(), 0), static_cast<ssize_t>(bad.size()));
    const auto got = pair.channel.receive(0);
    if (got)
      static_cast<void>(decode<SeekRequest>(got->body));
    else
      EXPECT_TRUE(got.error().code == Code::kCorrupt || got.error().code == Code::kUnsupported);
  }
}

TEST(Channel, TooManyDescriptorsAreRefused) {
  Pair pair = connected();
  ASSERT_TRUE(pair.channel.send({.type = MessageType::kStatus, .body = Message().body}, 0));
  std::string good(1000, '\0');
  good.resize(static_cast<std::size_t>(recv(pair.raw.get(), good.data(), good.size(), 0)));
  for (const std::size_t count : {kMessageFdsMax, kMessageFdsMax + 1}) {
    const std::vector<int> fds(count, STDERR_FILENO);
    std::vector<char> room(CMSG_SPACE(count * sizeof(int)));
    iovec part{good.data(), good.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    put_fds(message, room, fds);
    ASSERT_EQ(sendmsg(pair.raw.get(), &message, 0), static_cast<ssize_t>(good.size()));
    const auto got = pair.channel.receive(1000);
    EXPECT_EQ(got.has_value(), count == kMessageFdsMax) << count;
  }
}

TEST(SealedBytes, GoAndComeBack) {
  const std::string text = "some bytes";
  const auto fd = SealedBytes::copy("test", std::as_bytes(std::span(text)));
  ASSERT_TRUE(fd);
  const auto mapped = SealedBytes::map(*fd, 100, "document");
  ASSERT_TRUE(mapped) << mapped.error().message;
  EXPECT_EQ((*mapped)->bytes().size(), text.size());
  EXPECT_EQ(std::to_integer<char>((*mapped)->bytes()[3]), 'e');
  EXPECT_FALSE(SealedBytes::map(*fd, 5, "document")) << "longer than allowed";
}

/// A `Long` with a file of these bytes that says it has `bytes`.
Message forged(const std::string& body, std::uint64_t bytes) {
  Message message{.type = MessageType::kLong,
                  .body = encode(LongIs{static_cast<std::uint32_t>(MessageType::kLogsAre), bytes})};
  auto file = SealedBytes::copy("answer", std::as_bytes(std::span(body)));
  EXPECT_TRUE(file);
  if (file) message.fds.push_back(std::move(*file));
  return message;
}

TEST(LongMessage, ArrivesAsWhatItStandsFor) {
  const LogsAre logs{std::vector<std::string>(2000, std::string(100, 'x'))};
  const Message whole{.type = MessageType::kLogsAre, .request = 7, .body = encode(logs)};
  ASSERT_TRUE(is_long(whole.body.size()));
  Pair pair = connected();
  Channel sender(std::move(pair.raw));
  EXPECT_EQ(sender.send(whole, 0).error().code, Code::kInvalidArgument);
  const auto packed = pack_long(whole);
  ASSERT_TRUE(packed) << packed.error().message;
  ASSERT_TRUE(sender.send(*packed, 0));
  auto got = pair.channel.receive(1000);
  ASSERT_TRUE(got);
  ASSERT_TRUE(unpack_long(*got));
  EXPECT_EQ(got->type, MessageType::kLogsAre);
  EXPECT_EQ(got->request, 7u);
  EXPECT_EQ(got->body, whole.body);
  EXPECT_TRUE(got->fds.empty());
}

TEST(LongMessage, ShortOnesStayWhatTheyAre) {
  EXPECT_FALSE(is_long(kMessageBytesMax - kHeaderBytes));
  EXPECT_TRUE(is_long(kMessageBytesMax - kHeaderBytes + 1));
  Message message{.type = MessageType::kSeek, .body = encode(SeekRequest{2, 96})};
  ASSERT_TRUE(unpack_long(message));
  EXPECT_EQ(message.type, MessageType::kSeek);
  EXPECT_EQ(message.body, encode(SeekRequest{2, 96}));
}

TEST(LongMessage, ForgedOnesAreRefused) {
  const std::string body = encode(LogsAre{{"a line"}});
  Message good = forged(body, body.size());
  EXPECT_TRUE(unpack_long(good));
  Message none = forged(body, body.size());
  none.fds.clear();
  EXPECT_EQ(unpack_long(none).error().code, Code::kCorrupt);
  Message device = forged(body, body.size());
  device.fds[0].reset(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(unpack_long(device).error().code, Code::kCorrupt);
  Message longer = forged(body, body.size() + 1);
  EXPECT_EQ(unpack_long(longer).error().code, Code::kCorrupt);
  Message rubbish = forged(body + "x", body.size() + 1);
  EXPECT_EQ(unpack_long(rubbish).error().code, Code::kCorrupt);
  EXPECT_EQ(
      pack_long({.type = MessageType::kLogsAre, .body = std::string(kLongBytesMax + 1, 'x')}).error().code,
      Code::kExhausted);
}

TEST(SealedBytes, OthersAreRefused) {
  const UniqueFd device(open("/dev/zero", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(SealedBytes::map(device, 100, "document"));
  const UniqueFd changeable(memfd_create("changeable", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(changeable.get(), 50), 0);
  EXPECT_FALSE(SealedBytes::map(changeable, 100, "document"));
  // Whoever sent it could change it while it is read.
  const UniqueFd writable(memfd_create("writable", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(write(writable.get(), "{}", 2), 2);
  ASSERT_EQ(fcntl(writable.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_FALSE(SealedBytes::map(writable, 100, "document"));
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe2(pipe_ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(pipe_ends[0]), writing(pipe_ends[1]);
  EXPECT_FALSE(SealedBytes::map(reading, 100, "document"));
  EXPECT_FALSE(SealedBytes::map(UniqueFd(), 100, "document"));
}

}  // namespace
}  // namespace carya::loader
