// caryad: the daemon of one user, or of all users, each of whom gets one. See caryad(8).

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "io/http/store_client.h"
#include "loader/control/daemon_stream.h"
#include "loader/daemon/metrics.h"
#include "loader/daemon/server.h"
#include "loader/daemon/settings.h"
#include "loader/daemon/users_page.h"
#include "loader/host/accounts.h"
#include "loader/host/crash_notes.h"
#include "loader/host/host.h"
#include "loader/program/event_field.h"
#include "loader/program/event_log.h"
#include "loader/program/supervisor.h"
#include "loader/users/user_daemons.h"
#include "transforms/simd/targets.h"

namespace {

using namespace carya;          // NOLINT(google-build-using-namespace): a program's own file
using namespace carya::loader;  // NOLINT(google-build-using-namespace)

constexpr double kUserIdleS = 600;  // a user's daemon without a client ends after this
constexpr int kUsage = 2;  // exit status: arguments or configuration are wrong; systemd does not try again

struct Arguments {
  std::string socket;
  std::string config;
  std::string metrics;
  double idle_exit_s = 0;
  std::optional<double> linger_s;
  bool all_users = false;
  bool handed = false;  // started by one of all users
  bool page = false;    // likewise, to serve the page of all of them
};

Result<Settings> settings_of(const Arguments& arguments) {
  const HostInfo facts = read_host_info();
  std::vector<std::string> user;
  if (arguments.handed) {
    user = {user_name(geteuid()), std::to_string(geteuid())};
    setenv("HOME", user_home(geteuid()).c_str(), 1);  // of the default cache folder
  }
  ASSIGN(Settings settings, arguments.config.empty()
                                ? parse_settings("", "defaults", facts.memory_bytes)
                                : read_settings(arguments.config, facts.memory_bytes, user));
  if (arguments.handed) settings.metrics.clear();  // one address, and a daemon for each user
  if (!arguments.socket.empty()) settings.socket = arguments.socket;
  if (settings.socket.empty()) settings.socket = default_socket_path();
  if (!arguments.metrics.empty()) settings.metrics = arguments.metrics;
  if (arguments.linger_s) settings.limits.linger_s = *arguments.linger_s;
  return settings;
}

/// What is wrong in it is said and left out: one name that is gone must not take the service from all the others.
UserRules rules_of(const UserSettings& users, EventLog& log) {
  std::vector<std::string> unknown;
  UserRules rules{.admitted = Admitted::create(users.allow, unknown), .share = users.share, .shares = {}};
  for (const auto& [name, share] : users.shares) {
    if (const auto number = user_number(name))
      rules.shares[*number] = share;
    else
      unknown.push_back(name);
  }
  for (const std::string& name : unknown)
    log.write(LogLevel::kWarning, "no such user or group" + field("name", name));
  rlimit most{};
  getrlimit(RLIMIT_NOFILE, &most);
  const auto bound = [&](UserShare& share, const std::string& key) {
    if (share.descriptors <= most.rlim_max) return;
    log.write(LogLevel::kWarning, key + " is more than LimitNOFILE" + field("limit", most.rlim_max));
    share.descriptors = most.rlim_max;
  };
  bound(rules.share, "users.descriptors");
  for (auto& [user, share] : rules.shares) bound(share, fmt::format("descriptors of user {}", user));
  return rules;
}

void take_over(const Settings& settings, EventLog&, Server& server) {
  server.set_limits(settings.limits);
}

void take_over(const Settings& settings, EventLog& log, UserDaemons& daemons) {
  daemons.set_rules(rules_of(settings.users, log));
}

/// What both kinds of daemons have: arguments, a manager, a log.
struct Program {
  const Arguments& arguments;
  sigset_t signals{};
  Supervisor manager{};
  EventLog log{};
  std::atomic<bool> ended = false;
  Settings started{};  // those that it has been started with

