#include "loader/data/decode_index.h"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/philox.h"
#include "io/files/record_file.h"
#include "io/store/store_list.h"

namespace carya::loader {
namespace {

using Kind = transforms::SourceField::Kind;
using transforms::FieldIndex;
using transforms::IndexUse;

constexpr std::size_t kPendingBytesMax = 8 << 20;
constexpr std::int64_t kRefreshNs = 5'000'000'000;
constexpr std::int64_t kCompactNs = 30'000'000'000;
/// Compacting so much takes ~50 ms: may be done while somebody waits for close().
constexpr std::uint64_t kCompactAtCloseBytes = 64 << 20;
constexpr std::uint64_t kSamplesMax = 256;
constexpr std::uint64_t kAskedAtOpen = 16;
constexpr std::int64_t kLookNs = 1'000'000'000;
constexpr std::uint64_t kQuotaBytesMin = 1 << 20;

struct SpacingCost {
  int spacing;
  double share;  // of the file
};
constexpr double kEntryBytes = 68;  // index header and checksum, head and padding of the store
constexpr std::array<SpacingCost, 3> kSpacingCosts{{{8, 0.0181}, {16, 0.0095}, {0, 0.0024}}};

/// A process opens a store once, however many jobs use it: one table, and each job sees the others' entries.
Result<std::shared_ptr<io::RecordStore>> open_shared(const std::string& path,
                                                     const io::StoreIdentity& identity,
                                                     const io::StoreOptions& options) {
  struct Known {
    Mutex opening;  // held for as long as opening the store takes
    std::weak_ptr<io::RecordStore> store GUARDED_BY(opening);
  };
  static Mutex mutex;
  static std::map<std::pair<pid_t, std::string>, std::shared_ptr<Known>> stores;
  std::shared_ptr<Known> known;
  {
    const MutexLock lock(mutex);
    std::shared_ptr<Known>& place = stores[{getpid(), path}];  // a forked child opens its own
    if (!place) place = std::make_shared<Known>();
    known = place;
  }
  const MutexLock lock(known->opening);
  if (auto store = known->store.lock(); store && store->identity() == identity) {
    store->keep_from_others(options.readers);
    return store;
  }
  ASSIGN(std::unique_ptr<io::RecordStore> store, io::RecordStore::open(path, identity, options));
  std::shared_ptr<io::RecordStore> shared = std::move(store);
  known->store = shared;
  return shared;
}

double mean_bytes(const io::Manifest& manifest) {
  const std::uint64_t count = manifest.count();
  const std::uint64_t looked = std::min<std::uint64_t>(count, 4096);
  double total = 0;
  for (std::uint64_t i = 0; i < looked; ++i) {
    const std::uint64_t spread = i * count / looked;
    total += static_cast<double>(manifest.record(spread).bytes);
  }
  return looked == 0 ? 0 : total / static_cast<double>(looked);
}

/// Who may read some of the records. What is kept of data that became private as a whole is closed by that.
io::Readers readers_of_some(const io::Manifest& manifest, io::ReadersOfFiles& files) {
  const std::uint64_t count = manifest.count(), some = std::min(count, kAskedAtOpen);
  io::Readers all = io::Readers::everybody();
  for (std::uint64_t i = 0; i < some; ++i)
    all = io::both(all, io::record_readers(manifest, i * (count / some), files));
  return all;
}

/// The record's entry, in `memory`, which grows as needed; empty when there is none.
std::span<const std::byte> read_entry(const io::RecordStore& store, std::uint64_t record,
                                      std::vector<std::byte>& memory) {
  if (memory.empty()) memory.resize(4096);
  auto bytes = store.get(record, memory);
  if (bytes && *bytes > memory.size()) {
    memory.resize(*bytes);
    bytes = store.get(record, memory);
  }
  if (!bytes || *bytes > memory.size()) return {};
  return std::span(memory).first(*bytes);
}

}  // namespace

std::optional<int> spacing_for(double file_bytes_mean, double budget_share) {
  for (const SpacingCost& cost : kSpacingCosts)
    if (kEntryBytes + cost.share * file_bytes_mean <= budget_share * file_bytes_mean) return cost.spacing;
  return std::nullopt;
}

std::shared_ptr<DecodeIndex> DecodeIndex::open(const Dataset& dataset, const DecodeIndexOptions& options) {
  auto self = std::make_shared<DecodeIndex>();
  self->plan_fields(dataset, options);
  self->flushed_ns_ = self->compacted_ns_ = monotonic_ns();
  std::uint64_t bytes = 0;
  for (const Field& field : self->fields_) {
    std::error_code none;
    if (!field.wanted) continue;
    const std::uintmax_t size = std::filesystem::file_size(field.path, none);
    if (!none) bytes += size;
  }
  if (bytes <= options.open_at_once_bytes_max)
    self->open_stores();
  else
    self->asked_ = true;
  return self;
}

std::shared_ptr<DecodeIndex> DecodeIndex::open_whole(const Dataset& dataset,
                                                     const DecodeIndexOptions& options) {
  DecodeIndexOptions whole = options;
  whole.open_at_once_bytes_max = UINT64_MAX;
  return open(dataset, whole);
}

/// Which fields get an index, where, and how fine.
void DecodeIndex::plan_fields(const Dataset& dataset, const DecodeIndexOptions& options) {
  fields_.resize(dataset.fields().size());
  verify_every_ = options.verify_every;
  if (!options.wanted) reason_ = "switched off";
  if (options.wanted && options.cache_dir.empty()) reason_ = "there is no cache folder";
  if (!reason_.empty()) return;
  reason_ = "no field is read from encoded files";
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const Dataset::Field& source = dataset.fields()[f];
    if (source.kind != Kind::kEncoded) continue;
    const double mean = mean_bytes(*source.manifest);
    const std::optional<int> spacing =
        options.spacing ? options.spacing : spacing_for(mean, options.budget_share);
    if (!spacing) {
      reason_ = fmt::format("files of {} B in the mean are too small for an index within the budget",
                            static_cast<std::uint64_t>(mean));
      continue;
    }
    // A spacing that the user asked for is not held to the budget of the automatic choice.
    const double share = options.spacing ? std::max(options.budget_share, 0.1) : options.budget_share;
    const double quota = 2 * share * mean * static_cast<double>(source.manifest->count());
    const io::StoreIdentity identity{source.manifest->fingerprint(), io::kDecodeIndexStore,
                                     source.manifest->count()};
    fields_[f] = {
        .manifest = source.manifest,
        .spacing = *spacing,
        .wanted = true,
        .path = io::store_path(options.cache_dir, identity),
        .identity = identity,
        .quota_bytes = std::clamp(static_cast<std::uint64_t>(quota), kQuotaBytesMin, io::kStoreBytesMax)};
    state_ = State::kOpening;
  }
}

