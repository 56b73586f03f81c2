// Attacks on the daemon by a client that speaks the protocol by hand: each costs the attacker only.

#include <arpa/inet.h>
#include <netinet/in.h>

#include <fstream>
#include <limits>
#include <thread>

#include "loader/wire/number_ranges.h"
#include "tests/daemon/daemon_process.h"
#include "tests/daemon/hand_client.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

using Json = HandClient::Json;

/// Whether it is the same process still, and serves.
void expect_alive(const DaemonProcess& daemon) {
  const auto status = daemon.status();
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(status->pid, static_cast<std::uint64_t>(daemon.pid()));
}

std::string message_of(const std::optional<HandClient::Answer>& answer) {
  return answer && answer->body.contains("error") ? answer->body["error"].value("message", "") : "";
}

TEST(Attack, ASpacingOfAnIndexBelowZeroIsRefusedAndABystanderNoticesNothing) {
  const PhotoFolder folder(40), cache(1);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  const DaemonProcess daemon;
  const auto bystander = must(daemon.open(opened, {}));
  for (const std::int64_t spacing : {-1L, -2'147'483'648L, 65'536L}) {
    HandClient client(daemon.socket());
    const auto answer = client.attach(opened.pipeline->to_json(), [&](Json& body) {
      body["cache_dir"] = cache.path();
      body["options"]["decode_index"] = {{"wanted", true}, {"spacing", spacing}};
    });
    ASSERT_TRUE(answer) << "the daemon is gone";
    EXPECT_EQ(answer->type, HandClient::kError);
    EXPECT_NE(message_of(answer).find("spacing"), std::string::npos) << message_of(answer);
    EXPECT_NE(message_of(answer).find("0 to 65535"), std::string::npos) << message_of(answer);
  }
  EXPECT_EQ(drain(*bystander), expected);
  EXPECT_EQ(bystander->reattached(), 0u);
  expect_alive(daemon);
}

/// A number's place in a document, filled in: every list on the way gets one item.
Json& place_in(Json& body, std::string_view field) {
  Json* at = &body;
  for (field.remove_prefix(field.find('.') + 1); !field.empty();) {
    const auto end = std::min(field.find('.'), field.size());
    std::string name(field.substr(0, end));
    field.remove_prefix(std::min(end + 1, field.size()));
    const bool list = name.ends_with("[]");
    if (list) name.resize(name.size() - 2);
    at = &(*at)[name];
    if (list) at = &(*at)[0];
  }
  return *at;
}

TEST(Attack, NoNumberOfAnAttachEndsTheDaemon) {
  const PhotoFolder folder(8), cache(1);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const DaemonProcess daemon;
  const std::vector<Json> hostile{-1,
                                  0,
                                  1,
                                  std::numeric_limits<std::int64_t>::min(),
                                  std::numeric_limits<std::int64_t>::max(),
                                  std::numeric_limits<std::uint64_t>::max(),
                                  std::numeric_limits<double>::quiet_NaN(),
                                  std::numeric_limits<double>::infinity(),
                                  -1e308,
                                  1e308,
                                  0.5};
  for (const NumberRange& range : number_ranges()) {
    if (!range.field.starts_with("Attach.")) continue;
    for (const Json& value : hostile) {
      HandClient client(daemon.socket());
      const auto answer = client.attach(opened.pipeline->to_json(), [&](Json& body) {
        body["job"] = std::string(range.field.substr(0, 150));
        body["cache_dir"] = cache.path();
        body["options"]["slots"] = 2;
        body["options"]["decode_index"] = {{"wanted", true}};
        place_in(body, range.field) = value;
      });
      ASSERT_TRUE(answer) << range.field << " = " << value;
      if (value.is_number_float() &&
          !(value.get<double>() >= range.lowest && value.get<double>() <= range.highest))
        EXPECT_EQ(answer->type, HandClient::kError) << range.field << " = " << value;
    }
  }
  expect_alive(daemon);
}

