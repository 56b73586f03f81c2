#include "loader/program/supervisor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <fstream>

#include "loader/program/event_log.h"
#include "tests/daemon/daemon_process.h"

namespace carya::loader {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int kWaitS = 60;  // the end of a hang

/// The datagram socket of a service manager, named to children by NOTIFY_SOCKET.
class NotifySocket {
 public:
  NotifySocket() {
    std::string pattern = (std::filesystem::temp_directory_path() / "carya-notify-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    const std::string path = folder_ + "/notify";
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    EXPECT_LT(path.size(), sizeof(address.sun_path));
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    fd_.reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    const timeval limit{.tv_sec = kWaitS, .tv_usec = 0};
    EXPECT_EQ(setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  ~NotifySocket() {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  /// The next message; signs of life are left out unless they are wanted.
  std::string next(bool with_watchdog = false) const {
    while (true) {
      std::string text(4096, '\0');
      const ssize_t bytes = recv(fd_.get(), text.data(), text.size(), 0);
      if (bytes < 0 && errno == EINTR)
        continue;  // a socket with a limit is interrupted by what handles no signal
      if (bytes <= 0) return "nothing came";
      text.resize(static_cast<std::size_t>(bytes));
      if (with_watchdog || text != "WATCHDOG=1") return text;
    }
  }

 private:
  std::string folder_;
  UniqueFd fd_;
};

TEST(Supervisor, WithoutOneNothingHappens) {
  Supervisor none;
  EXPECT_FALSE(none.watchdog_ns());
  const auto listening = none.take_listening();
  ASSERT_TRUE(listening);
  EXPECT_FALSE(*listening);
  none.notify("READY=1");
}

TEST(Supervisor, TakesItsVariablesFromTheEnvironment) {
  const NotifySocket heard;
  setenv("WATCHDOG_USEC", "2500", 1);
  const Supervisor manager;
  EXPECT_EQ(manager.watchdog_ns(), 2'500'000);
  EXPECT_EQ(std::getenv("NOTIFY_SOCKET"), nullptr);
  EXPECT_EQ(std::getenv("WATCHDOG_USEC"), nullptr);
  manager.notify("READY=1\nSTATUS=x");
  EXPECT_EQ(heard.next(), "READY=1\nSTATUS=x");
}

TEST(Supervisor, LeavesAloneWhatIsForAnotherProcess) {
  setenv("WATCHDOG_USEC", "2500", 1);
  setenv("WATCHDOG_PID", "1", 1);
  setenv("LISTEN_PID", "1", 1);
  setenv("LISTEN_FDS", "1", 1);
  Supervisor manager;
  EXPECT_FALSE(manager.watchdog_ns());
  const auto listening = manager.take_listening();
  ASSERT_TRUE(listening);
  EXPECT_FALSE(*listening);
}

TEST(SupervisedCaryad, SaysReadyReloadingAndStopping) {
  const NotifySocket heard;
  DaemonProcess daemon;
  EXPECT_EQ(heard.next(), "READY=1\nSTATUS=serving at " + daemon.socket());
  ::kill(daemon.pid(), SIGHUP);
  EXPECT_THAT(heard.next(), StartsWith("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_THAT(heard.next(), StartsWith("READY=1"));
  ::kill(daemon.pid(), SIGTERM);
  EXPECT_THAT(heard.next(), StartsWith("STOPPING=1"));
  EXPECT_EQ(daemon.kill(0), 0);  // waits: it ended by itself, with exit status 0
}

TEST(SupervisedCaryad, GivesSignsOfLife) {
  const NotifySocket heard;
  setenv("WATCHDOG_USEC", "40000", 1);
  DaemonProcess daemon;
  for (int i = 0; i < 5; ++i) {
    const std::string text = heard.next(true);
    if (text != "WATCHDOG=1") {
      EXPECT_THAT(text, StartsWith("READY=1"));
    }
  }
  EXPECT_EQ(daemon.kill(SIGTERM), 0);
}

TEST(SupervisedCaryad, ABrokenConfigurationChangesNothingAndIsLogged) {
  const NotifySocket heard;
  const std::string path = testing::TempDir() + "/caryad-" + std::to_string(getpid()) + ".toml";
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  write("[limits]\nshared_memory = \"100MB\"\n");
  DaemonProcess daemon({"--config", path});
  EXPECT_THAT(heard.next(), StartsWith("READY=1"));
  EXPECT_EQ(daemon.status()->shared_bytes_limit, 100'000'000u);
  const auto reload = [&](const std::string& text) {
    write(text);
    ::kill(daemon.pid(), SIGHUP);
    EXPECT_THAT(heard.next(), StartsWith("RELOADING=1"));
    return heard.next();
  };
  const std::string why = path + ":2: limits.shared_memory: got '100 parsecs'; give a size";
  EXPECT_THAT(reload("[limits]\nshared_memory = \"100 parsecs\"\n"), HasSubstr("was not reloaded: " + why));
  EXPECT_EQ(daemon.status()->shared_bytes_limit, 100'000'000u);
  const auto body =
      ask_daemon(daemon.socket(), MessageType::kLogs, encode(LogsRequest{}), MessageType::kLogsAre, 120'000);
  ASSERT_TRUE(body);
  EXPECT_THAT(decode<LogsAre>(*body)->lines.back(), HasSubstr("not reloaded why=\"" + why));
  EXPECT_THAT(reload("[limits]\nshared_memory = \"200MB\"\n"), HasSubstr("reloaded"));
  EXPECT_EQ(daemon.status()->shared_bytes_limit, 200'000'000u);
  std::filesystem::remove(path);
}

TEST(EventLog, TheJournalIsKnownByItsStreamNotByTheVariable) {
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  struct stat info{};
  ASSERT_EQ(fstat(null.get(), &info), 0);
  const std::string device = std::to_string(info.st_dev), inode = std::to_string(info.st_ino);
  EXPECT_TRUE(is_journal(device + ":" + inode, null.get()));
  EXPECT_FALSE(is_journal(device + ":" + inode + "1", null.get()));
  EXPECT_FALSE(is_journal("", null.get()));
  EXPECT_FALSE(is_journal(device + ":" + inode, -1));
}

}  // namespace
}  // namespace carya::loader
