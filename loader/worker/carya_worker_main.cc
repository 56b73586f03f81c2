// carya-worker: computes chunks for hosts whose own cores do not suffice. See carya-worker(1).

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "loader/host/host.h"
#include "loader/host/secret_file.h"
#include "loader/program/event_field.h"
#include "loader/program/event_log.h"
#include "loader/program/size_text.h"
#include "loader/program/supervisor.h"
#include "loader/worker/worker_metrics.h"
#include "loader/worker/worker_service.h"
#include "transforms/simd/targets.h"
#include "transforms/user/library.h"

namespace {

using namespace carya;          // NOLINT(google-build-using-namespace): a program's own file
using namespace carya::loader;  // NOLINT(google-build-using-namespace)

constexpr int kUsage = 2;  // exit status: arguments are wrong; systemd does not try again

constexpr std::uint64_t kTokenFileBytesMax = 1 << 20;  // a token for each of thousands of users

struct Arguments {
  remote::ServerOptions server;
  remote::TlsFiles tls;
  std::string token_file;
  std::string metrics;
  std::uint32_t threads = 0;
  std::vector<std::string> ops{};
  std::string memory = "25%";
  std::vector<std::string> roots;
  std::uint64_t record_bytes_max = 0;  // of one that is read here
  std::uint64_t pixels_max = kPixelsMax;
  std::uint64_t plan_bytes_max = kPlanBytesMax;
  double megapixels = 0;  // 0: what pipelines themselves allow
  double chunk_s = 60;
  double silent_s = 3;
  double grace_s = 25;
  std::string log_level = "info";
};

int failed(const Error& error) {
  std::fprintf(stderr, "carya-worker: %s\n", error.message.c_str());
  return error.code == Code::kInvalidArgument || error.code == Code::kNotFound ? kUsage : 1;
}

/// Whose each token of the file is; nothing where it has not changed.
Result<std::optional<std::vector<remote::UserToken>>> read_tokens(SecretFile& file, const std::string& path) {
  ASSIGN(const auto text, file.read());
  if (!text) return std::nullopt;
  auto tokens = remote::parse_tokens(*text);
  if (!tokens) return fail(tokens.error().code, "--token-file " + path + ": " + tokens.error().message);
  return std::move(*tokens);
}

/// Whether no host can prove whose work it brings.
bool believes_all(const remote::ServerOptions& server) {
  return !server.tls && std::ranges::all_of(server.tokens, [](const auto& one) { return one.user.empty(); });
}

/// The rest of what the server is told.
Status complete(Arguments& arguments) {
  TRY(check_simd_environment());
  remote::ServerOptions& server = arguments.server;
  const remote::TlsFiles& tls = arguments.tls;
  const bool any = !(tls.certificate + tls.key + tls.authority).empty();
  if (any && (tls.certificate.empty() || tls.key.empty() || tls.authority.empty()))
    return fail(Code::kInvalidArgument, "--cert, --key and --ca belong together: give all three or none");
  if (any) server.tls = tls;
  if (!arguments.token_file.empty()) {
    const std::string& path = arguments.token_file;
    server.renew_tokens = [path,
                           file = std::make_shared<SecretFile>("--token-file", path, kTokenFileBytesMax)] {
      return read_tokens(*file, path);
    };
    ASSIGN(const auto tokens, server.renew_tokens());
    server.tokens = *tokens;
  }
  if (server.proven_users && believes_all(server))
    return fail(
        Code::kInvalidArgument,
        "--proven-users: nobody could prove a name: give --cert, --key and --ca, or a --token-file with "
        "lines of user:token");
  if (std::isfinite(server.user_weight_max) && !server.proven_users)
    return fail(Code::kInvalidArgument,
                "--max-weight: hosts that prove no name could say many: give --proven-users too");
  const HostInfo facts = read_host_info();
  for (const std::string& path : arguments.ops) {
    std::error_code error;
    TRY(transforms::add_user_library(std::filesystem::absolute(path, error)));
  }
  if (arguments.threads == 0) arguments.threads = auto_threads(facts);
  const auto memory = parse_size(arguments.memory, facts.memory_bytes);
  if (!memory)
    return fail(Code::kInvalidArgument, "--memory " + arguments.memory + ": give " + memory.error().message);
  server.bytes_max =
      *memory / (arguments.roots.empty() ? 2 : 3);  // the same for results, and for what is read
  arguments.record_bytes_max = server.bytes_max / arguments.threads;
  // What the worst plan and the worst row may take is priced before they run.
  arguments.pixels_max =
      std::min(arguments.megapixels > 0 ? static_cast<std::uint64_t>(arguments.megapixels * 1e6) : kPixelsMax,
               *memory / arguments.threads / kRowBytesPerPixel);
  arguments.plan_bytes_max = std::min(kPlanBytesMax, *memory / kParseBytesPerByte);
  server.request_bytes_max = std::min(server.request_bytes_max, server.bytes_max);
  server.result_bytes_max = std::min(server.result_bytes_max, server.bytes_max);
  server.handling_max = 2 * arguments.threads;
  server.threads = arguments.threads;
  server.silent_ms = static_cast<std::uint64_t>(arguments.silent_s * 1000);
  server.chunk_ms = static_cast<std::uint64_t>(arguments.chunk_s * 1000);
  server.grace_ms = static_cast<std::uint64_t>(arguments.grace_s * 1000);
  return {};
}

/// TERM and INT finish what there is within the grace time; a second one ends at once.
void follow_signals(const sigset_t& signals, const Supervisor& manager, EventLog& log,
                    remote::ChunkServer& server, const std::atomic<bool>& ended) {
  int signal = 0;
  for (int seen = 0; sigwait(&signals, &signal) == 0 && !ended; ++seen) {
    manager.notify("STOPPING=1\nSTATUS=finishing what was begun");
    const remote::ServerStats stats = server.stats();
    log.write(LogLevel::kInfo, (seen == 0 ? "draining" : "ending at once") +
                                   field("connections", stats.connections) +
                                   field("chunks", stats.handling + stats.queued));
    if (seen == 0) {
      server.drain();
    } else {
      server.stop();
    }
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
  WorkerService service({.threads = arguments.threads,
                         .pixels_max = arguments.pixels_max,
                         .plan_bytes_max = arguments.plan_bytes_max,
                         .chunk_ms = static_cast<std::int64_t>(arguments.server.chunk_ms),
                         .roots = arguments.roots,
                         .record_bytes_max = arguments.record_bytes_max,
                         .log = [&log](const std::string& line) { log.write(LogLevel::kInfo, line); }});
  auto made = remote::ChunkServer::create(arguments.server, service);
  if (!made) return failed(made.error());
  remote::ChunkServer& server = **made;
  if (const Status started = service.start(server); !started) return failed(started.error());
  std::unique_ptr<HttpPage> page;
  if (!arguments.metrics.empty()) {
    auto opened = serve_worker_metrics(arguments.metrics, server, arguments.threads);
    if (!opened) {
      service.stop();
      return failed(opened.error());
    }
    page = std::move(*opened);
  }
  std::atomic<bool> ended = false;
  std::thread follower([&] { follow_signals(signals, manager, log, server, ended); });
  log.write(LogLevel::kInfo, "ready" + field("listen", arguments.server.listen) +
                                 field("port", server.port()) + field("threads", arguments.threads) +
                                 field("tls", arguments.server.tls ? "1.3" : "none"));
  if (page) log.write(LogLevel::kInfo, "metrics" + field("address", page->address()));
  if (believes_all(arguments.server))
    log.write(LogLevel::kInfo,
              "hosts prove no users: each is believed, and may say the name of another; give --cert, --key "
              "and --ca "
              "and hosts certificates of users, or a --token-file with lines of user:token");
  manager.notify("READY=1\nSTATUS=serving at " + arguments.server.listen);
  server.run();
  service.stop();
  ended = true;
  pthread_kill(follower.native_handle(), SIGTERM);  // wakes it
  follower.join();
  page.reset();
  log.write(LogLevel::kInfo, "ended");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "carya-worker decodes and transforms chunks for training hosts whose own cores do not suffice.\n"
      "It keeps no data and no state: hosts connect to it and send what is to be done. It may be ended, "
      "killed\n"
      "or started again at any time: hosts do elsewhere what it had.");
  app.footer(
      "Other machines need certificates on both sides, signed by one authority; hosts check that the "
      "worker's\n"
      "is for the name they connect to. tools/test_ca.sh DIR NAME makes a set to try.\n\n"
      "Examples:\n"
      "  carya-worker --listen 127.0.0.1:7070\n"
      "  carya-worker --listen 0.0.0.0:7070 --cert worker.pem --key worker.key --ca ca.pem\n"
      "  carya-worker --listen 0.0.0.0:7070 --insecure --token-file token   (a mesh does the encryption)\n"
      "  carya-worker --listen 127.0.0.1:7070 --root /data   (hosts see the same files under /data)");
  Arguments arguments;
  remote::ServerOptions& server = arguments.server;
  server.server = "carya-worker " CARYA_VERSION;
  app.add_option("--listen", server.listen, "host:port (port 0: any that is free), or unix:/path")
      ->required();
  app.add_option("--cert", arguments.tls.certificate, "certificate of this worker (PEM, with its chain)");
  app.add_option("--key", arguments.tls.key, "its key (PEM)");
  app.add_option("--ca", arguments.tls.authority, "authority of the hosts' certificates (PEM)");
  app.add_option("--client", server.client_names,
                 "name in a host's certificate that may come (default: all of --ca)");
  app.add_flag("--insecure", server.insecure,
               "plain TCP also for other machines: everybody there can use this worker");
  app.add_option(
      "--token-file", arguments.token_file,
      "file with words of which a host must know one, a line each: WORD, or USER:WORD, which proves "
      "that it\nworks for that user; for meshes that do TLS themselves");
  app.add_flag("--proven-users", server.proven_users,
               "refuse hosts that do not prove for which user they work, by a certificate with the URI\n"
               "carya:user:NAME, or by a word of --token-file");
  app.add_option("--max-weight", server.user_weight_max,
                 "that the jobs of one user count together beside those of others; 1: users have equal parts "
                 "(default: "
                 "as\nmuch as their hosts say); with --proven-users")
      ->check(CLI::Range(0.001, 1e6));
  app.add_option("--threads", arguments.threads, "that compute (0, the default: all allowed cores)")
      ->check(CLI::Range(0U, 1024U));
  app.add_option("--max-connections", server.connections_max, "hosts at a time (default 64)")
      ->check(CLI::Range(1U, 4096U));
  app.add_option("--memory", arguments.memory,
                 "for chunks and results: a size (8GiB) or a share of this machine's (default 25%)");
  app.add_option(
      "--root", arguments.roots,
      "folder whose files this worker reads itself where a host's data set lies in it; HOST=FOLDER\n"
      "where hosts see it as HOST (may be repeated; default: hosts send all records)");
  app.add_option("--op", arguments.ops,
                 "a library of an operation of your own (carya.op), whose code runs here; may be repeated");
  app.add_option("--max-megapixels", arguments.megapixels,
                 "of a picture; larger ones are left to the host (default: 178.9)")
      ->check(CLI::Range(0.001, 178.9));
  app.add_option("--max-seconds", arguments.chunk_s, "for one chunk (default 60)")
      ->check(CLI::Range(0.1, 3600.0));
  app.add_option("--max-silence", arguments.silent_s,
                 "seconds without a byte until a host counts as dead (default 3)")
      ->check(CLI::Range(1.0, 3600.0));
  app.add_option("--grace", arguments.grace_s,
                 "seconds after SIGTERM until what is not done is given back to its hosts (default 25)")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("--metrics", arguments.metrics,
                 "serve /metrics for Prometheus, /healthz and /readyz at this port of the loopback\n"
                 "(127.0.0.1:9466) or path of a socket; docs/metrics.md");
  app.add_option("--log-level", arguments.log_level,
                 "what is logged: debug, info (default), warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  app.set_version_flag("--version", "carya-worker " CARYA_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // the library's way to say also --help
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  if (const Status completed = complete(arguments); !completed) return failed(completed.error());
  return serve(arguments);
}
