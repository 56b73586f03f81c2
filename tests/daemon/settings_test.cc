#include "loader/daemon/settings.h"
#include "loader/program/size_text.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "loader/program/size_text.h"

namespace carya::loader {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kMemory = 1'000'000;

Settings must(const std::string& text) {
  const auto settings = parse_settings(text, "c.toml", kMemory);
  EXPECT_TRUE(settings) << (settings ? "" : settings.error().message);
  return settings.value_or(Settings{});
}

std::string error_of(const std::string& text) {
  const auto settings = parse_settings(text, "c.toml", kMemory);
  EXPECT_FALSE(settings) << text;
  return settings ? "" : settings.error().message;
}

std::string shipped() {
  std::ifstream file(CARYA_SHIPPED_TOML);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty());
  return text.str();
}

TEST(Settings, ShippedFileIsTheDefaults) {
  EXPECT_EQ(must(shipped()), must(""));
}

TEST(Settings, ShippedFileNamesEveryKey) {
  const std::string text = shipped();
  for (const std::string& key : setting_keys()) {
    const auto dot = key.find('.');
    const auto begin = dot == std::string::npos ? 0 : text.find("\n[" + key.substr(0, dot) + "]\n");
    ASSERT_NE(begin, std::string::npos) << key;
    const std::string part = text.substr(begin, text.find("\n[", begin + 1) - begin + 1);
    const std::string line = "\n" + key.substr(dot == std::string::npos ? 0 : dot + 1) + " = ";
    // The socket has no default that can be written down.
    EXPECT_THAT(part, HasSubstr(key == "socket" ? "\n#socket = " : line)) << key;
  }
}

