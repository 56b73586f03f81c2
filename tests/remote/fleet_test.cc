#include "remote/fleet/fleet.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "remote/fleet/child_fleet.h"
#include "remote/fleet/dns_fleet.h"

namespace carya::remote {
namespace {

using Addresses = std::vector<std::string>;

/// A fleet that runs while the test looks at it.
class Running {
 public:
  explicit Running(Result<std::unique_ptr<Fleet>> made) : fleet_(std::move(*made)) {
    thread_ = std::thread([this] { fleet_->run(); });
  }
  ~Running() {
    fleet_->stop();
    thread_.join();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  Fleet* operator->() { return fleet_.get(); }
  void until(const Addresses& members) {
    while (fleet_->members() != members) std::this_thread::yield();
  }

 private:
  std::unique_ptr<Fleet> fleet_;
  std::thread thread_;
};

/// Lines that a fleet logs.
struct Log {
  FleetOptions options() {
    return {.price_per_hour = 0.5, .log = [this](const std::string& line) {
              const std::lock_guard lock(mutex);
              lines.push_back(line);
            }};
  }
  bool has(const std::string& text) {
    const std::lock_guard lock(mutex);
    for (const std::string& line : lines)
      if (line.find(text) != std::string::npos) return true;
    return false;
  }
  int count(const std::string& text) {
    const std::lock_guard lock(mutex);
    int found = 0;
    for (const std::string& line : lines) found += line.find(text) != std::string::npos ? 1 : 0;
    return found;
  }
  void await(const std::string& text) {
    while (!has(text)) std::this_thread::yield();
  }
  std::mutex mutex;
  Addresses lines;
};

TEST(WorkerAddress, WhatIsNoneIsTold) {
  for (const char* text : {"", "a", "a:", ":1", "a:0", "a:70000", "a:1x", "a b:1", "a:1\n", "::1:7",
                           "unix:", "unix:x", "a/b:1", "[:1", "[]:1", "\"a\":1"})
    EXPECT_FALSE(is_worker_address(text)) << text;
  for (const char* text : {"a:1", "10.0.0.7:65535", "[::1]:7", "unix:/run/w", "a-b.c_d:80"})
    EXPECT_TRUE(is_worker_address(text)) << text;
  EXPECT_FALSE(is_worker_address(std::string(300, 'a') + ":1"));
}

TEST(DnsFleet, NamesAreReadOrRefused) {
  const auto ported = parse_dns_name("dns://carya.svc:7070");
  ASSERT_TRUE(ported);
  EXPECT_EQ(ported->name, "carya.svc");
  EXPECT_EQ(ported->port, 7070);
  EXPECT_EQ(parse_dns_name("dns://carya.svc")->port, 0);
  for (const char* text : {"dns://", "dns://:1", "dns://a:0", "dns://a:", "dns://a b", "a:1", "dns://a/b:1"})
    EXPECT_FALSE(parse_dns_name(text)) << text;
}

TEST(DnsFleet, FollowsItsNameAndKeepsItsWorkersWhenTheNameFails) {
  Log log;
  std::mutex mutex;
  Result<Addresses> now = Addresses{"b:1", "c:1"};
  std::atomic<int> lookups{0};
  const auto look_up = [&](const DnsName&) {
    const std::lock_guard lock(mutex);
    ++lookups;
    return now;
  };
  const auto set = [&](Result<Addresses> next) {
    const std::lock_guard lock(mutex);
    now = std::move(next);
  };
  Running fleet(dns_fleet("dns://w:1", {.fleet = log.options(), .refresh_ms = 1, .look_up = look_up}));
  fleet.until({"b:1", "c:1"});
  EXPECT_EQ(fleet->server_name(), "w");
  set(Addresses{"a:1", "b:1", "c:1"});
  fleet.until({"b:1", "c:1", "a:1"});  // those that were there stay in front
  fleet->scale(2);
  EXPECT_EQ(fleet->members(), (Addresses{"b:1", "c:1"}));
  for (Result<Addresses> bad :
       {Result<Addresses>(fail(Code::kIo, "the server is down")), Result<Addresses>(Addresses{})}) {
    set(bad);
    log.await(bad ? "it stands for nobody; 3 workers are kept" : "the server is down; 3 workers are kept");
    for (const int before = lookups; lookups < before + 3;) std::this_thread::yield();
    EXPECT_EQ(fleet->most(), 3U);
  }
  EXPECT_EQ(log.count("down"), 1);
  set(Addresses{"c:1"});
  fleet.until({"c:1"});
}

TEST(DnsFleet, LooksUpWhatThisMachineKnows) {
  const auto found = look_up_workers({.name = "localhost", .port = 7});
  ASSERT_TRUE(found) << found.error().message;
  for (const std::string& address : *found)
    EXPECT_TRUE(address == "127.0.0.1:7" || address == "[::1]:7") << address;
  EXPECT_FALSE(found->empty());
}

/// A DNS answer with SRV records (RFC 2782): a header, one question for "x", records with uncompressed
/// targets.
std::string srv_answer(const std::vector<std::pair<int, std::string>>& targets) {
  const auto number = [](std::size_t value) {
    return std::string{static_cast<char>(value >> 8), static_cast<char>(value & 255)};
  };
  std::string out = number(1) + number(0x8180) + number(1) + number(targets.size()) + number(0) + number(0);
  out += std::string("\1x\0", 3) + number(33) + number(1);
  for (const auto& [priority, target] : targets) {
    const std::string name = std::string(1, static_cast<char>(target.size())) + target + std::string(1, '\0');
    out += number(0xC00C) + number(33) + number(1) + std::string(4, '\0') + number(6 + name.size());
    out += number(static_cast<std::size_t>(priority)) + number(0) + number(7070) + name;
  }
  return out;
}

TEST(DnsFleet, ServicesAreReadByPriority) {
  const auto found = read_srv_answer(srv_answer({{2, "late"}, {1, "early"}, {1, "early"}}));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, (Addresses{"early:7070", "late:7070"}));
}

TEST(DnsFleet, AnAnswerThatIsCutOrDamagedIsAnErrorAndNothingElse) {
  const std::string whole = srv_answer({{1, "one"}, {1, "two"}});
  for (std::size_t cut = 0; cut < whole.size(); ++cut)
    EXPECT_FALSE(read_srv_answer(std::string(whole, 0, cut))) << cut;
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const char flip : {'\1', '\xFF'}) {
      std::string damaged = whole;
      damaged[at] ^= flip;
      const auto found = read_srv_answer(damaged);
      if (!found) continue;
      for (const std::string& address : *found) EXPECT_TRUE(is_worker_address(address));
    }
}

TEST(ChildFleet, LinesAreReadOrRefused) {
  EXPECT_EQ(parse_child_line(R"({"event":"ready","most":40})")->most, 40U);
  EXPECT_EQ(parse_child_line(R"({"event":"members","members":["a:1","b:2"]})")->members,
            (Addresses{"a:1", "b:2"}));
  EXPECT_EQ(parse_child_line(R"({"event":"log","text":"a\nb"})")->text, "a b");
  for (const char* line :
       {"", "{", "[]", "7", "{}", R"({"event":7})", R"({"event":"more"})", R"({"event":"ready"})",
        R"({"event":"ready","most":-1})", R"({"event":"ready","most":1e3})",
        R"({"event":"ready","most":100000})", R"({"event":"members"})",
        R"({"event":"members","members":["a"]})", R"({"event":"members","members":[7]})",
        R"({"event":"members","members":["a:1","a:1"]})", R"({"event":"members","members":{"a":1}})",
        R"({"event":"log"})", "\xFF\xFE"}) {
    const auto read = parse_child_line(line);
    ASSERT_FALSE(read) << line;
    EXPECT_EQ(read.error().code, Code::kCorrupt);
  }
  EXPECT_FALSE(parse_child_line(std::string(500'000, '[')));
  EXPECT_FALSE(parse_child_line(R"({"event":"log","text":")" + std::string(2 << 20, 'x') + "\"}"));
}

/// A child that is a shell script.
ChildFleetOptions script(const std::string& text, FleetOptions fleet = {}) {
  return {.fleet = std::move(fleet),
          .command = {"/bin/sh", "-c", text},
          .members_ms = 1,
          .silent_ms = 600'000,
          .end_ms = 1000,  // a script that has not ended by then is killed
          .backoff_min_ms = 1,
          .backoff_max_ms = 5};
}
const std::string kReady = R"(read start; echo '{"event":"ready","most":3}'; )";

TEST(ChildFleet, ScalesAndAsksForMembers) {
  // Gives as many members as were wanted last.
  Running fleet(child_fleet(script(kReady + R"(
    members=
    while read line; do
      case $line in
        *scale*3*) members='"a:1","b:1","c:1"';;
        *scale*1*) members='"a:1"';;
        *members*) echo "{\"event\":\"members\",\"members\":[$members]}";;
        *stop*) exit;;
      esac
    done)")));
  EXPECT_TRUE(fleet->members().empty()) << "nothing is started before it is wanted";
  fleet->scale(3);
  fleet.until({"a:1", "b:1", "c:1"});
  EXPECT_EQ(fleet->most(), 3U);
  fleet->scale(1);
  fleet.until({"a:1"});
}

TEST(ChildFleet, OneThatEndsIsStartedAgainWithWhatIsWanted) {
  Log log;
  // Ends after each answer about members.
  Running fleet(child_fleet(script(kReady + R"(
    read wanted; read question; echo '{"event":"log","text":"'$(echo $wanted | tr -d '"')'"}')",
                                   log.options())));
  fleet->scale(2);
  log.await("{command:scale,count:2}");
  log.await("it ended; started again in");
  fleet->scale(3);
  log.await("count:3");
  EXPECT_TRUE(fleet->members().empty());
}

TEST(ChildFleet, TheChildrenOfOneFleetAreToldOneNameThatNoOtherHas) {
  std::set<std::string> names;
  for (int i = 0; i < 2; ++i) {
    Log log;
    {
      // Says what it was told, and ends.
      Running fleet(child_fleet(script(R"(
        read start; echo '{"event":"log","text":"'$(echo $start | tr -d '"')'"}')",
                                       log.options())));
      while (log.count("command:start") < 2) std::this_thread::yield();
    }
    for (const std::string& line : log.lines)
      if (const auto at = line.find("fleet:"); at != std::string::npos) names.insert(line.substr(at, 22));
    EXPECT_EQ(names.size(), i + 1U);
  }
  for (const std::string& name : names) EXPECT_EQ(name.find_first_not_of("0123456789abcdef", 6), name.npos);
}

