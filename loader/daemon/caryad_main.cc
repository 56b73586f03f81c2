// caryad: the daemon of one user. See caryad(8).

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

#include "base/clock.h"
#include "loader/control/daemon_stream.h"
#include "loader/daemon/metrics.h"
#include "loader/daemon/server.h"
#include "loader/daemon/settings.h"
#include "loader/host/host.h"
#include "loader/program/event_log.h"
#include "loader/program/supervisor.h"
#include "transforms/simd/targets.h"

namespace {

using namespace carya;          // NOLINT(google-build-using-namespace): a program's own file
using namespace carya::loader;  // NOLINT(google-build-using-namespace)

constexpr int kUsage = 2;  // exit status: arguments or configuration are wrong; systemd does not try again

struct Arguments {
  std::string socket;
  std::string config;
  std::string metrics;
  double idle_exit_s = 0;
  std::optional<double> linger_s;
};

Result<Settings> settings_of(const Arguments& arguments) {
  const HostInfo facts = read_host_info();
  ASSIGN(Settings settings, arguments.config.empty() ? parse_settings("", "defaults", facts.memory_bytes)
                                                     : read_settings(arguments.config, facts.memory_bytes));
  if (!arguments.socket.empty()) settings.socket = arguments.socket;
  if (settings.socket.empty()) settings.socket = default_socket_path();
  if (!arguments.metrics.empty()) settings.metrics = arguments.metrics;
  if (arguments.linger_s) settings.limits.linger_s = *arguments.linger_s;
  return settings;
}

/// Limits and level of the configuration as it is now; one with an error changes nothing.
void reload(const Arguments& arguments, const Supervisor& manager, EventLog& log, Server& server) {
  manager.notify(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", monotonic_ns() / 1000));
  const auto settings = settings_of(arguments);
  if (settings) {
    server.set_limits(settings->limits);
    log.set_level(settings->log_level);
    log.write(LogLevel::kInfo, "reloaded");
    manager.notify("READY=1\nSTATUS=serving, reloaded");
    return;
  }
  std::string why = settings.error().message;
  std::ranges::replace(why, '"', '\'');  // one field of the line
  std::ranges::replace(why, '\n', ' ');
  log.write(LogLevel::kError, "not reloaded why=\"" + why + "\"");
  manager.notify("READY=1\nSTATUS=serving; the configuration was not reloaded: " + why);
}

/// Signals come to this thread alone: TERM and INT drain, HUP reads the configuration again.
void follow_signals(const sigset_t& signals, const Arguments& arguments, const Supervisor& manager,
                    EventLog& log, Server& server, const std::atomic<bool>& ended) {
  int signal = 0;
  while (sigwait(&signals, &signal) == 0 && !ended) {
    if (signal == SIGHUP) {
      reload(arguments, manager, log, server);
    } else {
      manager.notify("STOPPING=1\nSTATUS=draining");
      server.drain();
    }
  }
}

int serve(const Arguments& arguments) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread is started
  signal(SIGPIPE, SIG_IGN);

  if (const Status simd = check_simd_environment(); !simd) {
    std::fprintf(stderr, "%s\n", simd.error().message.c_str());
    return kUsage;
  }
  const auto settings = settings_of(arguments);
  if (!settings) {
    std::fprintf(stderr, "%s\n", settings.error().message.c_str());
    return kUsage;
  }
  Supervisor manager;
  EventLog log;
  log.set_level(settings->log_level);
  auto listening = manager.take_listening();
  if (!listening) {
    std::fprintf(stderr, "%s\n", listening.error().message.c_str());
    return 1;
  }
  auto made =
      Server::create({.socket = settings->socket,
                      .listening = std::move(*listening),
                      .limits = settings->limits,
                      .connections_max = settings->connections,
                      .drain_s = settings->drain_s,
                      .idle_exit_s = arguments.idle_exit_s,
                      .watchdog_ns = manager.watchdog_ns(),
                      .alive = [&manager] { manager.notify("WATCHDOG=1"); },
                      .version = "caryad " CARYA_VERSION,
                      .log = [&log](LogLevel level, const std::string& line) { log.write(level, line); },
                      .last_lines = [&log](std::uint64_t count) { return log.last_lines(count); }});
  if (!made) {
    std::fprintf(stderr, "%s\n", made.error().message.c_str());
    return 1;
  }
  const std::unique_ptr<Server> server = std::move(*made);
  std::unique_ptr<HttpPage> page;
  if (!settings->metrics.empty()) {
    auto opened = serve_metrics(settings->metrics, *server);
    if (!opened) {
      std::fprintf(stderr, "%s\n", opened.error().message.c_str());
      return opened.error().code == Code::kInvalidArgument ? kUsage : 1;
    }
    page = std::move(*opened);
    log.write(LogLevel::kInfo, "metrics address=" + page->address());
  }
  std::atomic<bool> ended = false;
  std::thread follower([&] { follow_signals(signals, arguments, manager, log, *server, ended); });
  log.write(LogLevel::kInfo,
            fmt::format("ready socket={} pid={} threads={}", settings->socket, getpid(),
                        (settings->limits.threads == 0 ? "auto" : std::to_string(settings->limits.threads))));
  manager.notify("READY=1\nSTATUS=serving at " + settings->socket);
  server->run();
  manager.notify("STOPPING=1");
  server->end();
  ended = true;
  pthread_kill(follower.native_handle(), SIGTERM);  // wakes it
  follower.join();
  log.write(LogLevel::kInfo, "ended");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "caryad reads, decodes and transforms for the training processes of one user on this machine.\n"
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
  app.set_version_flag("--version", "caryad " CARYA_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // the library's way to say also --help
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  return serve(arguments);
}
