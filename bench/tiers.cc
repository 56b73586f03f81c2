// Question: what does a tier of files for kept samples give and cost?
// Ceilings, measured in the same run: fio with random reads of the same size, as many at the same time and on the same
// file system (cold: nothing of it in the page cache; warm: all of it), and one bare pwrite per sample. Look-ups in ns;
// the CPU time that an offered sample costs the thread that made it, and the tier's own thread. Medians of rounds. Own
// flags: --samples N, --bytes N, --rounds N, --dir DIR. Without fio its column is 0.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/permutation.h"
#include "base/unique_fd.h"
#include "bench/median.h"
#include "bench/program.h"
#include "io/segments/segment_folder.h"
#include "loader/cache/file_tier.h"
#include "loader/cache/sample_cache.h"

namespace {

using namespace carya;
using namespace carya::loader;
using bench::must;

struct Setup {
  std::uint64_t samples = 4000;
  std::size_t bytes = 150'000;
  std::size_t rounds = 5;
  std::string dir = "bench_tiers_data";
  std::uint64_t all() const { return samples * bytes; }
};

/// As many as a stream of 32 samples a batch asks for ahead.
constexpr std::size_t kAhead = 32;

Hash128 identity(std::uint64_t sample) {
  return {sample * 0x9E3779B97F4A7C15 + 1, ~sample};
}

double seconds(const std::function<void()>& work) {
  const std::int64_t begin_ns = monotonic_ns();
  work();
  return static_cast<double>(monotonic_ns() - begin_ns) * 1e-9;
}

std::shared_ptr<FileTier> open_tier(const Setup& setup) {
  auto tier = FileTier::open({.folder = setup.dir + "/tier",
                              .capacity_bytes = 2 * setup.all() + (64 << 20),
                              .place = {1, 2},
                              .about = "{}",
                              .records = setup.samples});
  while (!tier->stats().is_open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return tier;
}

/// Nothing of the file is in the page cache from now on.
void forget(const std::filesystem::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ::fdatasync(fd.get());
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
}
void forget_tier(const Setup& setup) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(setup.dir + "/tier"))
    if (entry.is_regular_file()) forget(entry.path());
}

struct Filling {
  double offer_us = 0, own_us = 0, bare_us = 0;  // CPU of a sample: who made it, the tier, one pwrite
};

