// Question: what does a record store cost per entry? A loader looks up a batch of 128 decode indexes at once.
// Ceilings, measured in the same run on the same bytes: a bare pread (get), a bare memcpy (append), one bare
// pwrite per MiB (flush). The file is in the page cache; records are looked up in random order. CPU time,
// median of rounds.
//   bench_store [--entries N] [--bytes N] [--rounds N] [--dir DIR] [--smoke]
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/permutation.h"
#include "base/unique_fd.h"
#include "io/store/record_store.h"
#include "io/store/store_format.h"

namespace {

using namespace carya;

struct Setup {
  std::uint64_t entries = 100'000;
  std::size_t bytes = 600;
  int rounds = 9;
  std::string dir = "bench_store_data";
};

struct Costs {  // ns per entry
  double get, pread, append, copy, flush, write, open;
};

double per_entry(const Setup& setup, const std::function<void()>& work) {
  const std::int64_t start = thread_cpu_ns();
  work();
  return static_cast<double>(thread_cpu_ns() - start) / static_cast<double>(setup.entries);
}

template <typename T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  return std::move(*result);
}

/// One bare write per MiB of the same bytes.
void write_bare(int fd, const std::vector<std::byte>& bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += std::size_t{1} << 20) {
    const std::size_t step = std::min<std::size_t>(bytes.size() - at, std::size_t{1} << 20);
    if (::pwrite(fd, bytes.data() + at, step, static_cast<off_t>(at)) != static_cast<ssize_t>(step))
      std::exit(1);
  }
}

Costs run_round(const Setup& setup, int round) {
  const io::StoreIdentity identity{.kind = io::kDecodeIndexStore, .record_count = setup.entries};
  const std::string path = setup.dir + "/" + std::to_string(round) + ".store";
  const std::size_t span = io::entry_span(setup.bytes);
  const std::size_t total = span * setup.entries;
  const std::vector<std::byte> payload(setup.bytes, std::byte{5});
  std::vector<std::byte> out(setup.bytes), bare(total, std::byte{1});
  const Permutation order(static_cast<std::uint64_t>(round), 0, setup.entries);
  bool right = true;
  Costs costs;
  {
    auto store = must(io::RecordStore::open(path, identity, {.pending_bytes_max = total}));
    for (int warm = 0; warm < 2; ++warm) {  // both buffers have their memory in the second turn
      costs.append = per_entry(setup, [&] {
        for (std::uint64_t i = 0; i < setup.entries; ++i) right &= store->append(order(i), payload);
      });
      costs.flush = per_entry(setup, [&] { right &= store->flush().has_value(); });
    }
  }
  std::filesystem::remove(path);
  {
    auto store = must(io::RecordStore::open(path, identity, {.pending_bytes_max = total}));
    for (std::uint64_t i = 0; i < setup.entries; ++i) right &= store->append(i, payload);
    right &= store->flush().has_value();
  }
  costs.copy = per_entry(setup, [&] {
    for (std::uint64_t i = 0; i < setup.entries; ++i)
      std::memcpy(bare.data() + i * span, payload.data(), setup.bytes);
  });
  const std::string bare_path = setup.dir + "/bare";
  {
    const UniqueFd fd(::open(bare_path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644));
    costs.write = per_entry(setup, [&] { write_bare(fd.get(), bare); });
    costs.pread = per_entry(setup, [&] {
      for (std::uint64_t i = 0; i < setup.entries; ++i) {
        const auto at = static_cast<off_t>(order(i) * span);
        right &= ::pread(fd.get(), out.data(), setup.bytes, at) == static_cast<ssize_t>(setup.bytes);
      }
    });
  }
  std::unique_ptr<io::RecordStore> store;
  costs.open = per_entry(setup, [&] { store = must(io::RecordStore::open(path, identity)); });
  costs.get = per_entry(setup, [&] {
    for (std::uint64_t i = 0; i < setup.entries; ++i) right &= store->get(order(i), out) == setup.bytes;
  });
  std::filesystem::remove(path);
  std::filesystem::remove(bare_path);
  if (!right) {
    std::fprintf(stderr, "bench_store: an entry was refused or lost\n");
    std::exit(1);
  }
  return costs;
}

double median(const std::vector<Costs>& rounds, double Costs::* field) {
  std::vector<double> values;
  for (const Costs& costs : rounds) values.push_back(costs.*field);
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void report(const Setup& setup, const std::vector<Costs>& rounds) {
  const double get = median(rounds, &Costs::get), pread = median(rounds, &Costs::pread);
  const double append = median(rounds, &Costs::append), copy = median(rounds, &Costs::copy);
  const double flush = median(rounds, &Costs::flush), write = median(rounds, &Costs::write);
  const double open = median(rounds, &Costs::open);
  std::printf("%llu entries of %zu B, CPU ns per entry, median of %zu\n",
              static_cast<unsigned long long>(setup.entries), setup.bytes, rounds.size());
  std::printf("  %-8s %8s %8s  %s\n", "", "store", "bare", "ratio");
  std::printf("  %-8s %8.0f %8.0f  %.2f  (pread)\n", "get", get, pread, get / pread);
  std::printf("  %-8s %8.0f %8.0f  %.2f  (memcpy)\n", "append", append, copy, append / copy);
  std::printf("  %-8s %8.0f %8.0f  %.2f  (pwrite)\n", "flush", flush, write, flush / write);
  std::printf("  %-8s %8.0f\n", "open", open);
  std::printf(
      "{\"bench\": \"store\", \"entries\": %llu, \"bytes\": %zu, \"get_ns\": %.1f, \"pread_ns\": %.1f, "
      "\"append_ns\": %.1f, \"memcpy_ns\": %.1f, \"flush_ns\": %.1f, \"pwrite_ns\": %.1f, \"open_ns\": "
      "%.1f}\n",
      static_cast<unsigned long long>(setup.entries), setup.bytes, get, pread, append, copy, flush, write,
      open);
}

}  // namespace

int main(int argc, char** argv) {
  Setup setup;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (arg == "--entries") setup.entries = std::strtoull(value, nullptr, 10);
    if (arg == "--bytes") setup.bytes = std::strtoull(value, nullptr, 10);
    if (arg == "--rounds") setup.rounds = std::max(1, std::atoi(value));
    if (arg == "--dir") setup.dir = value;
    if (arg == "--smoke") {
      setup.entries = 2000;
      setup.rounds = 1;
      setup.dir += "_smoke";
    }
  }
  std::filesystem::create_directories(setup.dir);
  std::vector<Costs> rounds;
  for (int round = 0; round < setup.rounds; ++round) rounds.push_back(run_round(setup, round));
  std::error_code ignored;
  std::filesystem::remove(setup.dir, ignored);
  report(setup, rounds);
  return 0;
}
