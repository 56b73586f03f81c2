// Question: what does reading ranges of objects cost beside libcurl alone?
// nginx on this machine's loopback serves one file; ranges of it are read in a drawn order, with as many requests under
// way on both sides. Ceiling: a loop of libcurl's multi handle that copies each body once and checks nothing. Counters
// are CPU ns per read of this process, not of nginx. Own flags: --requests, --bytes (of the file). Needs nginx.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "bench/pairs.h"
#include "bench/program.h"
#include "io/http/curl_library.h"
#include "io/http/http_engine.h"
#include "io/http/store_client.h"

namespace {

using namespace carya;
namespace fs = std::filesystem;

double cpu_now_ns() {
  timespec now;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int free_port() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  CHECK(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
  CHECK(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
  return ntohs(address.sin_port);
}

bool listens(int port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  const sockaddr_in address = loopback(port);
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

/// nginx over a folder with the file "data", by http and https with a certificate of its own.
class Nginx {
 public:
  explicit Nginx(std::uint64_t bytes) {
    char pattern[] = "/tmp/carya-bench-XXXXXX";
    CHECK(::mkdtemp(pattern) != nullptr);
    folder_ = pattern;
    std::ofstream data(folder_ + "/data", std::ios::binary);
    std::mt19937_64 random(1);
    for (std::uint64_t at = 0; at < bytes; at += 8) {
      const std::uint64_t word = random();
      data.write(reinterpret_cast<const char*>(&word), 8);
    }
    const std::string make =
        "cd " + folder_ +
        " && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "
        "/CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out ca.pem 2>/dev/null";
    CHECK(std::system(make.c_str()) == 0);
    ::setenv("CURL_CA_BUNDLE", (folder_ + "/ca.pem").c_str(), 1);
    std::ofstream(folder_ + "/nginx.conf")
        << "daemon off; master_process off; pid " << folder_ << "/pid; error_log " << folder_
        << "/log; events { worker_connections 512; } http { access_log off; sendfile on; keepalive_requests "
           "10000000;\n"
        << "client_body_temp_path " << folder_ << "/b; proxy_temp_path " << folder_
        << "/p; fastcgi_temp_path " << folder_ << "/f; uwsgi_temp_path " << folder_ << "/u; scgi_temp_path "
        << folder_ << "/s;\nserver { listen 127.0.0.1:" << plain_ << "; listen 127.0.0.1:" << tls_
        << " ssl; ssl_protocols TLSv1.3; ssl_certificate ca.pem; ssl_certificate_key key.pem; root "
        << folder_ << "; } }\n";
    const std::string configuration = folder_ + "/nginx.conf";
    child_ = ::fork();
    if (child_ == 0) {
      ::execlp("nginx", "nginx", "-p", folder_.c_str(), "-c", configuration.c_str(), nullptr);
      ::execl("/usr/sbin/nginx", "nginx", "-p", folder_.c_str(), "-c", configuration.c_str(), nullptr);
      ::execl("build/nginx/usr/sbin/nginx", "nginx", "-p", folder_.c_str(), "-c", configuration.c_str(),
              nullptr);
      ::_exit(127);
    }
    for (int i = 0; i < 200 && !listens(plain_); ++i) {
      if (::waitpid(child_, nullptr, WNOHANG) != 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    runs_ = listens(plain_);
  }
  ~Nginx() {
    if (runs_) ::kill(child_, SIGKILL), ::waitpid(child_, nullptr, 0);
    fs::remove_all(folder_);
  }
  Nginx(const Nginx&) = delete;
  Nginx& operator=(const Nginx&) = delete;

  bool runs() const { return runs_; }
  std::string url(bool tls) const {
    return tls ? "https://127.0.0.1:" + std::to_string(tls_) : "http://127.0.0.1:" + std::to_string(plain_);
  }
  std::string authority() const { return folder_ + "/ca.pem"; }

 private:
  std::string folder_;
  const int plain_ = free_port(), tls_ = free_port();
  pid_t child_ = -1;
  bool runs_ = false;
};

struct Work {
  std::string url;  // of the folder
  std::string authority;
  std::uint64_t object_bytes = 0;
  std::uint64_t range_bytes = 0;
  std::vector<std::uint64_t> offsets;
  std::uint32_t requests = 16;
};

constexpr std::uint32_t kDepth = 64;  // reads that a loader has asked for, each with memory of its own

struct Body {
  std::byte* memory = nullptr;
  std::uint64_t filled = 0;
  curl_slist* headers = nullptr;
};

std::size_t copy_body(char* bytes, std::size_t size, std::size_t count, void* into) {
  Body& body = *static_cast<Body*>(into);
  std::memcpy(body.memory + body.filled, bytes, size * count);
  body.filled += size * count;
  return size * count;
}

/// libcurl's multi handle and nothing else; connections are kept from one round to the next, as ours are.
class Bare {
 public:
  explicit Bare(const Work& work)
      : curl_(*bench::must(io::curl_library())),
        work_(work),
        bodies_(work.requests),
        multi_(curl_.multi_init()) {
    for (auto& memory : memory_) memory = std::make_unique<std::byte[]>(work.range_bytes);
    for (Body& body : bodies_) {
      CURL* const easy = curl_.easy_init();
      curl_.easy_setopt(easy, CURLOPT_URL, (work.url + "/data").c_str());
      curl_.easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
      curl_.easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10);
      curl_.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
      curl_.easy_setopt(easy, CURLOPT_CAINFO, work.authority.c_str());
      curl_.easy_setopt(easy, CURLOPT_WRITEFUNCTION, &copy_body);
      curl_.easy_setopt(easy, CURLOPT_WRITEDATA, static_cast<void*>(&body));
      curl_.easy_setopt(easy, CURLOPT_PRIVATE, static_cast<void*>(&body));
      easy_.push_back(easy);
    }
  }
  ~Bare() {
    for (CURL* easy : easy_) curl_.easy_cleanup(easy);
    curl_.multi_cleanup(multi_);
  }
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;

  double run() {
    const double start = cpu_now_ns();
    next_ = 0;
    for (CURL* easy : easy_) begin(easy);
    int running = 1;
    while (running > 0) {
      curl_.multi_perform(multi_, &running);
      int left = 0;
      while (CURLMsg* const message = curl_.multi_info_read(multi_, &left)) {
        CHECK(message->data.result == CURLE_OK);
        CURL* const easy = message->easy_handle;
        Body* body = nullptr;
        curl_.easy_getinfo(easy, CURLINFO_PRIVATE, &body);
        CHECK(body->filled == work_.range_bytes);
        curl_.multi_remove_handle(multi_, easy);
        if (next_ < work_.offsets.size()) begin(easy), running = 1;
      }
      if (running > 0) curl_.multi_poll(multi_, nullptr, 0, 1000, nullptr);
    }
    return (cpu_now_ns() - start) / static_cast<double>(work_.offsets.size());
  }

 private:
  void begin(CURL* easy) {
    if (next_ == work_.offsets.size()) return;
    const std::uint64_t offset = work_.offsets[next_++];
    const std::string range = std::to_string(offset) + "-" + std::to_string(offset + work_.range_bytes - 1);
    Body* body = nullptr;
    curl_.easy_getinfo(easy, CURLINFO_PRIVATE, &body);
    body->filled = 0;
    body->memory = memory_[next_ % kDepth].get();  // as cold in the caches as ours
    curl_.easy_setopt(easy, CURLOPT_RANGE, range.c_str());
    curl_.multi_add_handle(multi_, easy);
  }

  const io::CurlLibrary& curl_;
  const Work& work_;
  std::vector<Body> bodies_;
  std::array<std::unique_ptr<std::byte[]>, kDepth> memory_;
  std::vector<CURL*> easy_;
  CURLM* const multi_;
  std::size_t next_ = 0;
};

/// The same by the read engine, as the loader uses it.
class Ours {
 public:
  explicit Ours(const Work& work) : work_(work) {
    engine_ = io::with_stores(bench::must(io::ReadEngine::create({})), kDepth,
                              {.limits = {}, .requests_max = work.requests});
    object_ = bench::must(bench::must(io::StoreClient::shared())->look_up(work.url + "/data"));
    root_ = bench::must(engine_->add_root(work.url));
    CHECK(object_.bytes == work.object_bytes);
    for (std::uint32_t i = 0; i < engine_->room(); ++i)
      free_.push_back(std::make_unique<std::byte[]>(work.range_bytes + 1));
  }

  double run() {
    const double start = cpu_now_ns();
    std::size_t next = 0, done = 0;
    std::vector<std::unique_ptr<std::byte[]>*> idle;
    for (auto& memory : free_) idle.push_back(&memory);
    std::vector<io::ReadRequest> requests;
    std::array<io::ReadCompletion, 64> completions;
    while (done < work_.offsets.size()) {
      requests.clear();
      while (next < work_.offsets.size() && !idle.empty() && requests.size() < engine_->room()) {
        requests.push_back({.token = reinterpret_cast<std::uint64_t>(idle.back()),
                            .root = root_,
                            .path = "data",
                            .offset = work_.offsets[next++],
                            .length = work_.range_bytes,
                            .dest = idle.back()->get(),
                            .pin = object_.pin.c_str(),
                            .object_bytes = object_.bytes});
        idle.pop_back();
      }
      engine_->submit(requests);
      const std::size_t count = engine_->poll(completions, 1000);
      for (std::size_t i = 0; i < count; ++i) {
        CHECK(completions[i].ok);
        idle.push_back(reinterpret_cast<std::unique_ptr<std::byte[]>*>(completions[i].token));
      }
      done += count;
    }
    return (cpu_now_ns() - start) / static_cast<double>(work_.offsets.size());
  }

 private:
  const Work& work_;
  std::unique_ptr<io::ReadEngine> engine_;
  int root_ = -1;
  io::StoreObject object_;
  std::vector<std::unique_ptr<std::byte[]>> free_;
};

void ranges(benchmark::State& state, const Work& work) {
  Bare bare(work);
  Ours ours(work);
  bare.run();
  ours.run();
  bench::run_in_turns(state, {{"bare", [&] { return bare.run(); }}, {"ours", [&] { return ours.run(); }}});
  state.counters["ours_bytes_per_cpu_s"] =
      static_cast<double>(work.range_bytes) / (state.counters["ours"] * 1e-9);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Program program(argc, argv);
  const std::uint64_t bytes =
      program.count("--bytes", program.smoke() ? 4 << 20 : 256 << 20) & ~std::uint64_t{7};
  const auto requests = static_cast<std::uint32_t>(program.count("--requests", 16));
  const Nginx nginx(bytes);
  if (!nginx.runs()) {
    std::puts("no nginx here: Debian's package nginx has it");
    return 0;
  }
  std::vector<std::unique_ptr<Work>> works;
  for (const bool tls : {false, true}) {
    for (const std::uint64_t range : {64u << 10, 110'000u, 1u << 20}) {
      auto work = std::make_unique<Work>();
      *work = {nginx.url(tls), nginx.authority(), bytes, range, {}, requests};
      std::mt19937_64 random(7);
      const std::uint64_t count = program.smoke() ? 32 : std::max<std::uint64_t>((128 << 20) / range, 64);
      for (std::uint64_t i = 0; i < count; ++i) work->offsets.push_back(random() % (bytes - range));
      const std::string name =
          std::string("ranges/") + (tls ? "tls" : "plain") + "/bytes:" + std::to_string(range);
      benchmark::RegisterBenchmark(name.c_str(), [&w = *work](benchmark::State& state) { ranges(state, w); })
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
      works.push_back(std::move(work));
    }
  }
  return program.run();
}
