// Question: how fast do results of a worker arrive in the host's memory, and what does the host pay per byte?
// Ceiling: a bare loop of recv(), and one of SSL_read() with OpenSSL's defaults, from a bare sender on the
// same path, in turns. Bar: plain >= 0.9 and TLS >= 0.85 of the bare loop's bytes per second, <= 1.25 of its
// CPU time per byte.
//
// Each round runs both sides in turns; counters are GB/s, and the host's CPU ns per KB. The worker is a process
// of its own. Own flags: --seconds S, --rounds N, --bytes B, --ahead K, and for two machines or namespaces
//   bench_remote --serve HOST:PORT --ca DIR            only the worker, at PORT to PORT + 3
//   bench_remote --worker HOST:PORT --ca DIR [...]     only the host
//   bench_remote --worker HOST:PORT --ca DIR --side K  one run of one side, one JSON line: 0 bare, 1 ours, 2 and 3
//                                                      with TLS
// DIR is what tools/test_ca.sh makes.

#include <fcntl.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "bench/pairs.h"
#include "bench/program.h"
#include "remote/pool/pool.h"
#include "remote/protocol/address.h"
#include "remote/server/server.h"

namespace {

using namespace carya;
using namespace carya::remote;
using bench::must;

struct Settings {
  double seconds = 1;
  std::size_t rounds = 5;
  std::size_t bytes = 1 << 20;
  std::size_t ahead = 8;  // results on their way, each into a slot of the host
  std::string host = "127.0.0.1";
  int port = 0;
  std::string ca;
};

/// Memory for results as a ring's slots have it: huge pages where the kernel gives them, touched.
class Slots {
 public:
  explicit Slots(const Settings& settings) : bytes_(settings.bytes) {
    for (std::size_t i = 0; i < settings.ahead; ++i) {
      const std::size_t room = (bytes_ + kHuge - 1) / kHuge * kHuge;
      slots_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(kHuge, room)), &std::free);
      madvise(slots_[i].get(), room, MADV_HUGEPAGE);
      std::memset(slots_[i].get(), 0, room);
    }
  }
  std::span<std::byte> operator[](std::size_t i) const { return {slots_[i % slots_.size()].get(), bytes_}; }

 private:
  static constexpr std::size_t kHuge = 2 << 20;
  std::size_t bytes_;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> slots_;
};

TlsFiles files_of(const std::string& ca, const std::string& who) {
  return {ca + "/" + who + ".pem", ca + "/" + who + ".key", ca + "/ca.pem"};
}

// The worker: ours at port and port + 1 (TLS), bare senders at port + 2 and port + 3 (TLS).

struct FromMemory : ChunkHandler {
  explicit FromMemory(const std::vector<std::byte>& bytes) : memory(bytes) {}
  Result<std::vector<Fact>> admit(std::uint64_t, const Hello&, const ClientUser&) override {
    return std::vector<Fact>{};
  }
  void register_plan(Asked asked) override { server->answer(asked.ticket, Answer{}); }
  void compute(Asked asked) override {
    server->answer(asked.ticket, Answer{"", {{std::span(memory).first(asked.result_bytes)}, nullptr}});
  }
  void forget_plan(std::uint64_t, std::uint64_t) override {}
  void gone(std::uint64_t, const std::string&, const Error&) override {}
  const std::vector<std::byte>& memory;
  ChunkServer* server = nullptr;
};

SSL_CTX* bare_context(const std::string& ca, const char* who) {
  SSL_CTX* const context = SSL_CTX_new(TLS_method());
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  const TlsFiles files = files_of(ca, who);
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1)
    must<int>(fail(Code::kNotFound, "certificates in " + ca));
  return context;
}

UniqueFd blocking(UniqueFd socket) {
  fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK);
  return socket;
}

/// Sends the same memory for as long as somebody takes it.
void send_bare(UniqueFd listener, const std::vector<std::byte>& memory, SSL_CTX* context) {
  for (;;) {
    const UniqueFd socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;
    if (context == nullptr) {
      while (send(socket.get(), memory.data(), memory.size(), MSG_NOSIGNAL) > 0) {
      }
      continue;
    }
    SSL* const ssl = SSL_new(context);
    SSL_set_fd(ssl, socket.get());
    if (SSL_accept(ssl) == 1)
      while (SSL_write(ssl, memory.data(), static_cast<int>(memory.size())) > 0) {
      }
    SSL_free(ssl);
  }
}