TEST(Attack, AReaderThatStopsItsOwnJobIsAnsweredAndTheLogSaysWhoItWas) {
  const PhotoFolder folder(8);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const DaemonProcess daemon;
  for (int i = 0; i < 5; ++i) {
    HandClient client(daemon.socket());
    const auto attached = client.attach(opened.pipeline->to_json(), [](Json& body) { body["job"] = "own"; });
    ASSERT_TRUE(attached);
    ASSERT_EQ(attached->type, HandClient::kAttached) << message_of(attached);
    client.skip_descriptors();
    const auto done = client.ask(HandClient::kStopJob, {{"job", "own"}});
    ASSERT_TRUE(done);
    EXPECT_EQ(done->type, HandClient::kDone) << message_of(done);
    const auto notice = client.receive();
    ASSERT_TRUE(notice);
    EXPECT_EQ(notice->type, HandClient::kNotice);
    EXPECT_FALSE(client.receive()) << "the connection is closed then";
  }
  HandClient other(daemon.socket());
  const auto logs = other.ask(HandClient::kLogs, {{"lines", 1000}});
  ASSERT_TRUE(logs);
  int stopped = 0;
  for (const Json& line : logs->body["lines"]) {
    const auto text = line.get<std::string>();
    if (text.find(" stopped ") == std::string::npos) continue;
    ++stopped;
    EXPECT_NE(text.find("pid=" + std::to_string(getpid())), std::string::npos) << text;
  }
  EXPECT_EQ(stopped, 5);
  expect_alive(daemon);
}

TEST(Attack, AManifestThatIsTruncatedWhileItIsUsedCostsNothing) {
  const PhotoFolder folder(40), cache(1);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  usleep(100'000);  // a manifest of a folder that changed just now is not kept
  const DatasetOptions listing{.listing = {.cache_dir = cache.path()}};
  ASSERT_TRUE(Dataset::open(*opened.pipeline, listing));
  const auto kept = Dataset::open(*opened.pipeline, listing);
  ASSERT_TRUE(kept && (*kept)->report().from_cache) << "the attack would hit nothing";
  const DaemonProcess daemon;
  const auto job = must(daemon.open(opened, {}, {.cache_dir = cache.path()}));
  int truncated = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cache.path()))
    if (entry.path().extension() == ".manifest") {
      std::filesystem::resize_file(entry.path(), 0);
      ++truncated;
    }
  ASSERT_GT(truncated, 0);
  EXPECT_EQ(drain(*job), expected);
  EXPECT_EQ(job->reattached(), 0u);
  expect_alive(daemon);
}

/// A TCP socket that has more to send than its peer takes, and lingers for an hour when it is closed.
class LingeringSocket {
 public:
  LingeringSocket() {
    const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int small = 4096;
    setsockopt(listening, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    sockaddr_in address{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listening, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listening, 1), 0);
    getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size);
    sending_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(sending_, reinterpret_cast<sockaddr*>(&address), size), 0);
    peer_ = accept(listening, nullptr, nullptr);
    close(listening);
    const linger hour{.l_onoff = 1, .l_linger = 3600};
    setsockopt(sending_, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour));
    const std::vector<char> much(1 << 20);
    while (send(sending_, much.data(), much.size(), MSG_DONTWAIT) > 0) {
    }
  }
  ~LingeringSocket() {
    close(peer_);  // ends the lingering
    if (giving_up_.joinable()) giving_up_.join();
  }
  LingeringSocket(const LingeringSocket&) = delete;
  LingeringSocket& operator=(const LingeringSocket&) = delete;
  int fd() const { return sending_; }
  /// Whoever is the last to close a copy waits: on a thread, since that may be this process.
  void give_up() {
    giving_up_ = std::thread([fd = sending_] { close(fd); });
  }

 private:
  int sending_ = -1, peer_ = -1;
  std::thread giving_up_;
};

