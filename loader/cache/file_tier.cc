#include "loader/cache/file_tier.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <list>
#include <map>
#include <new>
#include <system_error>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "loader/cache/own_thread.h"
#include "loader/cache/record_hash.h"
#include "loader/host/leak.h"

namespace carya::loader {
namespace {

constexpr std::int64_t kRefreshDiskNs = 1'000'000'000, kRefreshSharedNs = 5'000'000'000;
constexpr std::int64_t kOpenAgainNs = 10'000'000'000;
/// After trouble, storage is left alone for so long, twice as long each time.
constexpr std::int64_t kAloneFirstNs = 10'000'000'000, kAloneMaxNs = 640'000'000'000;
constexpr std::int64_t kFullAgainNs = 10'000'000'000;
/// The end waits for what is to be written, and for threads, at most this long.
constexpr std::int64_t kFarewellNs = 1'000'000'000;
/// So many reads in a row that fail are a fault of the storage, and not of entries.
constexpr std::uint32_t kFailuresInRow = 8;
/// From so many reads on that it has to do, storage gives what it can.
constexpr std::size_t kMany = FileTier::kReaders / 2;
/// The mean size of samples is believed after so many.
constexpr std::uint64_t kLearnAfterFills = 8;
/// Some more are admitted than the mean says will fit: what is too much finds no room.
constexpr double kAdmitMore = 1.02;

/// The threads have nobody who would catch what is thrown.
template <typename T, typename Work>
Result<T> without_throwing(Work work) {
  try {
    return work();
  } catch (const std::exception&) {
    return std::unexpected(out_of_memory());
  }
}

}  // namespace

struct FileTier::State {
  explicit State(FileTierOptions given) : options(std::move(given)) {}

  const FileTierOptions options;
  const pid_t pid = getpid();
  std::unique_ptr<io::SegmentStore> owned;        // set once, by the keeper
  std::atomic<io::SegmentStore*> store{nullptr};  // the same, for others (release, acquire)

  mutable Mutex mutex;
  Condition work, asked;  // something for the keeper; for a reader
  Condition changed;      // something that open() or the end waits for
  bool stopping GUARDED_BY(mutex) = false;
  bool opened GUARDED_BY(mutex) = false;  // the keeper has tried
  std::int64_t stop_at_ns GUARDED_BY(mutex) = 0;
  std::size_t threads GUARDED_BY(mutex) = 0, readers GUARDED_BY(mutex) = 0, idle GUARDED_BY(mutex) = 0;
  std::list<TierRead> reads GUARDED_BY(mutex);
  std::list<TierRead> reading GUARDED_BY(mutex);  // by a thread that storage has not answered
  // What storage can give is seen while it has many reads to do: the time of that, and reads that ended in it.
  std::int64_t counted_ns GUARDED_BY(mutex) = 0, many_ns GUARDED_BY(mutex) = 0;
  std::uint64_t many_reads GUARDED_BY(mutex) = 0, many_bytes GUARDED_BY(mutex) = 0;
  std::deque<TierWrite> writes GUARDED_BY(mutex);
  std::unordered_set<Hash128, HashOfHash> queued GUARDED_BY(mutex);  // identities of writes
  std::int64_t answered_ns GUARDED_BY(mutex) = 0;
  std::int64_t writing_ns GUARDED_BY(mutex) = 0;  // since when the keeper waits for storage; 0: it does not
  std::int64_t alone_ns GUARDED_BY(mutex) = kAloneFirstNs;
  std::uint32_t failures GUARDED_BY(mutex) = 0;
  std::string trouble GUARDED_BY(mutex);
  std::uint64_t troubles GUARDED_BY(mutex) = 0;

  // Relaxed: each is an estimate, or only shown.
  std::atomic<std::int64_t> read_from_ns{0}, write_from_ns{0};  // not before
  std::atomic<bool> full{false}, over_budget{false}, past_page_cache{false};
  std::atomic<std::uint64_t> queued_bytes{0}, sizes{0}, sizes_bytes{0};
  std::atomic<std::uint64_t> fetched{0}, fetched_bytes{0}, fetch_failures{0}, write_failures{0};
  std::atomic<std::int64_t> read_cpu_ns{0}, write_cpu_ns{0}, write_ns{0};