TEST(Settings, EveryKeyIsRead) {
  const Settings settings = must(R"(socket = "/run/x.sock"
log_level = "debug"
roots = ["/data", "/srv/photos"]
drain_seconds = 1.5
linger_seconds = 2
metrics = "127.0.0.1:0"
[limits]
connections = 3
jobs = 4
readers = 5
threads = 6
cores = 8
shared_memory = "7%"
[cache]
memory = "3%"
disk = "/nvme/carya"
disk_size = "5GB"
shared = "/nfs/carya"
shared_size = "6TB"
write_budget = "7GB"
[remote]
workers = ["w1:7070", "w2:7070"]
certificate = "c"
key = "k"
authority = "a"
server_name = "n"
insecure = true
token = "t"
token_file = "/run/word"
user = "u"
host_price = 3
worker_price = 0.5
objective = "speed"
max_workers = 9
max_cost_per_hour = 2.5
[users]
allow = ["alice", "@train"]
weight = 2
descriptors = 99
daemons = 3
)");
  const Settings expected{
      .socket = "/run/x.sock",
      .log_level = "debug",
      .drain_s = 1.5,
      .connections = 3,
      .metrics = "127.0.0.1:0",
      .limits = {.jobs = 4,
                 .readers = 5,
                 .shared_bytes = 70'000,
                 .cache = {.memory_bytes = 30'000,
                           .disk = {"/nvme/carya", 5'000'000'000},
                           .shared = {"/nfs/carya", 6'000'000'000'000},
                           .write_bytes_per_day = 7'000'000'000},
                 .threads = 6,
                 .cores = 8,
                 .folders = {.roots = {"/data", "/srv/photos"}, .cache_dirs = {}},
                 .linger_s = 2,
                 .remote = {.workers = {"w1:7070", "w2:7070"},
                            .certificate = "c",
                            .key = "k",
                            .authority = "a",
                            .server_name = "n",
                            .insecure = true,
                            .token = "t",
                            .token_file = "/run/word",
                            .user = "u",
                            .prices = {.host_per_hour = 3, .worker_per_hour = 0.5},
                            .goal = {.objective = autotune::Objective::kSpeed,
                                     .workers_max = 9,
                                     .workers_cost_per_hour_max = 2.5}}},
      .users = {.allow = {"alice", "@train"}, .share = {.weight = 2, .descriptors = 99, .daemons = 3}}};
  EXPECT_EQ(settings, expected);
}

TEST(Settings, ATableOfAUserCountsForThatUserAndItsWeightForAll) {
  const std::string text = R"(roots = ["/data"]
[limits]
jobs = 9
readers = 3
[users]
memory = "1GiB"
descriptors = 500
[user.alice]
weight = 3
memory = "512MiB"
descriptors = 60
daemons = 1
roots = []
limits.jobs = 2
cache.disk = "/nvme/alice"
remote.max_workers = 1
[user.1000]
limits.jobs = 4
)";
  const auto of = [&](const std::vector<std::string>& user) {
    const auto settings = parse_settings(text, "c.toml", kMemory, user);
    EXPECT_TRUE(settings) << (settings ? "" : settings.error().message);
    return settings.value_or(Settings{});
  };
  const Settings others = of({"bob", "1001"}), alice = of({"alice", "1002"}),
                 by_number = of({"carl", "1000"});
  const std::map<std::string, UserShare> shares{
      {"1000", {.weight = 1, .memory_bytes = 1ULL << 30, .descriptors = 500, .daemons = 4}},
      {"alice", {.weight = 3, .memory_bytes = 512ULL << 20, .descriptors = 60, .daemons = 1}}};
  for (const Settings& one : {others, alice, by_number}) {
    EXPECT_EQ(one.users.shares, shares);
    EXPECT_EQ(one.users.share.memory_bytes, 1ULL << 30);
    EXPECT_EQ(one.limits.readers, 3u);
  }
  EXPECT_EQ(others.limits.jobs, 9u);
  EXPECT_EQ(by_number.limits.jobs, 4u);
  EXPECT_EQ(alice.limits.jobs, 2u);
  EXPECT_EQ(alice.limits.remote.goal.workers_max, 1u);
  EXPECT_EQ(alice.limits.cache.disk.path, "/nvme/alice");
  EXPECT_EQ(others.limits.cache.disk.path, "");
  EXPECT_TRUE(alice.limits.folders.roots.empty());
  EXPECT_EQ(others.limits.folders.roots, std::vector<std::string>{"/data"});
}

TEST(Settings, MistakesInATableOfAnyUserAreNamed) {
  EXPECT_THAT(error_of("[user.alice]\nweight = 0\n"),
              HasSubstr("c.toml:2: user.alice.weight: got 0; give a number of 0.01 to 100"));
  EXPECT_THAT(error_of("[user.alice]\nmemory = \"1KiB\"\n"),
              HasSubstr("user.alice.memory: got '1KiB'; give 64MiB or more, or \"\" for no limit"));
  EXPECT_THAT(error_of("[user.alice]\ndaemons = 0\n"),
              HasSubstr("user.alice.daemons: got 0; give an integer of 1 to 64"));
  EXPECT_THAT(error_of("[user.alice]\nlimits.jobs = 0\n"), HasSubstr("user.alice.limits.jobs: got 0; give"));
  EXPECT_THAT(error_of("[user.alice]\nlimits.connections = 1\n"),
              HasSubstr("user.alice.limits.connections is no"));
  EXPECT_THAT(error_of("[user.alice]\nlog_level = \"debug\"\n"),
              HasSubstr("user.alice.log_level is no setting"));
  EXPECT_THAT(error_of("[user]\nalice = 3\n"), HasSubstr("user.alice is no table; give [user.alice]"));
}

TEST(Settings, EveryKeyRefusesAnotherTypeWithLineKeyValueAndWhatToGive) {
  for (const std::string& key : setting_keys()) {
    const auto dot = key.find('.');
    const std::string text = dot == std::string::npos
                                 ? "\n" + key + " = [true]\n"
                                 : "[" + key.substr(0, dot) + "]\n" + key.substr(dot + 1) + " = [true]\n";
    const std::string error = error_of(text);
    const bool secret = key == "remote.token" || key == "remote.fleet_options";
    const std::string said =
        "c.toml:2: " + key + ": got " + (secret ? "what is no text" : "[ true ]") + "; give ";
    EXPECT_THAT(error, HasSubstr(said)) << error;
    EXPECT_GT(error.size(), said.size());
  }
}

TEST(Settings, FilesOfTheUserLieInTheHomeOfWhoeverReadsThem) {
  const char* const before = getenv("HOME");
  const std::string kept = before != nullptr ? before : "";
  const auto certificate = [] {
    const auto settings = parse_settings(
        "[remote]\ncertificate = \"~/c\"\nkey = \"~/k\"\nauthority = \"/etc/~/a\"\ntoken_file = \"~/t\"\n",
        "c.toml", kMemory);
    EXPECT_TRUE(settings);
    const RemoteOptions& remote = settings->limits.remote;
    return remote.certificate + " " + remote.key + " " + remote.authority + " " + remote.token_file;
  };
  setenv("HOME", "/homes/ann", 1);
  EXPECT_EQ(certificate(), "/homes/ann/c /homes/ann/k /etc/~/a /homes/ann/t");
  setenv("HOME", "", 1);
  EXPECT_EQ(certificate(), "~/c ~/k /etc/~/a ~/t") << "of a user without an account";
  setenv("HOME", kept.c_str(), 1);
}

TEST(Settings, SecretsAreNotShown) {
  EXPECT_EQ(error_of("[remote]\ntoken = 918273645"),
            "c.toml:2: remote.token: got what is no text; give text");
  EXPECT_THAT(error_of("[user.ann]\nremote.token = 918273645"), Not(HasSubstr("918273645")));
  EXPECT_THAT(error_of("[remote]\nfleet_options = {password = \"hush\"}"), Not(HasSubstr("hush")));
}

TEST(Settings, AddressesOfWorkersHaveAPort) {
  for (const char* wrong :
       {"w1", "w1:", ":7070", "w1:0", "w1:70700", "w1:http", "unix:", "[::1]", "::1:7070", "a b:7070"})
    EXPECT_THAT(error_of(std::string("[remote]\nworkers = [\"w0:7070\", \"") + wrong + "\"]"),
                HasSubstr("give a list of addresses such as"))
        << wrong;
  EXPECT_EQ(must("[remote]\nworkers = [\"[::1]:7070\", \"unix:/run/w.sock\"]").limits.remote.workers.size(),
            2u);
}

TEST(Settings, AnAddressThatNoSocketCanHaveIsNamed) {
  EXPECT_THAT(error_of("[remote]\nworkers = [\"unix:/" + std::string(200, 'x') + "\"]"),
              HasSubstr("c.toml:2: remote.workers: got"));
  EXPECT_EQ(must("[remote]\ndns = \"dns://w:1\"").limits.remote.dns, "dns://w:1");
  for (const char* wrong : {"w:1", "dns://", "dns://w:x"})
    EXPECT_THAT(
        error_of(std::string("[remote]\ndns = \"") + wrong + "\""),
        HasSubstr(std::string("c.toml:2: remote.dns: got '") + wrong + "'; give \"dns://name:port\""));
}

TEST(Settings, AnAddressOfPagesIsCheckedWithItsLine) {
  for (const char* right : {"", "/run/m.sock", "127.0.0.1:9464", "[::1]:0", "localhost:1"})
    EXPECT_EQ(must(std::string("metrics = \"") + right + "\"").metrics, right);
  for (const char* wrong : {"9464", "0.0.0.0:9464", "localhost", "127.0.0.1:x", "run/m.sock"})
    EXPECT_EQ(
        error_of(std::string("\nmetrics = \"") + wrong + "\""),
        std::string("c.toml:2: metrics: got '") + wrong +
            "'; give an absolute path, or a port of the loopback such as 127.0.0.1:9464, or \"\" for none");
}

TEST(Settings, WorkersComeFromOnePlace) {
  const std::string cure = "; give one of workers, dns and fleet_command, and [] or \"\" for the others";
  EXPECT_EQ(error_of("[remote]\nworkers = [\"w:1\"]\ndns = \"dns://w:1\""),
            "c.toml:3: remote.dns: got 'dns://w:1' beside workers" + cure);
  EXPECT_EQ(error_of("[remote]\nfleet_command = [\"run\"]\n\nworkers = [\"w:1\"]"),
            "c.toml:4: remote.workers: got [ 'w:1' ] beside fleet_command" + cure);
  EXPECT_THAT(error_of("[remote]\nworkers = [\"w:1\"]\n[user.ann]\nremote.fleet_command = [\"run\"]"),
              HasSubstr("c.toml:4: user.ann.remote.fleet_command: got [ 'run' ] beside workers"));
  must("[remote]\nworkers = [\"w:1\"]\ndns = \"\"\nfleet_command = []");
  must("[remote]\nworkers = [\"w:1\"]\n[user.ann.remote]\nworkers = []\ndns = \"dns://w:1\"");
}

TEST(Settings, BoundsAreNamed) {
  EXPECT_THAT(error_of("[limits]\njobs = 0"),
              HasSubstr("c.toml:2: limits.jobs: got 0; give an integer of 1 to 100000"));
  EXPECT_THAT(error_of("[limits]\nthreads = 1.5"),
              HasSubstr("limits.threads: got 1.5; give an integer of 0 to"));
  EXPECT_THAT(error_of("linger_seconds = -1"), HasSubstr("linger_seconds: got -1; give seconds, 0 to 86400"));
  EXPECT_THAT(error_of("drain_seconds = nan"), HasSubstr("drain_seconds: got nan; give seconds"));
  EXPECT_THAT(error_of("socket = \"relative\""), HasSubstr("socket: got 'relative'; give an absolute path"));
  EXPECT_THAT(error_of("roots = [\"data\"]"),
              HasSubstr("roots: got [ 'data' ]; give a list of absolute paths"));
  EXPECT_THAT(error_of("roots = \"/data\""), HasSubstr("roots: got '/data'; give a list of absolute paths"));
  EXPECT_THAT(error_of("[cache]\ndisk = \"nvme\""),
              HasSubstr("cache.disk: got 'nvme'; give an absolute path, or \"\""));
  for (const char* wrong : {"0", "", "50%"})
    EXPECT_THAT(error_of(std::string("[cache]\ndisk_size = \"") + wrong + "\""),
                HasSubstr("give a size such as \"500GB\""));
  EXPECT_THAT(error_of("[cache]\nwrite_budget = \"much\""), HasSubstr("\"\" for no limit"));
  EXPECT_THAT(error_of("[cache.disk]\npath = \"/x\""), HasSubstr("cache.disk: got"));
  EXPECT_THAT(error_of("log_level = \"loud\""), HasSubstr("\"debug\", \"info\", \"warning\" or \"error\""));
}

TEST(Settings, UnknownKeysAreErrors) {
  EXPECT_THAT(error_of("\n\njobz = 1"), HasSubstr("c.toml:3: jobz is no setting"));
  EXPECT_THAT(error_of("jobs = 1"), HasSubstr("jobs is no setting"));
  EXPECT_THAT(error_of("limits = 3"), HasSubstr("limits is no setting"));
  EXPECT_THAT(error_of("[limits.more]\njobs = 1"), HasSubstr("limits.more is no setting"));
}

TEST(Settings, BrokenTextIsNamedByItsLine) {
  EXPECT_THAT(error_of("log_level = \"info\"\n[limits\n"), HasSubstr("c.toml:2: "));
}

TEST(Settings, FilesThatCannotBeReadAreErrors) {
  const std::string folder = testing::TempDir();
  EXPECT_EQ(read_settings(folder + "/absent.toml", kMemory).error().code, Code::kNotFound);
  EXPECT_FALSE(read_settings(folder, kMemory));  // a folder: must not be taken for an empty file
}

TEST(Settings, SizesHaveUnitsAndShares) {
  EXPECT_EQ(parse_size("512MiB", 0), 512u << 20);
  EXPECT_EQ(parse_size("8 GB", 0), 8'000'000'000u);
  EXPECT_EQ(parse_size("1.5KiB", 0), 1536u);
  EXPECT_EQ(parse_size("100%", 77), 77u);
  for (const char* wrong : {"", "x", "0", "-1GB", "101%", "5 parsecs", "nan", "inf", "1e30TiB"})
    EXPECT_FALSE(parse_size(wrong, 1000)) << wrong;
}

}  // namespace
}  // namespace carya::loader
