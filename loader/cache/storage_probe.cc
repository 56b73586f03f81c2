#include "loader/cache/storage_probe.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "base/philox.h"
#include "base/unique_fd.h"
#include "io/segments/block_read.h"
#include "io/segments/segment_folder.h"
#include "io/store/store_file.h"
#include "loader/cache/own_thread.h"

namespace carya::loader {
namespace {

/// So many reads at the same time. Fewer than a tier has, for so few pieces.
constexpr std::size_t kDepth = 8;
constexpr std::uint64_t kBlock = 4096, kPieceMax = 512 << 10;
constexpr std::uint64_t kSmallBytes = 2 << 20, kLargeBytes = 4 << 20;
constexpr std::uint64_t kPiecesMax = 64;

/// Pieces of one size, one after the other.
struct Pieces {
  std::uint64_t bytes = 0, step = 0, offset = 0;
  std::size_t count = 0;
  std::uint64_t at(std::size_t piece) const { return offset + piece * step; }
  std::uint64_t end() const { return at(count); }
};

Pieces pieces_of(std::uint64_t bytes, std::uint64_t sum_bytes, std::uint64_t offset) {
  bytes = std::clamp<std::uint64_t>(bytes, 1, kPieceMax);
  const std::uint64_t step = align_up(bytes, kBlock);
  return {.bytes = bytes,
          .step = step,
          .offset = offset,
          .count = std::clamp<std::uint64_t>(sum_bytes / step, 1, kPiecesMax)};
}

/// What one piece took.
struct Took {
  double time_s = 0, cpu_s = 0;
};

/// One part of a probe: pieces that several threads take, until all are done or its time is over.
struct Part {
  const Pieces& pieces;
  const std::atomic<bool>& stopping;
  std::int64_t begun_ns = monotonic_ns();
  std::atomic<std::size_t> next{0}, done{0};
  std::atomic<std::int64_t> cpu_ns{0};
  Mutex mutex;
  Status failed GUARDED_BY(mutex) = {};

  template <typename Work>
  void run(Work work) {
    const std::int64_t cpu_begun_ns = thread_cpu_ns();
    while (!stopping && monotonic_ns() - begun_ns < StorageProbe::kPartNs) {
      const std::size_t piece = next++;
      if (piece >= pieces.count) break;
      if (Status worked = work(piece); !worked) {
        const MutexLock lock(mutex);
        failed = std::move(worked);
        break;
      }
      ++done;
    }
    cpu_ns += thread_cpu_ns() - cpu_begun_ns;
  }
  /// Errors: that of a piece; kTimeout: not one was done.
  Result<Took> took() {
    const auto count = static_cast<double>(done);
    const MutexLock lock(mutex);
    if (!failed) return std::unexpected(failed.error());
    if (done == 0) return fail(Code::kTimeout, "cache: its storage did not answer in time");
    return Took{static_cast<double>(std::max<std::int64_t>(1, monotonic_ns() - begun_ns)) * 1e-9 / count,
                static_cast<double>(cpu_ns) * 1e-9 / count};
  }
};

/// Bytes that no file system makes less of.
std::vector<std::byte> noise(std::uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  SampleRng random({}, static_cast<std::uint64_t>(monotonic_ns()), 0, 0);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random.next_u32() & 0xff);
  return out;
}

/// Write the pieces; their number becomes that of those that were written.
Result<Took> write(int fd, Pieces& pieces, std::vector<std::byte>& memory,
                   const std::atomic<bool>& stopping) {
  Part part{.pieces = pieces, .stopping = stopping};
  std::uint64_t sum = 0;
  part.run([&](std::size_t piece) -> Status {
    const std::span bytes = std::span(memory).first(pieces.bytes);
    sum += hash64(bytes);
    const io::Written written = io::write_whole(fd, bytes, pieces.at(piece));
    return written.sys_errno == 0 ? Status() : fail_errno("cache: probe", written.sys_errno);
  });
  if (::fdatasync(fd) != 0 || sum == 0) return fail_errno("cache: probe", errno);
  Result<Took> took = part.took();
  pieces.count = part.done;
  return took;
}

/// Read the pieces, as the threads of a tier do: each is hashed.
Result<Took> read(int fd, bool past_page_cache, const Pieces& pieces, const std::atomic<bool>& stopping) {
  Part part{.pieces = pieces, .stopping = stopping};
  const auto work = [&] {
    std::vector<std::byte> memory(pieces.bytes);
    io::BlockBuffer blocks;
    part.run([&](std::size_t piece) -> Status {
      if (past_page_cache)
        TRY(io::read_blocks(fd, memory, pieces.at(piece), blocks));
      else
        TRY(io::read_whole(fd, memory, pieces.at(piece)));
      return hash64(memory) == 0 ? fail(Code::kCorrupt, "cache: probe: no bytes") : Status();
    });
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(kDepth, pieces.count); ++i) threads.emplace_back(work);
    work();
  }
  return part.took();
}

