// Question: how long from a slot that is ready to a lease on it, and how many bytes of the batch are copied?
// Ceiling: the cost does not depend on the batch: a few cache lines move between two cores. For comparison,
// in the same run: memcpy of the batch into warm memory, and the batch sent over a Unix socket between two
// threads. Bar: p50 <= 3 us for batches of 38.5 MB (64 x 3 x 224 x 224 float32), 0 bytes copied.
// Own flag: --batches N. Times are of the clock on the wall; p50 and p99 are counters in us.

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "bench/program.h"
#include "shm/slot_ring.h"

namespace {

using namespace carya;
using bench::must;

struct Sizes {
  std::uint64_t rows = 64;  // 64 * 3 * 224 * 224 * 4 B = 38.5 MB
  int batches = 20'000;     // hand-overs of a slot that is ready
  int copies = 25;          // memcpy and socket transfers of the whole batch
};

using Nanoseconds = std::vector<std::int64_t>;

/// A ring of two tensors, image and label, and one reader of it.
struct Bench {
  explicit Bench(const Sizes& sizes)
      : layout(must(shm::SlotLayout::create({{"image", DType::kFloat32, {sizes.rows, 3, 224, 224}, 0},
                                             {"label", DType::kInt64, {sizes.rows}, 0}}))),
        ring(must(shm::SlotRing::create(layout, {.slots = 3}))),
        index(must(ring->attach_reader())),
        reader(must(shm::RingReader::attach(ring->reader_fds(index), index))) {}

  std::uint64_t batch_bytes() const { return layout.tensors()[0].bytes() + layout.tensors()[1].bytes(); }