Filling fill(const Setup& setup) {
  const auto tier = open_tier(setup);
  const auto yes = std::make_shared<const RecordCheck>([](std::uint64_t) { return true; });
  const auto payload = std::make_shared<std::vector<std::byte>>(setup.bytes, std::byte{7});
  std::int64_t offer_ns = 0;
  for (std::uint64_t n = 0; n < setup.samples; ++n) {
    // What finds no room in the queue is dropped, until the next epoch offers it again.
    while (!tier->room(setup.bytes)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::int64_t begin_ns = thread_cpu_ns();
    tier->offer({.source = n, .identity = identity(n), .owner = payload, .bytes = *payload, .check = yes});
    offer_ns += thread_cpu_ns() - begin_ns;
  }
  while (tier->stats().store.written < setup.samples)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const UniqueFd fd(::open((setup.dir + "/bare").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  const std::int64_t begin_ns = thread_cpu_ns();
  for (std::uint64_t n = 0; n < setup.samples; ++n)
    if (::pwrite(fd.get(), payload->data(), setup.bytes, static_cast<off_t>(n * setup.bytes)) < 0)
      std::exit(1);
  const auto each = static_cast<double>(setup.samples) * 1e3;
  return {static_cast<double>(offer_ns) / each, tier->stats().write_cpu_s * 1e9 / each,
          static_cast<double>(thread_cpu_ns() - begin_ns) / each};
}

/// All samples in a drawn order, kAhead at a time. Gives bytes per second.
double read_all(const Setup& setup, FileTier& tier, std::uint64_t seed) {
  const auto yes = std::make_shared<const RecordCheck>([](std::uint64_t) { return true; });
  const auto bell = must(FetchBell::create());
  const Permutation order(seed, 0, setup.samples);
  std::vector<std::shared_ptr<std::vector<std::byte>>> memory;
  for (std::size_t i = 0; i < kAhead; ++i)
    memory.push_back(std::make_shared<std::vector<std::byte>>(setup.bytes));
  std::deque<std::shared_ptr<FetchGroup>> asked;
  const double taken = seconds([&] {
    for (std::uint64_t n = 0; n < setup.samples + kAhead; ++n) {
      while (asked.size() == kAhead || (n >= setup.samples && !asked.empty())) {
        if (asked.front()->is_settled()) {
          if (!asked.front()->is_there(0)) std::exit(1);
          asked.pop_front();
          break;
        }
        pollfd waits{.fd = bell->fd(), .events = POLLIN, .revents = 0};
        ::poll(&waits, 1, 100);
        bell->quiet();
      }
      if (n >= setup.samples) continue;
      const auto& into = memory[n % kAhead];
      asked.push_back(std::make_shared<FetchGroup>(1, bell));
      tier.fetch({.source = order(n),
                  .entry = tier.find(identity(order(n))),
                  .dest = into->data(),
                  .lent = into,
                  .group = asked.back(),
                  .check = yes});
    }
  });
  return static_cast<double>(setup.all()) / taken;
}

/// Bytes per second of fio's random reads of a file of this size; 0: there is no fio.
double fio(const Setup& setup, bool cold) {
  std::ostringstream command;
  command << "fio --name=reads --filename=" << setup.dir << "/bare --rw=randread --bs=" << setup.bytes
          << " --filesize=" << setup.all() << " --io_size=" << setup.all() / FileTier::kReaders
          << " --ioengine=psync --numjobs=" << FileTier::kReaders
          << " --thread --group_reporting --readonly --invalidate=" << (cold ? 1 : 0)
          << " --output-format=terse --terse-version=3 2>/dev/null";
  FILE* const output = ::popen(command.str().c_str(), "r");
  std::string line;
  char part[512];
  while (output != nullptr && std::fgets(part, sizeof part, output) != nullptr) line += part;
  if (output != nullptr) ::pclose(output);
  std::istringstream fields(line);
  std::string field;
  for (int i = 0; i <= 6; ++i)  // the seventh is KiB per second of reads
    if (!std::getline(fields, field, ';')) return 0;
  return std::strtod(field.c_str(), nullptr) * 1024;
}

/// ns of a look-up in a drawn order.
template <typename Find>
double look_up(const Setup& setup, const Find& find) {
  const Permutation order(3, 0, setup.samples);
  constexpr std::uint64_t kTimes = 400'000;
  std::uint64_t found = 0;
  const double taken = seconds([&] {
    for (std::uint64_t n = 0; n < kTimes; ++n) found += find(order(n % setup.samples)) ? 1 : 0;
  });
  if (found != kTimes) std::exit(1);
  return taken * 1e9 / static_cast<double>(kTimes);
}

double look_up_in_memory(const Setup& setup) {
  SampleCache cache(
      {.records = setup.samples, .capacity_bytes = 512 << 20, .available_bytes = [] { return UINT64_MAX; }});
  for (std::uint64_t n = 0; n < setup.samples; ++n)
    if (cache.reserve(n, 1000) != nullptr) cache.publish(n, 1000);
  return look_up(setup, [&](std::uint64_t n) { return static_cast<bool>(cache.find(n)); });
}

}  // namespace

int main(int argc, char** argv) {
  bench::Program program(argc, argv);
  Setup setup{.dir = program.text("--dir", "bench_tiers_data")};
  setup.samples = program.count("--samples", program.smoke() ? 100 : 4000);
  setup.bytes = program.count("--bytes", 150'000);
  setup.rounds = program.count("--rounds", program.smoke() ? 1 : 5);
  std::filesystem::remove_all(setup.dir);
  std::filesystem::create_directories(setup.dir);
  const Filling filled = fill(setup);
  const auto tier = open_tier(setup);
  std::printf("%llu samples of %zu B, %zu reads at a time, %zu ahead\n",
              static_cast<unsigned long long>(setup.samples), setup.bytes, FileTier::kReaders, kAhead);
  std::printf("look-up: %.0f ns in files, %.0f ns in memory (at most 1,000)\n",
              look_up(setup, [&](std::uint64_t n) { return static_cast<bool>(tier->find(identity(n))); }),
              look_up_in_memory(setup));
  std::printf("a sample written: %.2f us CPU of who made it, %.1f of the tier, %.1f of a bare pwrite\n",
              filled.offer_us, filled.own_us, filled.bare_us);
  for (const bool cold : {true, false}) {
    std::vector<double> tiers, fios, shares;
    for (std::size_t round = 0; round < setup.rounds; ++round) {
      if (cold) forget_tier(setup);
      tiers.push_back(read_all(setup, *tier, round));
      fios.push_back(fio(setup, cold));
      if (fios.back() > 0) shares.push_back(tiers.back() / fios.back());
    }
    std::printf("%s: tier %.0f MB/s, fio %.0f MB/s, %.2f of it (at least 0.90), spread %.0f %%\n",
                cold ? "cold" : "warm", bench::median(tiers) * 1e-6, bench::median(fios) * 1e-6,
                bench::median(shares), 100 * bench::spread(tiers));
  }
  std::filesystem::remove_all(setup.dir);
  return 0;
}
