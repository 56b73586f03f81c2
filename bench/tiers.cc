// Question: what does a tier of files for kept samples give and cost?
// Ceilings, measured in the same run: fio with random reads of the same size, as many at the same time and on the same
// file system (cold: nothing of it in the page cache; past it: with O_DIRECT; warm: all of it), and one bare pwrite per
// sample. Each of fio's threads reads a part of the file that is its own: in one that they share, a third of what they
// read "cold" had been read by another just before. Look-ups in ns; the CPU time that an offered sample costs the thread
// that made it, and the tier's own thread; CPU time of the threads that read. Medians of rounds, tier and fio in turns.
// Own flags: --samples N, --bytes N, --rounds N, --dir DIR. Without fio its column is 0.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/checked.h"
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

enum class Mode : std::uint8_t { kCold, kPast, kWarm };

struct Reading {
  double rate = 0;        // bytes per second
  double cpu_per_gb = 0;  // seconds of the threads that read
};

std::shared_ptr<FileTier> open_tier(const Setup& setup, Mode mode = Mode::kCold) {
  auto tier = FileTier::open({.folder = setup.dir + "/tier",
                              .capacity_bytes = 2 * setup.all() + (64 << 20),
                              .place = {1, 2},
                              .about = "{}",
                              .records = setup.samples,
                              .page_cache_bytes = mode == Mode::kPast ? 0 : UINT64_MAX});
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

/// Of records whose files are as they were listed.
std::shared_ptr<const RecordFacts> facts() {
  const auto yes = [](std::uint64_t) { return true; };
  return std::make_shared<const RecordFacts>(RecordFacts{.may_take = yes, .may_keep = yes});
}

Filling fill(const Setup& setup) {
  const auto tier = open_tier(setup);
  const auto yes = facts();
  const auto payload = std::make_shared<std::vector<std::byte>>(setup.bytes, std::byte{7});
  std::int64_t offer_ns = 0;
  for (std::uint64_t n = 0; n < setup.samples; ++n) {
    // What finds no room in the queue is dropped, until the next epoch offers it again.
    while (!tier->room(setup.bytes)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::int64_t begin_ns = thread_cpu_ns();
    tier->offer({.source = n, .identity = identity(n), .owner = payload, .bytes = *payload, .facts = yes});
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

/// All samples in a drawn order, kAhead at a time.
Reading read_all(const Setup& setup, FileTier& tier, std::uint64_t seed) {
  const auto yes = facts();
  const auto bell = must(FetchBell::create());
  const Permutation order(seed, 0, setup.samples);
  std::vector<std::shared_ptr<std::vector<std::byte>>> memory;
  for (std::size_t i = 0; i < kAhead; ++i)
    memory.push_back(std::make_shared<std::vector<std::byte>>(setup.bytes));
  std::deque<std::shared_ptr<FetchGroup>> asked;
  const double before_s = tier.stats().read_cpu_s;
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
                  .facts = yes});
    }
  });
  const auto all = static_cast<double>(setup.all());
  return {all / taken, (tier.stats().read_cpu_s - before_s) * 1e9 / all};
}

/// fio's random reads of a file of this size; of nothing where there is no fio.
Reading fio(const Setup& setup, Mode mode) {
  const std::size_t jobs = std::min<std::size_t>(FileTier::kReaders, setup.samples);
  // O_DIRECT reads whole blocks.
  const std::uint64_t bytes = mode == Mode::kPast ? align_up<std::uint64_t>(setup.bytes, 4096) : setup.bytes;
  const std::uint64_t part = setup.all() / jobs / bytes * bytes;
  std::ostringstream command;
  command << "fio --name=reads --filename=" << setup.dir << "/bare --rw=randread --bs=" << bytes
          << " --size=" << part << " --offset_increment=" << part << " --ioengine=psync --numjobs=" << jobs
          << " --direct=" << (mode == Mode::kPast) << " --invalidate=" << (mode != Mode::kWarm)
          << " --fadvise_hint=0 --thread --group_reporting --readonly --output-format=json 2>/dev/null";
  FILE* const output = ::popen(command.str().c_str(), "r");
  std::string text;
  char more[512];
  while (output != nullptr && std::fgets(more, sizeof more, output) != nullptr) text += more;
  if (output != nullptr) ::pclose(output);
  const std::size_t begin = text.find('{');  // notes may stand before it
  if (begin == std::string::npos) return {};
  const auto job = nlohmann::json::parse(text.substr(begin)).at("jobs").at(0);
  const double share = (job.at("usr_cpu").get<double>() + job.at("sys_cpu").get<double>()) / 100;
  return {job.at("read").at("bw_bytes").get<double>(),
          share * job.at("job_runtime").get<double>() * 1e6 / job.at("read").at("io_bytes").get<double>()};
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
  auto tier = open_tier(setup);
  std::printf("%llu samples of %zu B, %zu reads at a time, %zu ahead\n",
              static_cast<unsigned long long>(setup.samples), setup.bytes, FileTier::kReaders, kAhead);
  std::printf("look-up: %.0f ns in files, %.0f ns in memory (at most 1,000)\n",
              look_up(setup, [&](std::uint64_t n) { return static_cast<bool>(tier->find(identity(n))); }),
              look_up_in_memory(setup));
  std::printf("a sample written: %.2f us CPU of who made it, %.1f of the tier, %.1f of a bare pwrite\n",
              filled.offer_us, filled.own_us, filled.bare_us);
  tier.reset();
  for (const auto& [mode, name] :
       {std::pair{Mode::kCold, "cold"}, {Mode::kPast, "cold, past the page cache"}, {Mode::kWarm, "warm"}}) {
    std::vector<double> tiers, fios, shares, tier_cpus, fio_cpus;
    const auto opened = open_tier(setup, mode);
    for (std::size_t round = 0; round < setup.rounds; ++round) {
      if (mode != Mode::kWarm) forget_tier(setup);
      Reading beside = round % 2 == 0 ? fio(setup, mode) : Reading();
      const Reading own = read_all(setup, *opened, round);
      if (round % 2 != 0) beside = fio(setup, mode);
      tiers.push_back(own.rate);
      tier_cpus.push_back(own.cpu_per_gb);
      fios.push_back(beside.rate);
      fio_cpus.push_back(beside.cpu_per_gb);
      if (beside.rate > 0) shares.push_back(own.rate / beside.rate);
    }
    std::printf(
        "%s: tier %.0f MB/s, fio %.0f MB/s, %.2f of it (at least 0.90), spread %.0f %%; CPU s/GB %.2f, fio "
        "%.2f\n",
        name, bench::median(tiers) * 1e-6, bench::median(fios) * 1e-6,
        shares.empty() ? 0 : bench::median(shares), 100 * bench::spread(tiers), bench::median(tier_cpus),
        bench::median(fio_cpus));
  }
  std::filesystem::remove_all(setup.dir);
  return 0;
}
