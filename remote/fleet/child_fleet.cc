#include "remote/fleet/child_fleet.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <fmt/core.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/poller.h"
#include "base/unix_socket.h"
#include "remote/fleet/child_process.h"

namespace carya::remote {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLineBytesMax = 1 << 20;
constexpr std::size_t kUnsentBytesMax = 1 << 20;
constexpr std::size_t kMembersMax = 10'000;
constexpr std::size_t kTextBytesMax = 2000;
constexpr int kWaitMs = 250;  // between two looks at the clock

std::int64_t ns_of(std::uint64_t ms) {
  return static_cast<std::int64_t>(ms) * kNsPerMs;
}

/// What a socket says of a process that is gone, the second when it left something unread.
bool has_ended(int error) {
  return error == EPIPE || error == ECONNRESET;
}

/// A name that no other fleet of any host has.
std::string new_name() {
  std::uint64_t drawn = 0;
  while (getrandom(&drawn, sizeof drawn, 0) < 0 && errno == EINTR) {
  }
  return fmt::format("{:016x}", drawn);
}

/// One life of the child: its socket, what was not sent yet, what is no whole line yet.
struct Life {
  ChildProcess child;
  std::string unsent{};
  std::string unread{};
  std::int64_t since_ns = monotonic_ns();
  std::int64_t heard_ns = monotonic_ns();
  std::int64_t asked_ns = 0;
  std::optional<std::uint32_t> told{};  // the count
  bool ready = false;

  void say(const Json& line) { unsent += line.dump() + "\n"; }

  Status send() {
    while (!unsent.empty()) {
      const ssize_t sent = ::send(child.socket(), unsent.data(), unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && has_ended(errno)) unsent.clear();  // receive() says so, after its last words
      if (unsent.empty()) break;
      if (sent < 0 && !is_again(errno)) return fail_errno("write to it", errno);
      if (sent < 0) break;
      unsent.erase(0, static_cast<std::size_t>(sent));
    }
    if (unsent.size() > kUnsentBytesMax) return fail(Code::kTimeout, "it reads nothing");
    return {};
  }

  /// One read's worth. Errors: kClosed: it ended.
  Status receive() {
    char bytes[16'384];
    const ssize_t got = recv(child.socket(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && has_ended(errno))) return fail(Code::kClosed, "it ended");
    if (got < 0)
      return is_again(errno) || errno == EINTR ? Status() : Status(fail_errno("read from it", errno));
    unread.append(bytes, static_cast<std::size_t>(got));
    return {};
  }

  std::optional<std::string> next_line() {
    const std::size_t end = unread.find('\n');
    if (end == std::string::npos) return {};
    std::string line = unread.substr(0, end);
    unread.erase(0, end + 1);
    return line;
  }
};

class ChildFleet final : public Fleet {
 public:
  ChildFleet(ChildFleetOptions options, Poller poller)
      : options_(std::move(options)), poller_(std::move(poller)) {
    if (!options_.fleet.log) options_.fleet.log = [](const std::string&) {};
  }

  void run() override {
    std::uint64_t backoff_ms = options_.backoff_min_ms;
    while (!stopped_) {
      bool was_ready = false;
      bool wants_some = false;
      const Status ended = live(was_ready, wants_some);
      set_members({}, 0);
      if (stopped_) break;
      owes_end_ = owes_end_ || wants_some;
      if (was_ready) backoff_ms = options_.backoff_min_ms;
      const std::string why = ended ? "it ended" : ended.error().message;
      options_.fleet.log(
          fmt::format("fleet {}: {}; started again in {} ms", options_.command.front(), why, backoff_ms));
      const std::int64_t until_ns = monotonic_ns() + ns_of(backoff_ms);
      while (!stopped_ && monotonic_ns() < until_ns) poller_.wait(kWaitMs);
      backoff_ms = std::min(2 * backoff_ms, options_.backoff_max_ms);
    }
    if (owes_end_) end_for_the_dead();
  }