void DecodeIndex::open_stores() {
  if (state_ != State::kOpening) return;
  bool opened = false;
  for (Field& field : fields_) {
    if (!field.wanted) continue;
    auto store = open_shared(field.path, field.identity,
                             {.bytes_max = field.quota_bytes,
                              .readers = readers_of_some(*field.manifest, files_),
                              .pending_bytes_max = kPendingBytesMax});
    if (store)
      field.store = std::move(*store);
    else
      reason_ = store.error().message;
    opened = opened || store;
  }
  if (opened) reason_.clear();
  state_.store(opened ? State::kReady : State::kOff, std::memory_order_release);
}

// A function of epoch and record, so that no order of them can hide a record from it.
bool DecodeIndex::verifies(std::uint64_t source, std::uint64_t epoch) const {
  if (!ready() || verify_every_ == 0) return false;
  static const Philox4x32::Key kKey = op_key(0, "loader/data/decode_index", 0);
  return SampleRng(kKey, epoch, source, 0).next_below(verify_every_) == 0;
}

std::span<FieldIndex> DecodeIndex::begin(Scratch& scratch, std::uint64_t source, std::uint64_t epoch) const {
  scratch.begun = ready();
  if (!scratch.begun) return {};
  scratch.fields.resize(fields_.size());
  scratch.known.resize(fields_.size());
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    FieldIndex& index = scratch.fields[f];
    index.known = {};
    if (!fields_[f].store) continue;
    index.known = entry(f, source, scratch.known[f]);
    index.spacing = fields_[f].spacing;
    index.verify = !index.known.empty() && verifies(source, epoch);
  }
  return scratch.fields;
}

std::span<const std::byte> DecodeIndex::entry(std::size_t field, std::uint64_t source,
                                              std::vector<std::byte>& memory) const {
  if (!ready() || !fields_[field].store) return {};
  return read_entry(*fields_[field].store, source, memory);
}

void DecodeIndex::end(const Scratch& scratch, std::uint64_t source) {
  if (!scratch.begun) return;
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    if (!fields_[f].store) continue;
    const FieldIndex& index = scratch.fields[f];
    if (index.use == IndexUse::kUsed) hits_.fetch_add(1, std::memory_order_relaxed);
    if (index.use == IndexUse::kRefused) refused_.fetch_add(1, std::memory_order_relaxed);
    if (index.use == IndexUse::kMismatch) {
      mismatches_.fetch_add(1, std::memory_order_relaxed);
      mismatch_record_.store(static_cast<std::int64_t>(source), std::memory_order_relaxed);
    }
    if (!index.made.empty()) append(fields_[f], source, index.made);
  }
}