TEST(ChildFleet, WhatADeadChildLeftIsEndedByAnotherOne) {
  const auto file = std::filesystem::temp_directory_path() / ("carya_dead_" + std::to_string(getpid()));
  for (const bool seen : {true, false}) {
    {
      Log log;
      // Writes down what it is told, and dies: when it is to have workers, or only when it is to stop.
      const std::string dies = seen ? "*scale*2*" : "*stop*";
      ChildFleetOptions made =
          script("while read line; do echo $line >> " + file.string() +
                     "; case $line in *start*) echo '{\"event\":\"ready\",\"most\":3}';; " + dies +
                     ") kill -9 $$;; esac; done",
                 log.options());
      made.backoff_min_ms = made.backoff_max_ms = made.end_ms = 600'000;
      Running fleet(child_fleet(std::move(made)));
      fleet->scale(2);
      if (seen) log.await("it ended; started again in");
      while (!seen && fleet->most() == 0) std::this_thread::yield();
    }
    std::ifstream in(file);
    const std::string told((std::istreambuf_iterator<char>(in)), {});
    const auto second = told.find("start", told.find("scale"));
    ASSERT_NE(second, told.npos) << told;
    EXPECT_LT(told.find("\"count\":0", second), told.find("stop", second)) << told;
    std::filesystem::remove(file);
  }
}