TEST(Attack, ASocketThatLingersHoldsNobodyUp) {
  const DaemonProcess daemon;
  // In a message that is answered, in one that is none, and in one that is never read.
  for (const int way : {0, 1, 2}) {
    HandClient attacker(daemon.socket());
    LingeringSocket socket;
    if (way == 1) {
      EXPECT_TRUE(attacker.send_bytes(HandClient::kStatus, {0xff}, {socket.fd()}));
    } else {
      if (way == 2) EXPECT_TRUE(attacker.send_bytes(HandClient::kStatus, {0xff}, {}));
      attacker.send(HandClient::kAttach, {{"job", "a"}}, {socket.fd()});
    }
    socket.give_up();
    HandClient other(daemon.socket());
    const auto status = other.ask(HandClient::kStatus, Json::object());
    ASSERT_TRUE(status) << "the daemon answers nobody, way " << way;
    EXPECT_EQ(status->type, HandClient::kStatusIs);
  }
}

std::size_t descriptors_of(pid_t pid) {
  const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(Attack, OddDescriptorsLeaveNothing) {
  const PhotoFolder folder(8);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const DaemonProcess daemon({"--linger", "0"});
  ASSERT_TRUE(daemon.status());
  const std::size_t before = descriptors_of(daemon.pid());
  for (const std::uint16_t type : {HandClient::kAttach, HandClient::kStatus, HandClient::kStopJob}) {
    std::vector<int> odd{open("/dev/zero", O_RDONLY), open("/", O_RDONLY), memfd_create("open", 0)};
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    odd.insert(odd.end(), {ends[0], ends[1]});
    for (const int fd : odd)
      for (const std::size_t count : {1U, 2U, 64U, 65U, 253U}) {
        HandClient client(daemon.socket());
        client.send(type, {{"job", "odd"}}, std::vector<int>(count, fd));
        client.send(type, {{"job", "odd"}}, {client.fd()});  // its own end: the kernel has to find the loop
        client.receive();
      }
    for (const int fd : odd) close(fd);
  }
  for (int i = 0; i < 4; ++i) {  // also what is attached and left at once
    HandClient client(daemon.socket());
    client.attach(opened.pipeline->to_json(), [](Json&) {});
  }
  std::size_t after = 0;
  for (int i = 0; i < 2000 && (after = descriptors_of(daemon.pid())) > before; ++i) usleep(10'000);
  EXPECT_LE(after, before);
  expect_alive(daemon);
}

/// A configuration file in a folder of its own.
class Configured {
 public:
  explicit Configured(const std::string& text) { std::ofstream(path()) << text; }
  std::string path() const { return (folder_.path() / "caryad.toml").string(); }

 private:
  PhotoFolder folder_{1};
};

TEST(Attack, ManyWhoAttachAtOnceGetNoMoreThanTheLimit) {
  const PhotoFolder folder(40);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const Configured limited("[limits]\nshared_memory = \"64MiB\"\n");
  const DaemonProcess daemon({"--config", limited.path()});
  const int document = HandClient::sealed(opened.pipeline->to_json());
  std::vector<std::unique_ptr<HandClient>> clients;
  for (int i = 0; i < 10; ++i) clients.push_back(std::make_unique<HandClient>(daemon.socket()));
  for (std::size_t i = 0; i < clients.size(); ++i)
    clients[i]->send(HandClient::kAttach,
                     {{"job", "job" + std::to_string(i)}, {"options", {{"threads", 1}, {"slots", 14}}}},
                     {document});
  close(document);
  int attached = 0;
  for (const auto& client : clients) {
    auto answer = client->receive();
    while (answer && answer->type == HandClient::kProgress) answer = client->receive();
    ASSERT_TRUE(answer);
    attached += answer->type == HandClient::kAttached ? 1 : 0;
    if (answer->type == HandClient::kError)
      EXPECT_NE(message_of(answer).find("shared memory"), std::string::npos) << message_of(answer);
  }
  EXPECT_EQ(attached, 2) << "14 slots of 2 MiB each, of 64 MiB";
  const auto status = daemon.status();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->shared_bytes, 2u * 14 * (2 << 20));
}

std::string arrays_of(std::uint64_t rows) {
  return R"({"version":1,"source":{"type":"arrays","count":)" + std::to_string(rows) +
         R"(,"arrays":{"x":{"dtype":"uint8","shape":[1048576],"fingerprint":"0a"}}},"views":[],"shuffle":null,"ops":[],)"
         R"("batch":{"batch_size":1,"global_size":null,"drop_last":false,"pad_last":false}})";
}

TEST(Attack, AnArrayOfHolesIsRefusedAndARealOneCounts) {
  const Configured limited("[limits]\nshared_memory = \"64MiB\"\n");
  const DaemonProcess daemon({"--config", limited.path()});
  const auto attach = [&](std::uint64_t rows, bool filled) {
    HandClient client(daemon.socket());
    const int document = HandClient::sealed(arrays_of(rows));
    const int array = memfd_create("array", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const auto bytes = static_cast<off_t>(rows << 20);
    EXPECT_EQ(ftruncate(array, bytes), 0);
    if (filled) EXPECT_EQ(fallocate(array, 0, 0, bytes), 0);
    EXPECT_EQ(fcntl(array, F_ADD_SEALS, HandClient::kSeals), 0);
    const auto answer =
        client.ask(HandClient::kAttach,
                   {{"job", "arrays"},
                    {"options", {{"threads", 1}, {"slots", 2}}},
                    {"arrays", Json::array({{{"field", "x"}, {"row_bytes", 1 << 20}, {"rows", rows}}})}},
                   {document, array});
    close(document);
    close(array);
    std::uint64_t shared = 0;
    if (const auto status = daemon.status()) shared = status->shared_bytes;
    return std::pair(answer, shared);
  };
  const auto [holes, none] = attach(1024, false);
  ASSERT_TRUE(holes);
  EXPECT_EQ(holes->type, HandClient::kError);
  EXPECT_NE(message_of(holes).find("holes"), std::string::npos) << message_of(holes);
  EXPECT_EQ(none, 0u);
  const auto [large, nothing] = attach(65, true);
  ASSERT_TRUE(large);
  EXPECT_EQ(large->type, HandClient::kError);
  EXPECT_NE(message_of(large).find("shared memory"), std::string::npos) << message_of(large);
  EXPECT_EQ(nothing, 0u);
  const auto [fits, all] = attach(16, true);
  ASSERT_TRUE(fits);
  EXPECT_EQ(fits->type, HandClient::kAttached) << message_of(fits);
  EXPECT_EQ(all, (16u << 20) + 2 * (2u << 20)) << "the array, and two slots of 1 MiB and a table";
}

TEST(Attack, SilentConnectionsKeepNobodyOut) {
  const PhotoFolder folder(40);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  const Configured limited("[limits]\nconnections = 16\n");
  const DaemonProcess daemon({"--config", limited.path()});
  const auto before = must(daemon.open(opened, {}, {.job = "before"}));
  std::vector<std::unique_ptr<HandClient>> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(std::make_unique<HandClient>(daemon.socket()));
  EXPECT_TRUE(silent.back()->greeted());
  const auto job = must(daemon.open(opened, {}, {.job = "after"}));
  ASSERT_TRUE(job);
  EXPECT_EQ(drain(*job), expected);
  EXPECT_EQ(drain(*before), expected) << "who reads keeps its place";
  expect_alive(daemon);
  const auto told = silent.front()->receive();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->type, HandClient::kNotice);
  EXPECT_NE(message_of(told).find("too many connections"), std::string::npos) << message_of(told);
}

// Who has many connections loses one of them, and no other process its only one.
TEST(Attack, ManyConnectionsOfOneProcessCostNoOtherProcessIts) {
  const Configured limited("[limits]\nconnections = 8\n");
  const DaemonProcess daemon({"--config", limited.path()});
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const pid_t other = fork();
  if (other == 0) {
    HandClient alone(daemon.socket());
    char byte = 'x';
    if (write(ends[1], &byte, 1) != 1 || read(ends[1], &byte, 1) != 1) _exit(2);
    const auto answer = alone.ask(HandClient::kStatus, Json::object());
    _exit(answer && answer->type == HandClient::kStatusIs ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  std::vector<std::unique_ptr<HandClient>> many;
  for (int i = 0; i < 40; ++i) many.push_back(std::make_unique<HandClient>(daemon.socket()));
  ASSERT_EQ(write(ends[0], &byte, 1), 1);
  int status = -1;
  waitpid(other, &status, 0);
  EXPECT_EQ(status, 0) << "the only connection of another process was closed";
  close(ends[0]);
  close(ends[1]);
}

TEST(Attack, WhereAllPlacesAreReadersTheNextOneIsToldSo) {
  const PhotoFolder folder(8);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const Configured limited("[limits]\nconnections = 2\n");
  const DaemonProcess daemon({"--config", limited.path()});
  const auto one = must(daemon.open(opened, {}, {.job = "one"}));
  const auto two = must(daemon.open(opened, {}, {.job = "two"}));
  HandClient third(daemon.socket(), false);
  const auto told = third.receive();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->type, HandClient::kNotice);
  EXPECT_NE(message_of(told).find("[limits] connections"), std::string::npos) << message_of(told);
}

TEST(Attack, TheDaemonRunsNoCommandOfAClient) {
  const PhotoFolder folder(8), elsewhere(1);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const std::filesystem::path marker = elsewhere.path() / "ran";
  const DaemonProcess daemon;
  HandClient client(daemon.socket());
  const auto answer = client.attach(opened.pipeline->to_json(), [&](Json& body) {
    body["options"]["remote"] = {{"fleet_command", {"/bin/touch", marker.string()}}};
  });
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->type, HandClient::kError);
  EXPECT_NE(message_of(answer).find("runs no command"), std::string::npos) << message_of(answer);
  usleep(300'000);
  EXPECT_FALSE(std::filesystem::exists(marker));
  expect_alive(daemon);
}

TEST(Attack, CachesAreWhereTheConfigurationAllowsThem) {
  const PhotoFolder folder(8), allowed(1), elsewhere(1);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const std::filesystem::path link = allowed.path() / "link";
  std::filesystem::create_directory_symlink(elsewhere.path(), link);
  const auto count = [&] {
    const std::filesystem::recursive_directory_iterator all(elsewhere.path());
    return std::distance(begin(all), end(all));
  };
  const auto before = count();
  const Configured limited("roots = [\"" + folder.path().string() + "\"]\ncache_dirs = [\"" +
                           allowed.path().string() + "\"]\n");
  const DaemonProcess daemon({"--config", limited.path(), "--linger", "0"});
  const auto attach = [&](const std::filesystem::path& cache) {
    HandClient client(daemon.socket());
    return client.attach(opened.pipeline->to_json(), [&](Json& body) {
      body["cache_dir"] = cache.string();
      body["options"]["decode_index"] = {{"wanted", true}};
    });
  };
  usleep(100'000);  // so that a manifest would be kept
  for (const auto& cache : {elsewhere.path(), link, allowed.path() / ".." / elsewhere.path().filename()}) {
    const auto refused = attach(cache);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->type, HandClient::kError) << cache;
    EXPECT_NE(message_of(refused).find("cache_dirs"), std::string::npos) << message_of(refused);
  }
  EXPECT_EQ(count(), before);
  const auto taken = attach(allowed.path() / "below");
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->type, HandClient::kAttached) << message_of(taken);
}

TEST(Attack, NoLinkLeadsOutOfTheRoots) {
  const PhotoFolder outside(8);
  for (const bool whole_class : {false, true}) {
    const PhotoFolder folder(8);
    const Configured limited("roots = [\"" + folder.path().string() + "\"]\n");
    const DaemonProcess daemon({"--config", limited.path()});
    const Opened opened = open_folder(folder.path(), kBatch4);
    ASSERT_TRUE(daemon.open(opened, {}, {.job = "before"}));
    const std::filesystem::path link =
        whole_class ? folder.path() / "zebra" : folder.file(0).parent_path() / "z.jpg";
    const std::filesystem::path target = whole_class ? outside.file(0).parent_path() : outside.file(0);
    std::filesystem::create_symlink(target, link);
    HandClient client(daemon.socket());
    const auto refused = client.attach(opened.pipeline->to_json(), [](Json&) {});
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->type, HandClient::kError);
    EXPECT_NE(message_of(refused).find("leads out"), std::string::npos) << message_of(refused);
    std::filesystem::remove(link);
    std::filesystem::create_symlink(folder.file(1).filename(), folder.file(1).parent_path() / "inside.jpg");
    HandClient again(daemon.socket());
    const auto taken = again.attach(opened.pipeline->to_json(), [](Json& body) { body["job"] = "inside"; });
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->type, HandClient::kAttached)
        << message_of(taken) << ": a link inside leads nowhere else";
  }
}