  bool start(void (*loop)(std::shared_ptr<State>), const std::shared_ptr<State>& self) REQUIRES(mutex);
  bool has_many() const REQUIRES(mutex) { return reads.size() + reading.size() >= kMany; }
  void note_reads() REQUIRES(mutex);
  void note_trouble(const std::string& what) REQUIRES(mutex);
  void settle_all() REQUIRES(mutex);
  double admitted() const;
  bool admits(std::uint64_t source) const;
  bool open_store();
  void choose_reads();
  void write_one(TierWrite& write);
  void read_one(const TierRead& read, io::BlockBuffer& blocks);
  static void keep(std::shared_ptr<State> self);
  static void read_all(std::shared_ptr<State> self);
};

bool FileTier::State::start(void (*loop)(std::shared_ptr<State>), const std::shared_ptr<State>& self) {
  const bool started = start_detached([loop, self] { loop(self); });
  if (started) ++threads;
  return started;
}

/// Call it before the number of reads that are asked for changes.
void FileTier::State::note_reads() {
  const std::int64_t now = monotonic_ns();
  if (has_many()) many_ns += now - counted_ns;
  counted_ns = now;
}

/// Leave the storage alone for a while.
void FileTier::State::note_trouble(const std::string& what) {
  const std::int64_t until = monotonic_ns() + alone_ns;
  alone_ns = std::min(kAloneMaxNs, 2 * alone_ns);
  read_from_ns = write_from_ns = until;
  trouble = what;
  ++troubles;
}

/// Nobody waits any longer for what is asked.
void FileTier::State::settle_all() {
  note_reads();
  for (const TierRead& read : reads) read.group->settle(read.index, false);
  fetch_failures += reads.size();
  reads.clear();
  for (const TierRead& read : reading) read.group->settle(read.index, false);
  writes.clear();
  queued.clear();
  queued_bytes = 0;
}

/// The share of all records that fits, by the mean size so far.
double FileTier::State::admitted() const {
  const io::SegmentStore* const known = store.load(std::memory_order_acquire);
  const std::uint64_t count = sizes.load(std::memory_order_relaxed);
  if (known == nullptr || count < kLearnAfterFills) return 1;
  const double mean =
      static_cast<double>(sizes_bytes.load(std::memory_order_relaxed)) / static_cast<double>(count);
  const auto room = static_cast<double>(known->stats().room_bytes);
  return std::min(1.0, kAdmitMore * room / (mean * static_cast<double>(options.records)));
}

bool FileTier::State::admits(std::uint64_t source) const {
  const double share = admitted();
  if (share >= 1) return true;
  const double at = static_cast<double>(record_hash(source)) * 0x1p-64;
  return options.kind == TierKind::kDisk ? 1 - at <= share : std::abs(2 * at - 1) <= share;
}

/// Returns whether the store is open.
bool FileTier::State::open_store() {
  auto made = without_throwing<std::unique_ptr<io::SegmentStore>>([&] {
    return io::SegmentStore::open({.folder = options.folder,
                                   .place = options.place,
                                   .about = options.about,
                                   .capacity_bytes = options.capacity_bytes,
                                   .own_only = options.kind == TierKind::kDisk,
                                   .locks = options.kind == TierKind::kDisk});
  });
  if (!made) {
    const MutexLock lock(mutex);
    note_trouble(made.error().message);
    return false;
  }
  owned = std::move(*made);
  if (options.budget)
    static_cast<void>(without_throwing<void>([&]() -> Status {
      options.budget->open_folder(options.folder, WriteBudget::Moment::now());
      return {};
    }));
  choose_reads();
  store.store(owned.get(), std::memory_order_release);
  return true;
}

/// How samples are read from now on.
void FileTier::State::choose_reads() {
  past_page_cache = options.kind == TierKind::kDisk && owned->stats().entry_bytes > options.page_cache_bytes;
}

void FileTier::State::write_one(TierWrite& write) {
  const auto allowed = without_throwing<bool>([&] {
    return !options.budget ||
           options.budget->take(options.folder, write.bytes.size(), WriteBudget::Moment::now());
  });
  over_budget = allowed && !*allowed;
  if (!allowed || over_budget) {
    write_from_ns = monotonic_ns() + kFullAgainNs;
    return;
  }
  const std::int64_t begun_ns = thread_cpu_ns(), at_ns = monotonic_ns();
  const std::uint64_t before = owned->stats().written_bytes;
  Status written;
  // A file that changed while it was read must not leave its new bytes under its old version.
  if (write.facts->may_keep(write.source))
    written = without_throwing<void>([&] {
      return owned->append(
          write.identity, write.bytes,
          options.kind == TierKind::kShared ? write.facts->readers(write.source) : io::Readers());
    });
  write_cpu_ns += thread_cpu_ns() - begun_ns;
  write_ns += monotonic_ns() - at_ns;
  if (options.budget && owned->stats().written_bytes == before)
    static_cast<void>(without_throwing<void>([&]() -> Status {
      options.budget->give_back(options.folder, write.bytes.size(), WriteBudget::Moment::now());
      return {};
    }));
  full = !written && written.error().code == Code::kExhausted && written.error().sys_errno == 0;
  if (written) return;
  ++write_failures;
  const MutexLock lock(mutex);
  if (full)
    write_from_ns = monotonic_ns() + kFullAgainNs;
  else
    note_trouble(written.error().message);
}

/// Opens the store, writes, and looks at what others wrote.
void FileTier::State::keep(std::shared_ptr<State> self) {
  begin_thread("carya-keep", kKeeperNice);
  State& state = *self;
  const std::int64_t refresh_ns = state.options.kind == TierKind::kDisk ? kRefreshDiskNs : kRefreshSharedNs;
  std::int64_t next_ns = 0;
  while (true) {
    TierWrite write;
    bool refreshes = false;
    {
      MutexLock lock(state.mutex);
      state.writing_ns = 0;
      while (!state.stopping && state.writes.empty() && monotonic_ns() < next_ns)
        state.work.wait_for_ns(lock, std::max<std::int64_t>(1, next_ns - monotonic_ns()));
      if (state.stopping && (state.writes.empty() || !state.owned || monotonic_ns() > state.stop_at_ns))
        break;
      refreshes = monotonic_ns() >= next_ns && !state.stopping;
      if (!refreshes && state.owned) {
        write = std::move(state.writes.front());
        state.writes.pop_front();
      }
      state.writing_ns = monotonic_ns();
    }
    if (write.facts) {
      state.write_one(write);
      const MutexLock lock(state.mutex);
      if (state.queued.erase(write.identity) > 0) state.queued_bytes -= write.bytes.size();
    } else if (state.owned) {
      const Status looked = without_throwing<void>([&] { return state.owned->refresh(); });
      state.choose_reads();
      next_ns = monotonic_ns() + refresh_ns;
      const MutexLock lock(state.mutex);
      if (!looked && looked.error().code != Code::kNotFound) state.note_trouble(looked.error().message);
    } else {
      next_ns = monotonic_ns() + (state.open_store() ? refresh_ns : kOpenAgainNs);
      const MutexLock lock(state.mutex);
      state.opened = true;
      state.changed.notify_all();
    }
  }
  if (state.owned) state.owned->seal();
  const MutexLock lock(state.mutex);
  --state.threads;
  state.changed.notify_all();
}

void FileTier::State::read_one(const TierRead& read, io::BlockBuffer& blocks) {
  const std::int64_t begun_ns = thread_cpu_ns();
  const std::span<std::byte> out(read.dest, read.entry.row.bytes);
  Status done;
  const bool as_listed = read.facts->may_take(read.source);
  // Who may read the record may have changed since its sample was written.
  if (as_listed && options.kind == TierKind::kShared && read.entry.segment->is_for_others())
    done = without_throwing<void>(
        [&] { return read.entry.segment->keep_from_others(read.facts->readers(read.source)); });
  if (as_listed && done) done = owned->read(read.entry, out, past_page_cache ? &blocks : nullptr);
  read.group->settle(read.index, as_listed && done.has_value());
  read_cpu_ns += thread_cpu_ns() - begun_ns;
  const bool there = as_listed && done;
  ++(there ? fetched : fetch_failures);
  if (there) fetched_bytes += out.size();
  const MutexLock lock(mutex);
  answered_ns = monotonic_ns();
  if (there && has_many()) {
    ++many_reads;
    many_bytes += out.size();
  }
  if (there) {
    failures = 0;
    alone_ns = kAloneFirstNs;
  } else if (!done && done.error().code != Code::kCorrupt && done.error().code != Code::kNotFound &&
             done.error().code != Code::kPermission && ++failures >= kFailuresInRow) {
    failures = 0;
    note_trouble(done.error().message);
  }
}

void FileTier::State::read_all(std::shared_ptr<State> self) {
  begin_thread("carya-fetch", kReaderNice);
  State& state = *self;
  io::BlockBuffer blocks;
  MutexLock lock(state.mutex);
  while (!state.stopping) {
    if (state.reads.empty()) {
      ++state.idle;
      state.asked.wait(lock);
      --state.idle;
      continue;
    }
    const auto mine = state.reads.begin();  // elements of a list stay where they are
    state.reading.splice(state.reading.begin(), state.reads, mine);
    lock.unlock();
    state.read_one(*mine, blocks);
    lock.lock();
    state.note_reads();
    state.reading.erase(mine);
  }
  --state.readers;
  --state.threads;
  state.changed.notify_all();
}

FileTier::FileTier(std::shared_ptr<State> state) : state_(std::move(state)) {}

std::shared_ptr<FileTier> FileTier::open(const FileTierOptions& options) {
  using Key = std::tuple<pid_t, TierKind, std::string, std::uint64_t, std::uint64_t, const WriteBudget*>;
  static Mutex mutex;
  static std::map<Key, std::weak_ptr<FileTier>> tiers;
  const Key key{getpid(),           options.kind,      options.folder,
                options.place.high, options.place.low, options.budget.get()};
  std::shared_ptr<FileTier> tier;
  {
    const MutexLock lock(mutex);
    std::erase_if(tiers, [](const auto& known) { return known.second.expired(); });
    std::weak_ptr<FileTier>& known = tiers[key];
    tier = known.lock();
    if (!tier) {
      tier.reset(new FileTier(std::make_shared<State>(options)));
      known = tier;
      const MutexLock starting(tier->state_->mutex);
      if (!tier->state_->start(&State::keep, tier->state_)) {
        tier->state_->opened = true;
        tier->state_->note_trouble("cache: no thread for " + options.folder);
      }
    }
  }
  State& state = *tier->state_;
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kOpenNs);
  MutexLock lock(state.mutex);
  while (!state.opened && state.changed.wait_until(lock, until)) {
  }
  return tier;
}