  shm::SlotLayout layout;
  std::shared_ptr<shm::SlotRing> ring;
  std::uint32_t index;
  std::unique_ptr<shm::RingReader> reader;
  std::uint64_t sequence = 0;
};

/// next() on a slot that another thread published a moment ago, so that the ring's cache lines come from its
/// core: only next() is timed. The lease goes back untimed.
Nanoseconds time_ready(Bench& bench, int batches) {
  Nanoseconds ns;
  std::atomic<int> wanted{0};
  std::atomic<int> published{0};
  std::thread owner([&] {
    for (int i = 1; i <= batches; ++i) {
      while (wanted.load(std::memory_order_acquire) < i) std::this_thread::yield();
      auto slot = bench.ring->acquire();
      while (!slot) slot = bench.ring->acquire();
      bench.ring->publish(*slot, ++bench.sequence, shm::Meta{});
      published.store(i, std::memory_order_release);
    }
  });
  for (int i = 1; i <= batches; ++i) {
    wanted.store(i, std::memory_order_release);
    while (published.load(std::memory_order_acquire) < i) std::this_thread::yield();
    const std::int64_t start = monotonic_ns();
    shm::Lease lease = must(bench.reader->next(0));
    ns.push_back(monotonic_ns() - start);
    if (lease.sequence() != bench.sequence) std::exit(2);
  }
  owner.join();
  return ns;
}

/// From publish() to the lease in the hands of a thread that was asleep: adds the kernel's wake-up.
Nanoseconds time_asleep(Bench& bench, int batches) {
  Nanoseconds ns;
  std::thread reader([&] {
    for (int i = 0; i < batches; ++i) {
      shm::Lease lease = must(bench.reader->next(10'000));
      ns.push_back(monotonic_ns() - static_cast<std::int64_t>(lease.meta()[0]));
    }
  });
  for (int i = 0; i < batches; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // until the reader sleeps again
    auto slot = bench.ring->acquire();
    while (!slot) slot = bench.ring->acquire();
    bench.ring->publish(*slot, ++bench.sequence, shm::Meta{static_cast<std::uint64_t>(monotonic_ns())});
  }
  reader.join();
  return ns;
}

/// Bytes of the batch that are not the owner's own memory: each page of a lease is looked at for a mark that
/// the owner's mapping makes after the publication. A copy made on the way could not know the marks.
std::uint64_t bytes_copied(Bench& bench) {
  const auto slot = bench.ring->acquire();
  bench.ring->publish(*slot, ++bench.sequence, shm::Meta{});
  const shm::Lease lease = must(bench.reader->next(0));
  const std::uint64_t start = bench.layout.tensors()[0].offset;
  std::uint64_t copied = 0;
  for (std::uint64_t at = start; at < start + bench.batch_bytes(); at += 4096) {
    const auto before = lease.data()[at];
    const auto mark = static_cast<std::byte>(~static_cast<unsigned>(before));
    bench.ring->data(*slot)[at] = mark;
    if (*const_cast<const volatile std::byte*>(lease.data() + at) != mark) copied += 4096;
  }
  return copied;
}

Nanoseconds time_memcpy(Bench& bench, int copies) {
  const std::uint64_t bytes = bench.batch_bytes();
  std::vector<std::byte> target(bytes);  // written once here, so that no copy meets a fresh page
  const std::byte* source = bench.ring->data(0) + bench.layout.tensors()[0].offset;
  Nanoseconds ns;
  for (int i = 0; i < copies; ++i) {
    const std::int64_t start = monotonic_ns();
    std::memcpy(target.data(), source, bytes);
    asm volatile("" : : "r"(target.data()) : "memory");
    ns.push_back(monotonic_ns() - start);
  }
  return ns;
}

Nanoseconds time_socket(Bench& bench, int copies) {
  const std::uint64_t bytes = bench.batch_bytes();
  std::vector<std::byte> target(bytes);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::exit(2);
  const UniqueFd out(ends[0]), in(ends[1]);
  const std::byte* source = bench.ring->data(0) + bench.layout.tensors()[0].offset;
  Nanoseconds ns;
  for (int i = 0; i < copies; ++i) {
    const std::int64_t start = monotonic_ns();
    std::thread sender([&] {
      for (std::uint64_t sent = 0; sent < bytes;) {
        const ssize_t n = send(out.get(), source + sent, bytes - sent, MSG_NOSIGNAL);
        if (n <= 0) std::exit(2);
        sent += static_cast<std::uint64_t>(n);
      }
    });
    for (std::uint64_t got = 0; got < bytes;) {
      const ssize_t n = recv(in.get(), target.data() + got, bytes - got, 0);
      if (n <= 0) std::exit(2);
      got += static_cast<std::uint64_t>(n);
    }
    ns.push_back(monotonic_ns() - start);
    sender.join();
  }
  return ns;
}

/// A case: `measure(n)` times n hand-overs of `bytes` that move; 0: none do.
void timed(benchmark::State& state, const std::function<Nanoseconds(int)>& measure, std::uint64_t bytes) {
  Nanoseconds ns = measure(static_cast<int>(state.max_iterations));
  std::size_t nth = 0;
  for ([[maybe_unused]] auto _ : state) state.SetIterationTime(1e-9 * static_cast<double>(ns[nth++]));
  std::ranges::sort(ns);
  state.counters["p50_us"] = 1e-3 * static_cast<double>(ns[ns.size() / 2]);
  state.counters["p99_us"] = 1e-3 * static_cast<double>(ns[ns.size() * 99 / 100]);
  state.SetItemsProcessed(state.iterations());
  if (bytes != 0) state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

void copied(benchmark::State& state, Bench& bench) {
  std::uint64_t bytes = 0;
  for ([[maybe_unused]] auto _ : state) bytes = bytes_copied(bench);
  state.counters["bytes_copied"] = static_cast<double>(bytes);
  if (bytes != 0) state.SkipWithError("the batch was copied");
}

void create(benchmark::State& state, const Sizes& sizes) {
  for ([[maybe_unused]] auto _ : state) {
    const Bench bench(sizes);
    const shm::SlotRingStats stats = bench.ring->stats();
    state.counters["batch_bytes"] = static_cast<double>(bench.batch_bytes());
    state.counters["huge_share"] = static_cast<double>(stats.huge_bytes) / static_cast<double>(stats.bytes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  carya::bench::Program program(argc, argv);
  Sizes sizes;
  if (program.smoke()) sizes = {4, 500, 3};
  sizes.batches = std::max(100, static_cast<int>(program.number("--batches", sizes.batches)));
  benchmark::RegisterBenchmark("create", create, sizes)
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
  std::unique_ptr<Bench> bench;  // made by the first case that the flags choose
  const auto made = [&]() -> Bench& {
    if (!bench) bench = std::make_unique<Bench>(sizes);
    return *bench;
  };
  const auto add = [&](const char* name, Nanoseconds (*measure)(Bench&, int), int times, bool moves) {
    const auto run = [&made, measure, moves](benchmark::State& state) {
      timed(state, [&](int n) { return measure(made(), n); }, moves ? made().batch_bytes() : 0);
    };
    benchmark::RegisterBenchmark(name, run)->Iterations(times)->UseManualTime()->Unit(
        benchmark::kMicrosecond);
  };
  add("slot ready to lease", time_ready, sizes.batches, false);
  add("publish to lease, reader asleep", time_asleep, std::max(100, sizes.batches / 20), false);
  add("memcpy of the batch", time_memcpy, sizes.copies, true);
  add("Unix socket, two threads", time_socket, sizes.copies, true);
  benchmark::RegisterBenchmark("bytes copied", [&](benchmark::State& state) {
    copied(state, made());
  })->Iterations(1);
  return program.run();
}