  void stop() override {
    stopped_ = true;
    poller_.wake();
  }
  void scale(std::uint32_t count) override {
    {
      const MutexLock lock(mutex_);
      wanted_ = count;
    }
    poller_.wake();
  }
  std::vector<std::string> members() const override {
    const MutexLock lock(mutex_);
    const auto count = std::min<std::size_t>(wanted_.value_or(0), members_.size());
    return {members_.begin(), members_.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  std::uint32_t most() const override {
    const MutexLock lock(mutex_);
    return most_;
  }
  double price_per_hour() const override { return options_.fleet.price_per_hour; }

 private:
  /// From the start of a child to its end.
  Status live(bool& was_ready, bool& wants_some) {
    ASSIGN(ChildProcess child, ChildProcess::start(options_.command));
    Life life{.child = std::move(child)};
    greet(life);
    const Status status = talk(life);
    was_ready = life.ready;
    wants_some = life.told.value_or(0) > 0;
    poller_.forget(life.child.socket());
    if (!stopped_) return status;  // killed when `life` ends
    end(life);
    owes_end_ = wants_some && life.child.has_failed();  // it died before it heard that
    return {};
  }

  void end(Life& life) {
    life.say({{"command", "stop"}});
    static_cast<void>(life.send());
    life.child.end_input();
    if (!life.child.wait(monotonic_ns() + ns_of(options_.end_ms)))
      options_.fleet.log("fleet " + options_.command.front() + ": it does not end and is killed");
  }

  /// A child that died left workers behind, and stop() came before it had a successor: one is started to end them.
  void end_for_the_dead() {
    auto child = ChildProcess::start(options_.command);
    if (!child) return options_.fleet.log("fleet " + options_.command.front() + ": " + child.error().message);
    Life life{.child = std::move(*child)};
    greet(life);
    life.say({{"command", "scale"}, {"count", 0}});
    end(life);
  }

  void greet(Life& life) const {
    life.say({{"command", "start"}, {"options", Json::parse(options_.options)}, {"fleet", name_}});
  }

  Status talk(Life& life) {
    while (!stopped_) {
      TRY(ask(life));
      TRY(life.send());
      TRY(poller_.watch(life.child.socket(), 1, true, !life.unsent.empty()));
      if (!poller_.wait(kWaitMs).empty()) TRY(life.receive());
      while (auto line = life.next_line()) {
        ASSIGN(ChildLine said, parse_child_line(*line));
        take(life, std::move(said));
      }
      if (life.unread.size() > kLineBytesMax) return fail(Code::kCorrupt, "it wrote a line without an end");
    }
    return {};
  }

  /// What is due to be said, and whether an answer is overdue.
  Status ask(Life& life) {
    const std::int64_t now = monotonic_ns();
    std::optional<std::uint32_t> wanted;
    {
      const MutexLock lock(mutex_);
      wanted = wanted_;
    }
    if (wanted && wanted != life.told) life.say({{"command", "scale"}, {"count", *wanted}});
    life.told = wanted;
    if (life.ready && now - life.asked_ns >= ns_of(options_.members_ms)) {
      life.asked_ns = now;
      life.say({{"command", "members"}});
    }
    const std::uint64_t limit_ms = life.ready ? options_.silent_ms : options_.ready_ms;
    if (now - (life.ready ? life.heard_ns : life.since_ns) > ns_of(limit_ms))
      return fail(
          Code::kTimeout,
          fmt::format("{}{} ms", (life.ready ? "it was silent for " : "it was not ready within "), limit_ms));
    return {};
  }

  void take(Life& life, ChildLine said) {
    life.heard_ns = monotonic_ns();
    switch (said.event) {
      case ChildLine::Event::kReady:
        life.ready = true;
        set_members({}, said.most);
        break;
      case ChildLine::Event::kMembers:
        if (life.ready) set_members(std::move(said.members));
        break;
      case ChildLine::Event::kLog:
        options_.fleet.log("fleet " + options_.command.front() + ": " + said.text);
        break;
    }
  }

  void set_members(std::vector<std::string> members, std::optional<std::uint32_t> most = {}) {
    const MutexLock lock(mutex_);
    members_ = std::move(members);
    if (most) most_ = *most;
  }

  ChildFleetOptions options_;
  const std::string name_ = new_name();
  Poller poller_;
  std::atomic<bool> stopped_{false};
  bool owes_end_ = false;  // a child died that had been told to have workers; of the thread in run()
  mutable Mutex mutex_;
  std::vector<std::string> members_ GUARDED_BY(mutex_);
  std::uint32_t most_ GUARDED_BY(mutex_) = 0;
  std::optional<std::uint32_t> wanted_ GUARDED_BY(mutex_);
};

std::unexpected<Error> no_line(const std::string& why) {
  return fail(Code::kCorrupt, "it wrote a line that is none of the protocol: " + why);
}

Result<std::vector<std::string>> members_of(const Json& list) {
  if (!list.is_array() || list.size() > kMembersMax)
    return no_line(fmt::format("members: give a list of at most {}", kMembersMax));
  std::vector<std::string> members;
  for (const Json& item : list) {
    if (!item.is_string() || !is_worker_address(item.get_ref<const std::string&>()))
      return no_line("members: give \"host:port\" of each");
    members.push_back(item.get<std::string>());
  }
  std::vector<std::string> sorted = members;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) return no_line("members: one is there twice");
  return members;
}

}  // namespace

Result<ChildLine> parse_child_line(const std::string& line) {
  if (line.size() > kLineBytesMax) return no_line("it is too long");
  const Json said = Json::parse(line, nullptr, false);
  if (!said.is_object() || !said.contains("event") || !said["event"].is_string())
    return no_line("give an object with \"event\"");
  const std::string event = said["event"];
  ChildLine out;
  if (event == "ready") {
    const Json most = said.value("most", Json());
    if (!most.is_number_unsigned() || most.get<std::uint64_t>() > kMembersMax)
      return no_line(fmt::format("most: give 0 to {}", kMembersMax));
    out.event = ChildLine::Event::kReady;
    out.most = most.get<std::uint32_t>();
  } else if (event == "members") {
    out.event = ChildLine::Event::kMembers;
    ASSIGN(out.members, members_of(said.value("members", Json())));
  } else if (event == "log") {
    const Json text = said.value("text", Json());
    if (!text.is_string()) return no_line("text: give text");
    out.event = ChildLine::Event::kLog;
    out.text = text.get<std::string>().substr(0, kTextBytesMax);
    std::ranges::replace_if(out.text, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  } else {
    return no_line("event: give \"ready\", \"members\" or \"log\"");
  }
  return out;
}

Result<std::unique_ptr<Fleet>> child_fleet(ChildFleetOptions options) {
  if (options.command.empty()) return fail(Code::kInvalidArgument, "fleet: no command is given");
  if (!Json::parse(options.options, nullptr, false).is_object())
    return fail(Code::kInvalidArgument,
                "fleet " + options.command.front() + ": its options are no JSON object");
  ASSIGN(Poller poller, Poller::create("fleet"));
  return std::make_unique<ChildFleet>(std::move(options), std::move(poller));
}

}  // namespace carya::remote