FileTier::~FileTier() {
  State& state = *state_;
  if (getpid() != state.pid) {  // a forked child: threads that are not here may hold the locks
    leak(std::move(state_));
    return;
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(2 * kFarewellNs);
  MutexLock lock(state.mutex);
  state.stopping = true;
  state.stop_at_ns = monotonic_ns() + kFarewellNs;
  state.work.notify_all();
  state.asked.notify_all();
  while (state.threads > 0 && state.changed.wait_until(lock, until)) {
  }
}

io::SegmentEntry FileTier::find(Hash128 identity) const {
  const io::SegmentStore* const store = state_->store.load(std::memory_order_acquire);
  const std::int64_t from_ns = state_->read_from_ns.load(std::memory_order_relaxed);
  if (store == nullptr || (from_ns != 0 && monotonic_ns() < from_ns)) return {};
  return store->find(identity);
}

void FileTier::fetch(TierRead read) {
  State& state = *state_;
  const MutexLock lock(state.mutex);
  state.note_reads();
  read.asked_ns = monotonic_ns();
  state.reads.push_back(std::move(read));
  if (state.idle < state.reads.size() && state.readers < kReaders && state.start(&State::read_all, state_))
    ++state.readers;
  state.asked.notify_one();
}

bool FileTier::wants(std::uint64_t source, Hash128 identity) const {
  const State& state = *state_;
  const io::SegmentStore* const store = state.store.load(std::memory_order_acquire);
  const std::int64_t from_ns = state.write_from_ns.load(std::memory_order_relaxed);
  if (store == nullptr || (from_ns != 0 && monotonic_ns() < from_ns)) return false;
  if (state.queued_bytes.load(std::memory_order_relaxed) > kQueueBytes) return false;
  if (!state.admits(source) || store->find(identity)) return false;
  const MutexLock lock(state.mutex);
  return !state.queued.contains(identity);
}

std::shared_ptr<std::byte> FileTier::room(std::uint64_t bytes) const {
  if (state_->queued_bytes.load(std::memory_order_relaxed) + bytes > kQueueBytes) return nullptr;
  return {static_cast<std::byte*>(std::malloc(std::max<std::uint64_t>(bytes, 1))), std::free};
}

void FileTier::offer(TierWrite write) {
  State& state = *state_;
  const std::uint64_t bytes = write.bytes.size();
  state.sizes.fetch_add(1, std::memory_order_relaxed);
  state.sizes_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (!wants(write.source, write.identity)) return;
  const MutexLock lock(state.mutex);
  if (state.stopping || state.queued_bytes + bytes > kQueueBytes) return;
  const Hash128 identity = write.identity;
  try {
    if (!state.queued.insert(identity).second) return;
    state.writes.push_back(std::move(write));
  } catch (const std::bad_alloc&) {
    state.queued.erase(identity);
    return;
  }
  state.queued_bytes += bytes;
  state.work.notify_one();
}

void FileTier::look() {
  State& state = *state_;
  const MutexLock lock(state.mutex);
  const std::int64_t now = monotonic_ns();
  const std::int64_t answered_ns = state.answered_ns;
  const auto is_late = [&](const TierRead& read) {
    return now - std::max(read.asked_ns, answered_ns) > kAnswerNs;
  };
  const bool reads_late =
      std::ranges::any_of(state.reads, is_late) || std::ranges::any_of(state.reading, is_late);
  const bool write_late = state.writing_ns != 0 && now - state.writing_ns > kAnswerNs;
  if (!reads_late && !write_late) return;
  state.settle_all();
  // What hung before and still hangs is no news; nothing is asked as long as it does.
  const bool known = now < state.read_from_ns && now < state.write_from_ns;
  const std::int64_t again = now + 2 * kAnswerNs;
  if (known) {
    state.read_from_ns = std::max(state.read_from_ns.load(), again);
    state.write_from_ns = std::max(state.write_from_ns.load(), again);
    return;
  }
  state.note_trouble("cache: " + state.options.folder + ": no answer for 1 s; its storage hangs");
}

FileTierStats FileTier::stats() const {
  const State& state = *state_;
  FileTierStats stats;
  if (const io::SegmentStore* const store = state.store.load(std::memory_order_acquire)) {
    stats.store = store->stats();
    stats.is_open = true;
  }
  stats.fetched = state.fetched;
  stats.fetched_bytes = state.fetched_bytes;
  stats.fetch_failures = state.fetch_failures;
  stats.write_failures = state.write_failures;
  stats.read_cpu_s = static_cast<double>(state.read_cpu_ns) * 1e-9;
  stats.write_cpu_s = static_cast<double>(state.write_cpu_ns) * 1e-9;
  stats.admitted_share = state.admitted();
  stats.past_page_cache = state.past_page_cache;
  stats.is_full = state.full;
  stats.is_over_budget = state.over_budget;
  stats.write_s = static_cast<double>(state.write_ns) * 1e-9;
  const MutexLock lock(state.mutex);
  stats.many_s = static_cast<double>(state.many_ns) * 1e-9;
  stats.many_reads = state.many_reads;
  stats.many_bytes = state.many_bytes;
  stats.trouble = state.trouble;
  stats.troubles = state.troubles;
  return stats;
}

const FileTierOptions& FileTier::options() const {
  return state_->options;
}

}  // namespace carya::loader
