#include "io/credentials/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace carya::io {
namespace {

constexpr std::int64_t kLimitNs = 60'000'000'000;
constexpr std::size_t kBytesMax = 64 << 10;
constexpr int kLookAgainMs = 10;

/// The words of a command; nothing where a quote is open.
std::optional<std::vector<std::string>> words_of(std::string_view command) {
  std::vector<std::string> words;
  bool inside = false;  // of a word
  char quote = 0;
  for (const char c : command) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        words.back() += c;
      }
      continue;
    }
    if (c == ' ' || c == '\t') {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (c == '"' || c == '\'') {
      quote = c;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) return std::nullopt;
  return words;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> found;
  for (const std::string& text : texts) found.push_back(const_cast<char*>(text.c_str()));
  found.push_back(nullptr);
  return found;
}

/// A child that is waited for, and killed where it did not end.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Whether it ended by itself and well, until `end_ns`. Where the process does not want to know how its children end
  /// (SIGCHLD ignored), it did.
  bool ends_well(std::int64_t end_ns) {
    for (int status = 0;;) {
      const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
      if (ended < 0 && errno == EINTR) continue;
      if (ended != 0) {
        pid_ = 0;
        return ended < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
      }
      if (monotonic_ns() >= end_ns) return false;
      ::poll(nullptr, 0, kLookAgainMs);
    }
  }

 private:
  pid_t pid_;
};

Result<pid_t> start(const std::vector<std::string>& words, const std::vector<std::string>& environment,
                    int output, const std::string& subject) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  for (const int signal : {SIGTERM, SIGINT, SIGPIPE, SIGHUP, SIGCHLD}) sigaddset(&usual, signal);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> arguments = pointers(words), variables = pointers(environment);
  pid_t pid = 0;
  const int refused =
      ::posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (refused != 0) return fail_errno(subject, refused);
  return pid;
}

}  // namespace

Result<std::string> program_output(const std::string& command, const std::vector<std::string>& environment,
                                   const std::string& subject) {
  const auto words = words_of(command);
  if (!words || words->empty())
    return fail(Code::kInvalidArgument,
                subject + ": no words of a command; give a program and its arguments");
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(subject, errno);
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  ASSIGN(const pid_t pid, start(*words, environment, theirs.get(), subject));
  Child child(pid);
  theirs.reset();
  std::string text;
  std::array<char, 4096> block{};
  const std::int64_t end_ns = monotonic_ns() + kLimitNs;
  for (;;) {
    const std::int64_t left_ns = end_ns - monotonic_ns();
    pollfd waits{.fd = ours.get(), .events = POLLIN};
    const int ready = left_ns <= 0 ? 0 : ::poll(&waits, 1, static_cast<int>(left_ns / 1'000'000 + 1));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return fail(Code::kIo, subject + ": it did not end within a minute; run it by hand");
    const ssize_t got = ::read(ours.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(block.data(), static_cast<std::size_t>(got));
    if (text.size() > kBytesMax)
      return fail(Code::kIo, subject + ": it writes more than 64 KiB; run it by hand");
  }
  if (!child.ends_well(end_ns)) return fail(Code::kPermission, subject + ": it failed; run it by hand");
  return text;
}

}  // namespace carya::io