void DecodeIndex::append(const Field& field, std::uint64_t source, std::span<const std::uint8_t> bytes) {
  field.store->keep_from_others(io::record_readers(*field.manifest, source, files_));
  const bool kept = field.store->append(source, std::as_bytes(bytes));
  (kept ? made_ : dropped_).fetch_add(1, std::memory_order_relaxed);
  if (kept) pending_bytes_.fetch_add(bytes.size(), std::memory_order_relaxed);
}

bool DecodeIndex::ask_flush() {
  if (!ready() || asked_.load(std::memory_order_relaxed)) return false;
  const bool due = pending_bytes_.load(std::memory_order_relaxed) > 0 ||
                   monotonic_ns() - flushed_ns_.load(std::memory_order_relaxed) > kRefreshNs;
  return due && !asked_.exchange(true);
}

bool DecodeIndex::urgent() const {
  return state_.load(std::memory_order_relaxed) == State::kOpening ||
         pending_bytes_.load(std::memory_order_relaxed) > kPendingBytesMax / 2;
}

// Trouble shows in the store's own statistics; a stream goes on without. Entries that are not written for lack of memory
// are written the next time, or lost. That costs time and no bit.
void DecodeIndex::flush() try {
  asked_ = false;
  pending_bytes_ = 0;
  open_stores();
  if (!ready()) return;
  const std::int64_t now = monotonic_ns();
  const std::uint64_t dropped = dropped_.load(std::memory_order_relaxed);
  const bool full = dropped_seen_.exchange(dropped) != dropped;
  const bool compacts = full || now - compacted_ns_.load(std::memory_order_relaxed) > kCompactNs;
  for (const Field& field : fields_) {
    if (!field.store) continue;
    static_cast<void>(field.store->flush());
    static_cast<void>(field.store->refresh());
    if (!compacts) continue;
    const io::StoreStats store = field.store->stats();
    static_cast<void>(field.store->compact(full && store.garbage_bytes > store.file_bytes / 4));
  }
  flushed_ns_ = monotonic_ns();
  if (compacts) compacted_ns_ = monotonic_ns();
} catch (const std::bad_alloc&) {
}

void DecodeIndex::close() {
  if (!ready()) return;
  flush();
  for (const Field& field : fields_)
    if (field.store && field.store->stats().file_bytes <= kCompactAtCloseBytes)
      static_cast<void>(field.store->compact());
}

DecodeIndexStats DecodeIndex::stats() const {
  const State state = state_.load(std::memory_order_acquire);
  DecodeIndexStats stats{.on = state != State::kOff};
  if (state == State::kOpening) {
    stats.reason = "it is being opened";
    return stats;
  }
  stats.reason = reason_;
  stats.hits = hits_;
  stats.made = made_;
  stats.refused = refused_;
  stats.mismatches = mismatches_;
  stats.mismatch_record = mismatch_record_;
  stats.dropped = dropped_;
  bool first = true;
  for (const Field& field : fields_) {
    if (!field.store) continue;
    if (std::exchange(first, false)) stats.spacing = field.spacing;
    const io::StoreStats store = field.store->stats();
    stats.entries += store.entries;
    stats.bytes += store.file_bytes;
    if (stats.reason.empty()) stats.reason = store.read_only_reason;
  }
  const MutexLock lock(looking_);
  if (looked_ns_ == 0 || monotonic_ns() - looked_ns_ > kLookNs) {
    known_share_ = points_known_share();
    looked_ns_ = monotonic_ns();
  }
  stats.points_known_share = known_share_;
  return stats;
}

double DecodeIndex::points_known_share() const {
  transforms::IndexMaker reader;
  std::vector<std::byte> bytes(4096);
  double known = 0;
  std::uint64_t looked = 0;
  for (const Field& field : fields_) {
    if (!field.store) continue;
    const std::uint64_t count = field.store->identity().record_count;
    const std::uint64_t step = std::max<std::uint64_t>(1, count / kSamplesMax);
    for (std::uint64_t record = 0; record < count; record += step) {
      const std::span<const std::byte> entry = read_entry(*field.store, record, bytes);
      if (entry.empty()) continue;
      const auto facts = reader.facts(entry);
      if (!facts || facts->points_max == 0) continue;
      known += static_cast<double>(facts->points) / static_cast<double>(facts->points_max);
      ++looked;
    }
  }
  return looked == 0 ? 0 : known / static_cast<double>(looked);
}

}  // namespace carya::loader