SizeCost line(const Pieces& small, double small_s, const Pieces& large, double large_s) {
  return SizeCost::through(static_cast<double>(small.bytes), small_s, static_cast<double>(large.bytes),
                           large_s);
}

Result<StorageRates> measure(const StorageProbeOptions& options, const std::atomic<bool>& stopping) {
  static std::atomic<std::uint64_t> number{0};
  Pieces small = pieces_of(options.small_bytes, kSmallBytes, 0);
  Pieces large = pieces_of(options.large_bytes, kLargeBytes, small.end());
  static_assert(kSmallBytes + kLargeBytes + 2 * kPieceMax <= StorageProbe::kBytesMax);
  static_cast<void>(
      io::make_tier_folder(options.folder));  // one that cannot be made shows when the file is opened
  if (options.budget && !options.budget->take(options.folder, large.end(), WriteBudget::Moment::now()))
    return fail(Code::kExhausted, "cache: " + options.folder + ": the day's bytes are written");
  const std::string path = fmt::format("{}/probe-{}-{}", options.folder, ::getpid(), number++);
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail_errno("open " + path, errno);
  const UniqueFd past(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_DIRECT));
  ::unlink(path.c_str());  // the file lives as long as it is open
  std::vector<std::byte> memory = noise(kPieceMax);
  StorageRates rates{.measured_at_s = unix_s()};
  const auto keep = [&](StorageWork work, const Took& of_small, const Took& of_large) {
    rates.time.at(static_cast<std::size_t>(work)) = line(small, of_small.time_s, large, of_large.time_s);
    rates.cpu.at(static_cast<std::size_t>(work)) = line(small, of_small.cpu_s, large, of_large.cpu_s);
  };
  ASSIGN(const Took small_written, write(fd.get(), small, memory, stopping));
  ASSIGN(const Took large_written, write(fd.get(), large, memory, stopping));
  keep(StorageWork::kWrite, small_written, large_written);
  ASSIGN(const Took small_read, read(fd.get(), false, small, stopping));
  ASSIGN(const Took large_read, read(fd.get(), false, large, stopping));
  keep(StorageWork::kRead, small_read, large_read);
  keep(StorageWork::kReadPast, small_read, large_read);  // where there is no other way
  if (past) {
    const auto small_past = read(past.get(), true, small, stopping);
    const auto large_past = read(past.get(), true, large, stopping);
    if (small_past && large_past) keep(StorageWork::kReadPast, *small_past, *large_past);
  }
  return rates;
}

}  // namespace

struct StorageProbe::State {
  explicit State(StorageProbeOptions given) : options(std::move(given)) {}
  const StorageProbeOptions options;
  std::atomic<bool> stopping{false};
  mutable Mutex mutex;
  std::optional<Result<StorageRates>> result GUARDED_BY(mutex) = std::nullopt;

  void set(Result<StorageRates> found) {
    const MutexLock lock(mutex);
    result = std::move(found);
  }
};

StorageProbe::StorageProbe(std::shared_ptr<State> state) : state_(std::move(state)) {}

StorageProbe::~StorageProbe() {
  state_->stopping = true;
}

std::unique_ptr<StorageProbe> StorageProbe::begin(const StorageProbeOptions& options) {
  auto state = std::make_shared<State>(options);
  std::unique_ptr<StorageProbe> probe(new StorageProbe(state));
  const bool started = start_detached([state] {
    begin_thread("carya-probe", kReaderNice);
    try {
      state->set(measure(state->options, state->stopping));
    } catch (const std::exception&) {  // memory, threads
      state->set(std::unexpected(out_of_memory()));
    }
  });
  if (!started) state->set(fail(Code::kExhausted, "cache: no thread for " + options.folder));
  return probe;
}

std::optional<Result<StorageRates>> StorageProbe::result() const {
  const MutexLock lock(state_->mutex);
  return state_->result;
}

}  // namespace carya::loader