[[noreturn]] void serve(const Settings& settings, int ports_out) {
  signal(SIGPIPE, SIG_IGN);  // OpenSSL's own socket raises it
  const std::vector<std::byte> memory(std::max<std::size_t>(settings.bytes, 16 << 20));
  std::array<int, 4> ports{};
  const auto at = [&](int nth) {
    return settings.host + ":" + std::to_string(settings.port == 0 ? 0 : settings.port + nth);
  };
  std::array<FromMemory, 2> handlers{FromMemory(memory), FromMemory(memory)};
  std::vector<std::unique_ptr<ChunkServer>> servers;
  std::vector<std::thread> threads;
  for (int tls = 0; tls < 2; ++tls) {
    ServerOptions options{.listen = at(tls), .insecure = true};
    if (tls == 1) options.tls = files_of(settings.ca, "server");
    servers.push_back(must(ChunkServer::create(options, handlers[tls])));
    handlers[tls].server = servers[tls].get();
    ports[tls] = servers[tls]->port();
    threads.emplace_back([&servers, tls] { servers[tls]->run(); });
  }
  for (int tls = 0; tls < 2; ++tls) {
    UniqueFd listener = blocking(must(must(Address::resolve(at(2 + tls))).listen()));
    ports[2 + tls] = listening_port(listener.get());
    SSL_CTX* const context = tls == 1 ? bare_context(settings.ca, "server") : nullptr;
    threads.emplace_back([&memory, context, owned = std::move(listener)]() mutable {
      send_bare(std::move(owned), memory, context);
    });
  }
  if (ports_out >= 0 && write(ports_out, ports.data(), sizeof(ports)) != sizeof(ports)) std::exit(1);
  for (std::thread& thread : threads) thread.join();
  std::exit(0);
}

// The host.

struct Measured {
  double bytes_per_s = 0;
  double cpu_ns_per_byte = 0;
};

std::int64_t process_cpu_ns() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto ns = [](const timeval& time) { return time.tv_sec * 1'000'000'000LL + time.tv_usec * 1000LL; };
  return ns(used.ru_utime) + ns(used.ru_stime);
}

/// Of `bytes` so far, between now and `seconds` later; `step` goes on receiving, or waits.
Measured measure(double seconds, const std::function<void()>& step,
                 const std::function<std::uint64_t()>& bytes) {
  const auto run = [&](double length_s) {
    const std::int64_t end = monotonic_ns() + static_cast<std::int64_t>(length_s * 1e9);
    while (monotonic_ns() < end) step();
  };
  run(seconds / 5);  // the windows of TCP grow
  const std::int64_t start_ns = monotonic_ns(), start_cpu = process_cpu_ns();
  const std::uint64_t start = bytes();
  run(seconds);
  const auto got = static_cast<double>(std::max<std::uint64_t>(1, bytes() - start));
  return {got * 1e9 / static_cast<double>(monotonic_ns() - start_ns),
          static_cast<double>(process_cpu_ns() - start_cpu) / got};
}

