// Question: how long from a slot that is ready to a lease on it, and how many bytes of the batch are copied?
// Ceiling: the cost does not depend on the batch: a few cache lines move between two cores. For comparison,
// in the same run: memcpy of the batch into warm memory, and the batch sent over a Unix socket between two
// threads. Bar: p50 <= 3 us for batches of 38.5 MB (64 x 3 x 224 x 224 float32), 0 bytes copied.
//
// Usage: bench_handoff_ring [--smoke] [--batches N]

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "shm/slot_ring.h"

namespace {

using namespace carya;

struct Sizes {
  std::uint64_t rows = 64;  // 64 * 3 * 224 * 224 * 4 B = 38.5 MB
  int batches = 20'000;     // hand-overs of a slot that is ready
  int copies = 25;          // memcpy and socket transfers of the whole batch
};

template <typename T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "bench_handoff_ring: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  return std::move(*result);
}

/// Median and 99th percentile of what was measured, in ns.
struct Spread {
  double p50 = 0;
  double p99 = 0;
};
Spread spread_of(std::vector<std::int64_t>& ns) {
  std::sort(ns.begin(), ns.end());
  return {static_cast<double>(ns[ns.size() / 2]), static_cast<double>(ns[ns.size() * 99 / 100])};
}

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
Spread time_ready(Bench& bench, int batches) {
  std::vector<std::int64_t> ns;
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
  return spread_of(ns);
}

/// From publish() to the lease in the hands of a thread that was asleep: adds the kernel's wake-up.
Spread time_asleep(Bench& bench, int batches) {
  std::vector<std::int64_t> ns;
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
  return spread_of(ns);
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

Spread time_memcpy(const Bench& bench, int copies) {
  const std::uint64_t bytes = bench.batch_bytes();
  std::vector<std::byte> target(bytes);  // written once here, so that no copy meets a fresh page
  const std::byte* source = bench.ring->data(0) + bench.layout.tensors()[0].offset;
  std::vector<std::int64_t> ns;
  for (int i = 0; i < copies; ++i) {
    const std::int64_t start = monotonic_ns();
    std::memcpy(target.data(), source, bytes);
    asm volatile("" : : "r"(target.data()) : "memory");
    ns.push_back(monotonic_ns() - start);
  }
  return spread_of(ns);
}

Spread time_socket(const Bench& bench, int copies) {
  const std::uint64_t bytes = bench.batch_bytes();
  std::vector<std::byte> target(bytes);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::exit(2);
  const UniqueFd out(ends[0]), in(ends[1]);
  const std::byte* source = bench.ring->data(0) + bench.layout.tensors()[0].offset;
  std::vector<std::int64_t> ns;
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
  return spread_of(ns);
}

void print_line(const char* what, const Spread& spread, const Spread& ready) {
  std::printf("  %-34s %12.2f %12.2f %12.0f x\n", what, spread.p50 / 1e3, spread.p99 / 1e3,
              spread.p50 / ready.p50);
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag(argv[i]);
    if (flag == "--smoke") sizes = {4, 500, 3};
    if (flag == "--batches" && i + 1 < argc) sizes.batches = std::max(100, std::atoi(argv[++i]));
  }
  const std::int64_t create_start = monotonic_ns();
  Bench bench(sizes);
  const double create_ms = static_cast<double>(monotonic_ns() - create_start) / 1e6;
  const Spread ready = time_ready(bench, sizes.batches);
  const Spread asleep = time_asleep(bench, std::max(100, sizes.batches / 20));
  const Spread copy = time_memcpy(bench, sizes.copies);
  const Spread socket = time_socket(bench, sizes.copies);
  const std::uint64_t copied = bytes_copied(bench);
  const shm::SlotRingStats stats = bench.ring->stats();
  const double batch_mb = static_cast<double>(bench.batch_bytes()) / 1e6;
  const double huge_share = static_cast<double>(stats.huge_bytes) / static_cast<double>(stats.bytes);
  std::printf(
      "{\"bench\":\"handoff_ring\",\"batch_mb\":%.1f,\"ready_p50_us\":%.3f,\"ready_p99_us\":%.3f,"
      "\"asleep_p50_us\":%.2f,\"asleep_p99_us\":%.2f,\"memcpy_p50_us\":%.0f,\"socket_p50_us\":%.0f,"
      "\"bytes_copied\":%llu,\"huge_share\":%.2f,\"create_ms\":%.1f,\"bar_p50_us\":3,\"met\":%s}\n",
      batch_mb, ready.p50 / 1e3, ready.p99 / 1e3, asleep.p50 / 1e3, asleep.p99 / 1e3, copy.p50 / 1e3,
      socket.p50 / 1e3, static_cast<unsigned long long>(copied), huge_share, create_ms,
      ready.p50 <= 3000 && copied == 0 ? "true" : "false");
  std::printf("%.1f MB batches%21s %12s %12s %14s\n", batch_mb, "", "p50 us", "p99 us", "p50 / ready");
  print_line("slot ready -> lease", ready, ready);
  print_line("publish -> lease, reader asleep", asleep, ready);
  print_line("memcpy of the batch", copy, ready);
  print_line("Unix socket, two threads", socket, ready);
  std::printf("  bytes copied: %llu; ring of %.0f MB made in %.1f ms, %.0f %% in huge pages\n",
              static_cast<unsigned long long>(copied), static_cast<double>(stats.bytes) / 1e6, create_ms,
              huge_share * 100);
  return copied == 0 ? 0 : 1;
}