TEST(ChildFleet, OneThatLiesIsKilledAndItsMembersForgotten) {
  Log log;
  Running fleet(child_fleet(script(kReady + R"(
    echo '{"event":"members","members":["nobody"]}'; while read line; do :; done)",
                                   log.options())));
  fleet->scale(1);
  log.await("members: give \"host:port\" of each; started again in");
}

TEST(ChildFleet, OneThatNeverEndsALineIsKilled) {
  Log log;
  Running fleet(child_fleet(script(kReady + "exec cat /dev/zero", log.options())));
  log.await("it wrote a line without an end");
}

TEST(ChildFleet, OneThatHangsIsKilled) {
  Log log;
  ChildFleetOptions silent = script(kReady + "while read line; do :; done", log.options());
  silent.silent_ms = 20;
  Running fleet(child_fleet(std::move(silent)));
  log.await("it was silent for 20 ms");
  ChildFleetOptions late = script("while read line; do :; done", log.options());
  late.ready_ms = 20;
  Running other(child_fleet(std::move(late)));
  log.await("it was not ready within 20 ms");
}

TEST(ChildFleet, OneThatIsNotThereIsSaid) {
  Log log;
  Running fleet(child_fleet({.fleet = log.options(), .command = {"/no/such/program"}, .backoff_min_ms = 1}));
  log.await("/no/such/program: No such file");
  EXPECT_FALSE(child_fleet({}));
  EXPECT_FALSE(child_fleet({.command = {"true"}, .options = "[]"}));
}

TEST(ChildFleet, IsToldToStopAndIsKilledWhenItDoesNot) {
  const auto file = std::filesystem::temp_directory_path() / ("carya_fleet_" + std::to_string(getpid()));
  {
    ChildFleetOptions told = script(kReady + "while read line; do case $line in *stop*) echo stopped > " +
                                    file.string() + "; exit;; esac; done");
    told.end_ms = 600'000;
    Running fleet(child_fleet(std::move(told)));
    while (fleet->most() == 0) std::this_thread::yield();
  }
  std::string text;
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "stopped");
  std::filesystem::remove(file);
  Log log;
  {
    ChildFleetOptions deaf = script(kReady + "trap '' TERM; while :; do sleep 1; done", log.options());
    deaf.end_ms = 20;
    Running fleet(child_fleet(std::move(deaf)));
    while (fleet->most() == 0) std::this_thread::yield();
  }
  EXPECT_TRUE(log.has("it does not end and is killed"));
}

}  // namespace
}  // namespace carya::remote
