// Question: what does a record store cost per entry? A loader looks up a batch of 128 decode indexes at once.
// Ceilings, measured in the same run on the same bytes: a bare pread (get), a bare memcpy (append), one bare
// pwrite per MiB (flush). The file is in the page cache; records are looked up in random order. CPU ns per
// entry, median of rounds. Own flags: --entries N, --bytes N, --rounds N, --dir DIR.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/permutation.h"
#include "base/unique_fd.h"
#include "bench/pairs.h"
#include "bench/program.h"
#include "io/store/record_store.h"
#include "io/store/store_format.h"

namespace {

using namespace carya;
using bench::must;

struct Setup {
  std::uint64_t entries = 100'000;
  std::size_t bytes = 600;
  std::size_t rounds = 9;
  std::string dir = "bench_store_data";
};

struct Costs {  // ns per entry
  double get, pread, append, copy, flush, write, open;
};

double per_entry(const Setup& setup, const std::function<void()>& work) {
  return bench::cpu_ns_per_item(setup.entries, work);
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
  CHECK(right);  // no entry was refused or lost
  return costs;
}

void store(benchmark::State& state, const Setup& setup) {
  std::filesystem::create_directories(setup.dir);
  bench::Rounds rounds;
  int round = 0;
  for ([[maybe_unused]] auto _ : state) {
    const Costs costs = run_round(setup, round++);
    rounds.add("get", costs.get);
    rounds.add("pread", costs.pread);
    rounds.add("append", costs.append);
    rounds.add("memcpy", costs.copy);
    rounds.add("flush", costs.flush);
    rounds.add("pwrite", costs.write);
    rounds.add("open", costs.open);
  }
  rounds.report(state);
  rounds.compare(state, "get", "pread");
  rounds.compare(state, "append", "memcpy");
  rounds.compare(state, "flush", "pwrite");
  std::error_code ignored;
  std::filesystem::remove(setup.dir, ignored);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Program program(argc, argv);
  Setup setup;
  if (program.smoke()) setup = {.entries = 2000, .rounds = 1, .dir = "bench_store_data_smoke"};
  setup.entries = program.count("--entries", setup.entries);
  setup.bytes = program.count("--bytes", setup.bytes);
  setup.rounds = program.count("--rounds", setup.rounds);
  setup.dir = program.text("--dir", setup.dir);
  benchmark::RegisterBenchmark("store", store, setup)->Iterations(static_cast<std::int64_t>(setup.rounds));
  return program.run();
}
