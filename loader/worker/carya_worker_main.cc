// carya-worker: computes chunks for hosts whose own cores do not suffice. See carya-worker(8).

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

#include "loader/daemon/event_log.h"
#include "loader/daemon/supervisor.h"
#include "loader/host.h"
#include "loader/worker/worker_service.h"

namespace {

using namespace carya;          // NOLINT(google-build-using-namespace): a program's own file
using namespace carya::loader;  // NOLINT(google-build-using-namespace)

constexpr int kUsage = 2;  // exit status: arguments are wrong; systemd does not try again

struct Arguments {
  remote::ServerOptions server;
  remote::TlsFiles tls;
  std::uint32_t threads = 0;
  std::string log_level = "info";
};

int failed(const Error& error) {
  std::fprintf(stderr, "carya-worker: %s\n", error.message.c_str());
  return error.code == Code::kInvalidArgument || error.code == Code::kNotFound ? kUsage : 1;
}

/// TERM and INT finish what was begun; a second one ends at once.
void follow_signals(const sigset_t& signals, Supervisor& manager, remote::ChunkServer& server,
                    const std::atomic<bool>& ended) {
  int signal = 0;
  for (int seen = 0; sigwait(&signals, &signal) == 0 && !ended; ++seen) {
    manager.notify("STOPPING=1\nSTATUS=finishing what was begun");
    if (seen == 0)
      server.drain();
    else
      server.stop();
  }
}

int serve(const Arguments& arguments) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread is started
  signal(SIGPIPE, SIG_IGN);

  Supervisor manager;
  EventLog log;
  log.set_level(arguments.log_level);
  const std::uint32_t threads = arguments.threads > 0 ? arguments.threads : auto_threads(read_host_facts());
  WorkerService service(
      {.threads = threads, .log = [&log](const std::string& line) { log.write(LogLevel::kInfo, line); }});
  auto made = remote::ChunkServer::create(arguments.server, service);
  if (!made) return failed(made.error());
  remote::ChunkServer& server = **made;
  if (const Status started = service.start(server); !started) return failed(started.error());
  std::atomic<bool> ended = false;
  std::thread follower([&] { follow_signals(signals, manager, server, ended); });
  log.write(LogLevel::kInfo, "ready listen=" + arguments.server.listen +
                                 (server.port() > 0 ? " port=" + std::to_string(server.port()) : "") +
                                 " threads=" + std::to_string(threads) +
                                 (arguments.server.tls ? " tls=1.3" : " plain"));
  manager.notify("READY=1\nSTATUS=serving at " + arguments.server.listen);
  server.run();
  service.stop();
  ended = true;
  pthread_kill(follower.native_handle(), SIGTERM);  // wakes it
  follower.join();
  log.write(LogLevel::kInfo, "ended");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "carya-worker decodes and transforms chunks for training hosts whose own cores do not suffice.\n"
      "It holds no data and no state: hosts send what is to be done (carya.Loader(..., "
      "remote=[\"host:port\"])).");
  app.footer(
      "Example: carya-worker --listen 0.0.0.0:7070 --cert worker.pem --key worker.key --ca ca.pem\n"
      "         carya-worker --listen 127.0.0.1:7070 --insecure");
  Arguments arguments;
  remote::ServerOptions& server = arguments.server;
  server.server = "carya-worker " CARYA_VERSION;
  app.add_option("--listen", server.listen, "host:port (port 0: any that is free), or unix:/path")
      ->required();
  auto* cert =
      app.add_option("--cert", arguments.tls.certificate, "certificate of this worker (PEM, with its chain)");
  auto* key = app.add_option("--key", arguments.tls.key, "its key (PEM)")->needs(cert);
  auto* ca = app.add_option("--ca", arguments.tls.authority, "authority of the hosts' certificates (PEM)")
                 ->needs(key);
  cert->needs(ca);
  app.add_option("--client", server.client_names,
                 "name in a host's certificate that may come (default: all of --ca)");
  app.add_flag("--insecure", server.insecure,
               "plain TCP also for other machines: everybody there can use this worker");
  app.add_option("--token", server.token, "that hosts must know; for meshes that do TLS themselves")
      ->envname("CARYA_WORKER_TOKEN");
  app.add_option("--threads", arguments.threads, "that compute (0: all allowed cores)")
      ->check(CLI::Range(0U, 1024U));
  app.add_option("--connections", server.connections_max, "hosts at a time, at most")
      ->check(CLI::Range(1U, 4096U));
  app.add_option("--log-level", arguments.log_level, "what is logged")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  app.set_version_flag("--version", "carya-worker " CARYA_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // the library's way to say also --help
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  if (*cert) server.tls = arguments.tls;
  server.handling_max = 2 * (arguments.threads > 0 ? arguments.threads : auto_threads(read_host_facts()));
  return serve(arguments);
}