  std::function<void()> alive() {
    return [this] { manager.notify("WATCHDOG=1"); };
  }
  Log log_lines() {
    return [this](LogLevel level, const std::string& line) { log.write(level, line); };
  }
};

int say(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return error.code == Code::kInvalidArgument ? kUsage : 1;
}

/// Why there is no page, with the file that names its address.
int say_no_page(const Arguments& arguments, Error error) {
  if (arguments.metrics.empty()) error.message = arguments.config + ": " + error.message;
  return say(error);
}

/// Names what the file has otherwise than at the start, where alone it is read.
void say_what_waits(Program& program, const Settings& now) {
  const Settings& then = program.started;
  const std::pair<const char*, bool> keys[] = {{"socket", now.socket != then.socket},
                                               {"metrics", now.metrics != then.metrics},
                                               {"drain_seconds", now.drain_s != then.drain_s},
                                               {"limits.connections", now.connections != then.connections}};
  for (const auto& [key, differs] : keys)
    if (differs) program.log.write(LogLevel::kWarning, "counts from the next start on" + field("key", key));
}

/// Limits and level of the configuration as it is now; one with an error changes nothing.
template <typename Serving>
void reload(Program& program, Serving& serving) {
  program.manager.notify(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", monotonic_ns() / 1000));
  const auto settings = settings_of(program.arguments);
  if (settings) {
    take_over(*settings, program.log, serving);
    program.log.set_level(settings->log_level);
    say_what_waits(program, *settings);
    program.log.write(LogLevel::kInfo, "reloaded");
    program.manager.notify("READY=1\nSTATUS=serving, reloaded");
    return;
  }
  std::string why = settings.error().message;
  std::ranges::replace(why, '\n', ' ');
  program.log.write(LogLevel::kError, "not reloaded" + field("why", why));
  program.manager.notify("READY=1\nSTATUS=serving; the configuration was not reloaded: " + why);
}

/// Signals come to this thread alone: TERM and INT drain, HUP reads the configuration again.
template <typename Serving>
void follow_signals(Program& program, Serving& serving) {
  int signal = 0;
  while (sigwait(&program.signals, &signal) == 0 && !program.ended) {
    if (signal == SIGHUP) {
      reload(program, serving);
    } else {
      program.manager.notify("STOPPING=1\nSTATUS=draining");
      serving.drain();
    }
  }
}

/// Until it is told to end.
template <typename Serving>
void run(Program& program, const std::string& socket, Serving& serving) {
  std::thread follower([&] { follow_signals(program, serving); });
  program.manager.notify("READY=1\nSTATUS=serving at " + socket);
  serving.run();
  program.manager.notify("STOPPING=1");
  serving.end();
  program.ended = true;
  pthread_kill(follower.native_handle(), SIGTERM);  // wakes it
  follower.join();
  program.log.write(LogLevel::kInfo, "ended");
}

/// What earlier daemons of this socket left, or of this user, where one of all users keeps it. It works without.
std::shared_ptr<CrashNotes> crash_notes(Program& program, const Settings& settings) {
  const std::string version = CARYA_VERSION;
  auto notes = program.arguments.handed ? CrashNotes::read(UniqueFd(kNotesFd), version)
                                        : CrashNotes::open(settings.socket + ".crashes", version);
  if (!notes) {
    program.log.write(LogLevel::kWarning,
                      "a crash will not be known to the next daemon" + field("why", notes.error().message));
    return nullptr;
  }
  const std::int64_t now_s = std::time(nullptr);
  for (const Crash& crash : (*notes)->all())
    if (crash.is_recent(now_s))
      program.log.write(LogLevel::kError,
                        "an earlier daemon crashed" + field("by", signal_name(crash.signal)) +
                            field("seconds_ago", now_s - crash.at_s) +
                            (crash.work == 0 ? "" : "; the job that it worked for is refused for an hour"));
  (*notes)->catch_crashes();
  return *notes;
}

int serve_one_user(Program& program, const Settings& settings, UniqueFd listening) {
  UniqueFd handed(program.arguments.handed ? kHandedFd : -1);
  io::StoreClient::forbid_own();
  if (handed) prctl(PR_SET_NAME, "caryad");  // which was started by its descriptor
  auto crashes = crash_notes(program, settings);
  auto made = Server::create(
      {.socket = settings.socket,
       .listening = std::move(listening),
       .handed = std::move(handed),
       .limits = settings.limits,
       .connections_max = settings.connections,
       .drain_s = settings.drain_s,
       .idle_exit_s = program.arguments.idle_exit_s,
       .watchdog_ns = program.manager.watchdog_ns(),
       .alive = program.alive(),
       // Copies of secrets lie in libcurl's memory too: from then on no core is written, and no debugger looks in.
       .before_secrets = [] { prctl(PR_SET_DUMPABLE, 0); },
       .version = "caryad " CARYA_VERSION,
       .crashes = std::move(crashes),
       .log = program.log_lines(),
       .last_lines = [&program](std::uint64_t count) { return program.log.last_lines(count); }});
  if (!made) return std::min(say(made.error()), 1);
  Server& server = **made;
  std::unique_ptr<HttpPage> page;
  if (!settings.metrics.empty()) {
    auto opened = serve_metrics(settings.metrics, server);
    if (!opened) return say_no_page(program.arguments, opened.error());
    page = std::move(*opened);
    program.log.write(LogLevel::kInfo, "metrics address=" + page->address());
  }
  program.log.write(
      LogLevel::kInfo,
      fmt::format("ready socket={} pid={} threads={}", settings.socket, getpid(),
                  settings.limits.threads == 0 ? "auto" : std::to_string(settings.limits.threads)));
  run(program, settings.socket, server);
  return 0;
}

int serve_all_users(Program& program, const Settings& settings, UniqueFd listening) {
  const Arguments& arguments = program.arguments;
  std::error_code error;
  const std::string own = std::filesystem::read_symlink("/proc/self/exe", error).string();
  std::vector<std::string> command{
      own,           "--handed",
      "--socket",    settings.socket,
      "--idle-exit", fmt::format("{}", arguments.idle_exit_s > 0 ? arguments.idle_exit_s : kUserIdleS)};
  if (!arguments.config.empty())
    command.insert(command.end(), {"--config", std::filesystem::absolute(arguments.config).string()});
  if (arguments.linger_s) command.insert(command.end(), {"--linger", fmt::format("{}", *arguments.linger_s)});
  if (struct stat facts{}; !arguments.config.empty() && stat(arguments.config.c_str(), &facts) == 0 &&
                           (facts.st_mode & S_IROTH) == 0)
    return say({Code::kInvalidArgument,
                "caryad: " + arguments.config +
                    ": each user's daemon reads it with that user's rights; let everyone read it (chmod 644)",
                0});
  HttpListening page;
  if (!settings.metrics.empty()) {
    auto opened = listen_for_pages(settings.metrics);
    if (!opened) return say_no_page(arguments, opened.error());
    page = std::move(*opened);
    program.log.write(LogLevel::kInfo, "metrics address=" + page.address);
    if (!page.is_path)
      program.log.write(
          LogLevel::kWarning,
          "every user of this host can read the metrics of all users at a port; a path is root's alone");
  }
  auto made = UserDaemons::create({.socket = settings.socket,
                                   .listening = std::move(listening),
                                   .command = std::move(command),
                                   .page = std::move(page.socket),
                                   .page_command = {own, "--page"},
                                   .rules = rules_of(settings.users, program.log),
                                   .drain_s = settings.drain_s,
                                   .watchdog_ns = program.manager.watchdog_ns(),
                                   .alive = program.alive(),
                                   .log = program.log_lines()});
  if (!made) return std::min(say(made.error()), 1);
  program.log.write(LogLevel::kInfo,
                    fmt::format("ready socket={} pid={} for all users", settings.socket, getpid()));
  run(program, settings.socket, **made);
  if (page.is_path) unlink(page.address.c_str());
  return 0;
}

int serve(const Arguments& arguments) {
  Program program{.arguments = arguments};
  sigemptyset(&program.signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&program.signals, signal);
  pthread_sigmask(SIG_BLOCK, &program.signals, nullptr);  // before any thread is started
  signal(SIGPIPE, SIG_IGN);
  if (arguments.page) {
    const Status served = serve_users_page(kHandedFd);
    return served ? 0 : say(served.error());
  }

  if (const Status simd = check_simd_environment(); !simd) {
    std::fprintf(stderr, "%s\n", simd.error().message.c_str());
    return kUsage;
  }
  const auto settings = settings_of(arguments);
  if (!settings) {
    std::fprintf(stderr, "%s\n", settings.error().message.c_str());
    return kUsage;
  }
  program.log.set_level(settings->log_level);
  program.started = *settings;
  if (struct stat facts{}; !settings->limits.remote.token.empty() && !arguments.all_users &&
                           !arguments.handed && stat(arguments.config.c_str(), &facts) == 0 &&
                           (facts.st_mode & S_IROTH) != 0)
    program.log.write(LogLevel::kWarning,
                      "every user of this host can read the token of [remote]; chmod o= " + arguments.config);
  auto listening = program.manager.take_listening();
  if (!listening) return std::min(say(listening.error()), 1);
  return arguments.all_users ? serve_all_users(program, *settings, std::move(*listening))
                             : serve_one_user(program, *settings, std::move(*listening));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "caryad reads, decodes and transforms for the training processes of one user on this machine, or of "
      "all\n"
      "users (--all-users), each of whom gets a process of their own with their own rights.\n"
      "Loaders find it by its socket (carya.Loader(..., daemon=\"auto\")); carya status shows what it does.");
  app.footer("Example: caryad --socket /run/user/1000/carya/caryad.sock --config caryad.toml");
  Arguments arguments;
  app.add_option(
      "--socket", arguments.socket,
      "Unix socket to listen at (default: $CARYA_DAEMON_SOCKET, else carya/caryad.sock in $XDG_RUNTIME_DIR)");
  app.add_option("--config", arguments.config, "configuration file (TOML); SIGHUP reads it again")
      ->check(CLI::ExistingFile);
  app.add_option(
      "--metrics", arguments.metrics,
      "pages for Prometheus, on a loopback port (127.0.0.1:9464) or a Unix socket's path (default: none)");
  app.add_option("--linger", arguments.linger_s, "seconds that the stream of a reader that died is kept warm")
      ->check(CLI::Range(0.0, 86'400.0));
  app.add_option("--idle-exit", arguments.idle_exit_s, "end after so many seconds without a job (0: never)")
      ->check(CLI::Range(0.0, 1e7));
  app.add_flag(
      "--all-users", arguments.all_users,
      "serve all users that [users] of the configuration allows; as root. A user's own daemon ends after ten "
      "minutes without a client, or as --idle-exit says");
  // No help shows what has no group, and excludes() would show the place of their names in that of --all-users.
  app.add_flag("--handed", arguments.handed,
               "serve the connections that come over descriptor 3 (of --all-users)")
      ->group("");
  app.add_flag("--page", arguments.page,
               "serve the page of all users, asked for over descriptor 3 (of --all-users)")
      ->group("");
  app.set_version_flag("--version", "caryad " CARYA_VERSION);
  try {
    app.parse(argc, argv);
    if (arguments.all_users && (arguments.handed || arguments.page))
      throw CLI::ExcludesError("--all-users", arguments.page ? "--page" : "--handed");
  } catch (const CLI::ParseError& error) {  // the library's way to say also --help
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  return serve(arguments);
}