Measured bare(const Settings& settings, int port, bool tls) {
  UniqueFd socket = must(must(Address::resolve(settings.host + ":" + std::to_string(port))).connect(0));
  pollfd connecting{socket.get(), POLLOUT, 0};
  poll(&connecting, 1, 10'000);
  socket = blocking(std::move(socket));
  const Slots slots(settings);
  std::uint64_t all = 0;
  SSL* ssl = nullptr;
  if (tls) {
    static SSL_CTX* const context = bare_context(settings.ca, "client");
    ssl = SSL_new(context);
    SSL_set_fd(ssl, socket.get());
    if (SSL_connect(ssl) != 1) must<int>(fail(Code::kIo, "bare TLS: no handshake"));
  }
  const auto step = [&] {
    const std::size_t at = all % settings.bytes;
    std::byte* const to = slots[all / settings.bytes].data() + at;
    const std::size_t room = settings.bytes - at;
    const ssize_t got =
        ssl != nullptr ? SSL_read(ssl, to, static_cast<int>(room)) : recv(socket.get(), to, room, 0);
    if (got <= 0) must<int>(fail(Code::kIo, "the bare sender has ended"));
    all += static_cast<std::uint64_t>(got);
  };
  const Measured out = measure(settings.seconds, step, [&] { return all; });
  SSL_free(ssl);
  return out;
}

/// Asks for the next result as soon as one is there: the request's slot is its number.
struct Host : PoolEvents {
  Host(const Settings& given, WorkerPool*& made) : settings(given), pool(made), slots(given) {}
  Status admit(std::uint64_t, const Welcome&) override { return {}; }
  void down(std::uint64_t, const Error& reason, bool) override {
    if (!stopping) must<int>(std::unexpected(reason));
  }
  void registered(std::uint64_t member, std::uint64_t, Result<std::string> about) override {
    must(std::move(about));
    worker = member;
    for (std::size_t i = 0; i < settings.ahead; ++i) ask();
  }
  void room(std::uint64_t) override {}
  ReceiveTarget place(std::uint64_t request, const std::string&, std::uint64_t) override {
    return {ReceiveTarget::Where::kParts, {slots[request]}};
  }
  void done(std::uint64_t, const std::string&, bool placed) override {
    if (!placed) must<int>(fail(Code::kIo, "a result without its place"));
    all.fetch_add(settings.bytes, std::memory_order_relaxed);
    if (!stopping) ask();
  }
  void failed(std::uint64_t, const Error& error) override { must<int>(std::unexpected(error)); }
  void lost(std::uint64_t, const Error& error) override {
    if (!stopping) must<int>(std::unexpected(error));
  }
  void ask() {
    const Status sent = pool->submit(worker, {.request = ++last, .plan = 1, .result_bytes = settings.bytes});
    if (!sent) must<int>(std::unexpected(sent.error()));
  }

  const Settings& settings;
  WorkerPool*& pool;
  const Slots slots;
  std::uint64_t worker = 0, last = 0;
  std::atomic<std::uint64_t> all{0};
  std::atomic<bool> stopping{false};
};

Measured ours(const Settings& settings, int port, bool tls) {
  WorkerPool* made = nullptr;
  Host host(settings, made);
  PoolOptions options{.server_name = "localhost", .insecure = true};
  if (tls) options.tls = files_of(settings.ca, "client");
  const auto pool = must(WorkerPool::create(options, host));
  made = pool.get();
  static_cast<void>(pool->add_plan(1, "", {}));
  must(pool->add_member(settings.host + ":" + std::to_string(port)));
  std::thread thread([&] { pool->run(); });
  const auto step = [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
  while (host.all == 0) step();  // connected, as the bare loop is
  const Measured out = measure(settings.seconds, step, [&] { return host.all.load(); });
  host.stopping = true;
  pool->stop();
  thread.join();
  return out;
}

void set_address(Settings& settings, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  settings.host = text.substr(0, colon);
  settings.port = colon == std::string::npos ? 0 : std::atoi(text.c_str() + colon + 1);
}

Measured run_side(const Settings& settings, const std::array<int, 4>& ports, int side) {
  const bool tls = side >= 2;
  return side % 2 == 0 ? bare(settings, ports[2 + tls], tls) : ours(settings, ports[tls], tls);
}

/// The bare loop and ours; `tls`: both with TLS.
void results(benchmark::State& state, const Settings& settings, const std::array<int, 4>& ports, bool tls) {
  bench::Rounds rounds;
  const auto run = [&](const std::string& name, int side) {
    const Measured run = run_side(settings, ports, side + 2 * tls);
    rounds.add(name + "_gb_per_s", run.bytes_per_s / 1e9);
    rounds.add(name + "_cpu_ns_per_kb", run.cpu_ns_per_byte * 1000);
    if (side == 1) state.SetIterationTime(static_cast<double>(settings.bytes) / run.bytes_per_s);
  };
  bool bare_first = true;
  for ([[maybe_unused]] auto _ : state) {
    if (bare_first) run("bare", 0);
    run("ours", 1);
    if (!bare_first) run("bare", 0);
    bare_first = !bare_first;
  }
  rounds.report(state);
  rounds.compare(state, "ours_gb_per_s", "bare_gb_per_s");
  rounds.compare(state, "ours_cpu_ns_per_kb", "bare_cpu_ns_per_kb");
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(settings.bytes));  // of one result each
}

/// A worker in a process of its own on this machine; it ends with this one.
std::array<int, 4> start_worker(const Settings& settings) {
  int ends[2];
  if (pipe(ends) != 0) must<int>(fail_errno("pipe", errno));
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(settings, ends[1]);
  }
  close(ends[1]);
  std::array<int, 4> ports{};
  if (read(ends[0], ports.data(), sizeof(ports)) != sizeof(ports))
    must<int>(fail(Code::kIo, "the worker did not start"));
  close(ends[0]);
  return ports;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Program program(argc, argv);
  Settings settings;
  if (program.smoke()) settings.seconds = 0.05, settings.rounds = 1;
  settings.seconds = program.number("--seconds", settings.seconds);
  settings.rounds = program.count("--rounds", settings.rounds);
  settings.bytes = program.count("--bytes", settings.bytes);
  settings.ahead = program.count("--ahead", settings.ahead);
  settings.ca = program.text("--ca");
  const std::string serves = program.text("--serve"), worker = program.text("--worker");
  const std::string side = program.text("--side");
  if (!serves.empty()) {
    set_address(settings, serves);
    serve(settings, -1);
  }
  std::string folder;
  std::array<int, 4> ports{};
  if (worker.empty()) {
    folder = (std::filesystem::temp_directory_path() / "carya_bench_XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) must<int>(fail_errno("mkdtemp", errno));
    settings.ca = folder;
    if (std::system((std::string(CARYA_TEST_CA) + " " + folder + " > /dev/null").c_str()) != 0) return 1;
    ports = start_worker(settings);
  } else {
    set_address(settings, worker);
    for (int i = 0; i < 4; ++i) ports[static_cast<std::size_t>(i)] = settings.port + i;
  }
  if (!side.empty()) {
    const Measured run = run_side(settings, ports, std::clamp(std::atoi(side.c_str()), 0, 3));
    std::printf("{\"bytes_per_s\":%.0f,\"cpu_ns_per_kb\":%.1f}\n", run.bytes_per_s,
                run.cpu_ns_per_byte * 1000);
    return 0;
  }
  for (const bool tls : {false, true})
    benchmark::RegisterBenchmark(tls ? "TLS" : "plain", results, settings, ports, tls)
        ->Iterations(static_cast<std::int64_t>(settings.rounds))
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  const int ended = program.run();
  if (!folder.empty()) std::filesystem::remove_all(folder);
  return ended;
}
