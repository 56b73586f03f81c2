// Who is another user gets no answer, whatever the permissions of the socket say.
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>

#include "tests/daemon/daemon_process.h"

namespace carya::loader {
namespace {

constexpr uid_t kNobody = 65534;

/// Whether a process of that user gets an answer.
bool answers(const DaemonProcess& daemon, uid_t user) {
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(user, user, user) != 0) _exit(2);
    _exit(daemon.status() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 2);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(AnotherUser, IsRefusedThoughTheSocketIsOpenToAll) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const DaemonProcess daemon;
  EXPECT_FALSE(answers(daemon, kNobody)) << "the socket's permissions refuse it already";
  const std::filesystem::path socket = daemon.socket();
  ASSERT_EQ(chmod(socket.parent_path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(socket.c_str(), 0777), 0);
  EXPECT_FALSE(answers(daemon, kNobody));
  EXPECT_TRUE(answers(daemon, 0)) << "its own user is served";
}

}  // namespace
}  // namespace carya::loader