TEST(Attack, AFileThatBecomesALinkAfterTheListingIsNotReadThroughIt) {
  const PhotoFolder outside(8);
  for (const auto kind : {io::ReadEngineOptions::Kind::kAuto, io::ReadEngineOptions::Kind::kPread}) {
    const PhotoFolder inner(40);
    const Configured config("roots = [\"" + inner.path().string() + "\"]\n");
    const DaemonProcess daemon({"--config", config.path()});
    const Opened opened = open_folder(inner.path(), kBatch4);
    JobOptions options;
    options.io_engine = kind;
    options.io_timeout_s = 0;
    const auto job = must(daemon.open(opened, options));
    for (int i = 0; i < 40; ++i) {
      const std::filesystem::path copy =
          outside.path() / (std::to_string(i) + ".jpg");  // only its place tells
      std::filesystem::copy_file(inner.file(i), copy, std::filesystem::copy_options::overwrite_existing);
      std::filesystem::remove(inner.file(i));
      std::filesystem::create_symlink(copy, inner.file(i));
    }
    const auto moved = daemon.open(opened, options, {.job = "second"});  // of the listing that is kept
    EXPECT_FALSE(moved && (*moved)->next(120'000)) << "bytes from outside";
  }
}

TEST(Attack, ANameThatSteersTerminalsIsEscapedInTheLog) {
  const PhotoFolder folder(8);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const DaemonProcess daemon;
  HandClient client(daemon.socket());
  const std::string hostile =
      "a\x1b[2J\x1b]0;title\x07\n\xc2\x9b"
      "31m\xe2\x80\xae";
  const auto attached = client.attach(opened.pipeline->to_json(), [&](Json& body) { body["job"] = hostile; });
  ASSERT_TRUE(attached);
  HandClient other(daemon.socket());
  const auto logs = other.ask(HandClient::kLogs, {{"lines", 1000}});
  ASSERT_TRUE(logs);
  bool seen = false;
  for (const Json& entry : logs->body["lines"]) {
    const auto line = entry.get<std::string>();
    seen = seen || line.find("a\\x1b[2J\\x1b]0;title\\x07\\x0a\\x9b31m\\u202e") != std::string::npos;
    for (const char c : line) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << line;
    EXPECT_EQ(line.find("\xc2\x9b"), std::string::npos) << line;
  }
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace carya::loader
