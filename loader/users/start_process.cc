#include "loader/users/start_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace carya::loader {
namespace {

/// What it gets of this process's environment.
constexpr const char* kPassed[] = {"PATH",         "LANG",        "LC_ALL", "TZ", "LD_LIBRARY_PATH",
                                   "ASAN_OPTIONS", "TSAN_OPTIONS"};

std::vector<std::string> environment() {
  std::vector<std::string> passed;
  for (const char* const name : kPassed)
    if (const char* const value = std::getenv(name); value != nullptr)
      passed.push_back(std::string(name) + '=' + value);
  return passed;
}

std::vector<char*> words(const std::vector<std::string>& text) {
  std::vector<char*> pointers;
  for (const std::string& word : text) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// All that a process needs between fork() and exec(), where it may call the kernel only.
struct Start {
  std::vector<char*> command, environment;
  int program;           // by descriptor: the user need not reach it by its path
  const Rights* rights;  // null: this process's own
  int handed;
  int notes;    // -1: none, and /dev/null in its place
  int nothing;  // /dev/null: its log is in its memory, and no stream is shared with other users
  const std::vector<UniqueFd>* groups;
  rlimit descriptors{};
};

constexpr int kProgramFd = kNotesFd + 1;

/// First all that is this process's is given away, then its rights: from then on the user may stop and look at it.
[[noreturn]] void become(const Start& start) {
  // In its cgroups first: what the start costs is the user's. A refusal leaves it where it is.
  for (const UniqueFd& group : *start.groups) static_cast<void>(!::write(group.get(), "0", 1));
  if (start.descriptors.rlim_max != 0) setrlimit(RLIMIT_NOFILE, &start.descriptors);
  setsid();
  umask(022);
  // Above those that they become, so that none is written over.
  const int handed = fcntl(start.handed, F_DUPFD, kProgramFd + 1);
  const int notes = fcntl(start.notes < 0 ? start.nothing : start.notes, F_DUPFD, kProgramFd + 1);
  const int program = fcntl(start.program, F_DUPFD, kProgramFd + 1);
  const int nothing = fcntl(start.nothing, F_DUPFD, kProgramFd + 1);
  if (handed < 0 || notes < 0 || program < 0 || nothing < 0) _exit(126);
  for (int fd = 0; fd < kHandedFd; ++fd)
    if (dup2(nothing, fd) < 0) _exit(126);
  if (dup2(handed, kHandedFd) < 0 || dup2(notes, kNotesFd) < 0 || dup3(program, kProgramFd, O_CLOEXEC) < 0)
    _exit(126);
  syscall(SYS_close_range, kProgramFd + 1, ~0U, 0);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || chdir("/") != 0) _exit(126);
  if (start.rights != nullptr && take_rights(*start.rights) != 0) _exit(126);
  // These three wait until the program asks for them, which it does by itself: before that they would end it.
  sigset_t later;
  sigemptyset(&later);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&later, number);
  sigprocmask(SIG_SETMASK, &later, nullptr);
  syscall(SYS_execveat, kProgramFd, "", start.command.data(), start.environment.data(), AT_EMPTY_PATH);
  _exit(127);
}

}  // namespace

Result<StartedProcess> start_process(const StartOptions& options, int handed) {
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing) return fail_errno("caryad: /dev/null", errno);
  const UniqueFd program(::open(options.command.front().c_str(), O_PATH | O_CLOEXEC));
  if (!program) return fail_errno("caryad: " + options.command.front(), errno);
  const std::vector<std::string> variables = environment();
  const Start start{.command = words(options.command),
                    .environment = words(variables),
                    .program = program.get(),
                    .rights = options.rights == own_rights() ? nullptr : &options.rights,
                    .handed = handed,
                    .notes = options.notes,
                    .nothing = nothing.get(),
                    .groups = &options.groups,
                    .descriptors = {options.descriptors, options.descriptors}};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  StartedProcess started{.pid = fork(), .process = {}};
  if (started.pid == 0) become(start);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started.pid < 0) return fail_errno("caryad: start of a process", error);
  started.process.reset(static_cast<int>(syscall(SYS_pidfd_open, started.pid, 0)));
  if (started.process) return started;
  const int refused = errno;
  end_process(started);
  return fail_errno("caryad: watch of a process", refused);
}

void end_process(const StartedProcess& process) {
  kill(process.pid, SIGKILL);
  while (waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace carya::loader
