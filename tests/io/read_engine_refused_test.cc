// What happens where the kernel forbids io_uring: a child process that may not call it (seccomp).
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "io/read/read_engine.h"
#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

bool forbid_io_uring(int answer) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(answer)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{4, program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// In the child: 0 when all is as it should be, else the number of what was not; 77 when seccomp is refused.
int check_fallback(int answer, const char* expected_name, Code expected_code) {
  if (!forbid_io_uring(answer)) return 77;
  const auto forced = ReadEngine::create({.kind = ReadEngineOptions::Kind::kUring});
  if (forced || forced.error().code != expected_code) return 1;
  const auto engine = ReadEngine::create({});
  if (!engine) return 2;
  if ((*engine)->name() != expected_name) return 3;
  const TempDir dir;
  dir.write("file", "abc");
  const int root = (*engine)->add_root(dir.path()).value();
  std::byte dest[4];
  const ReadRequest request{.token = 5, .root = root, .path = "file", .length = 3, .dest = dest};
  (*engine)->submit({&request, 1});
  ReadCompletion done;
  if ((*engine)->poll({&done, 1}, 20'000) != 1) return 4;
  return done.ok && done.token == 5 ? 0 : 5;
}

int in_child(int answer, const char* name, Code code) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check_fallback(answer, name, code));
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ReadEngineRefused, ThePreadPoolTakesOverAndSaysWhy) {
  const int eperm = in_child(EPERM, "pread (io_uring: EPERM)", Code::kPermission);
  if (eperm == 77) GTEST_SKIP() << "seccomp is not available";
  EXPECT_EQ(eperm, 0);
  EXPECT_EQ(in_child(ENOSYS, "pread (io_uring: ENOSYS)", Code::kUnsupported), 0);
}

}  // namespace
}  // namespace carya::io
