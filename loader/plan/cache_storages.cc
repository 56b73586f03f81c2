#include "loader/plan/cache_storages.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "shm/memory_limit.h"

namespace carya::loader {
namespace {

using autotune::CacheStorage;
using Json = nlohmann::json;

/// Of the tier of a place in this storage; null: it has none there.
const FileTier* tier_of(const KeptPlace* kept, CacheStorage storage) {
  if (kept == nullptr) return nullptr;
  for (const auto& tier : kept->files->tiers())
    if (storage_of(tier->options().kind) == storage) return tier.get();
  return nullptr;
}

/// Bytes that the page cache would not have when they are read again are read from the storage itself.
StorageWork read_of(double kept_bytes, double memory_bytes) {
  return kept_bytes > memory_bytes ? StorageWork::kReadPast : StorageWork::kRead;
}

Json rate(double bytes, const SizeCost& cost) {
  const double seconds = cost.at(bytes);
  return seconds > 0 ? Json(bytes / seconds) : Json(nullptr);
}

}  // namespace

CacheStorages::CacheStorages(const CacheOptions& cache, std::shared_ptr<WriteBudget> budget,
                             std::span<const StorageProfile> earlier, double threads)
    : threads_(threads), budget_(std::move(budget)) {
  for (const auto& [which, folder] :
       {std::pair{CacheStorage::kDisk, cache.disk}, std::pair{CacheStorage::kShared, cache.shared}}) {
    if (folder.bytes == 0) continue;
    const auto found = std::ranges::find(earlier, folder.path, &StorageProfile::folder);
    const bool known = found != earlier.end();
    storages_.push_back({.which = which,
                         .folder = folder,
                         .meter = StorageMeter(known ? std::optional(found->rates) : std::nullopt),
                         .next_probe_s = known ? found->rates.measured_at_s + kProbeAgainS : 0});
  }
}

bool CacheStorages::look(const KeptPlace* kept, std::int64_t now_s) {
  bool changed = false;
  for (Storage& storage : storages_) {
    if (const auto found = storage.probe ? storage.probe->result() : std::nullopt) {
      storage.trouble = *found ? "" : found->error().message;
      if (*found) storage.meter.set(**found);
      storage.probe.reset();
    }
    const FileTier* const tier = tier_of(kept, storage.which);
    if (tier == nullptr) {
      storage.meter.forget_tier();
      continue;
    }
    const FileTierStats stats = tier->stats();
    const StorageWork read = storage.which == CacheStorage::kDisk
                                 ? (stats.past_page_cache ? StorageWork::kReadPast : StorageWork::kRead)
                                 : read_of(static_cast<double>(stats.store.entry_bytes),
                                           static_cast<double>(tier->options().page_cache_bytes));
    changed |= storage.meter.look(stats, read, now_s);
    storage.next_probe_s = std::max(storage.next_probe_s, now_s + storage.gap_s);
  }
  return changed;
}

void CacheStorages::probe(const KeptPlace* kept, double small_bytes, double large_bytes, std::int64_t now_s) {
  for (Storage& storage : storages_) {
    if (storage.probe || now_s < storage.next_probe_s || tier_of(kept, storage.which) != nullptr) continue;
    storage.probe = StorageProbe::begin({.folder = storage.folder.path,
                                         .small_bytes = static_cast<std::uint64_t>(small_bytes),
                                         .large_bytes = static_cast<std::uint64_t>(large_bytes),
                                         .budget = budget_});
    storage.next_probe_s = now_s + storage.gap_s;
    storage.gap_s *= 2;
  }
}

std::optional<autotune::CacheTier> CacheStorages::tier(CacheStorage storage, double bytes, double records,
                                                       double memory_bytes) const {
  const auto found = std::ranges::find(storages_, storage, &Storage::which);
  if (found == storages_.end()) return std::nullopt;
  const auto rates = found->meter.rates();
  if (!rates) return std::nullopt;
  // More than a day's bytes are not written before the next day.
  const auto capacity =
      static_cast<double>(std::min(found->folder.bytes, budget_ ? budget_->limit() : WriteBudget::kNoLimit));
  const StorageWork read = read_of(std::min(capacity, bytes * records), memory_bytes);
  return autotune::CacheTier{.capacity_bytes = capacity,
                             .read_cpu_s = rates->cpu_of(read).at(bytes),
                             .write_cpu_s = rates->cpu_of(StorageWork::kWrite).at(bytes),
                             .fetch_s = threads_ * rates->time_of(read).at(bytes),
                             .put_s = threads_ * rates->time_of(StorageWork::kWrite).at(bytes),
                             .error = found->meter.error(read),
                             .storage = storage};
}

std::vector<StorageProfile> CacheStorages::known() const {
  std::vector<StorageProfile> known;
  for (const Storage& storage : storages_)
    if (const auto rates = storage.meter.rates())
      known.push_back({.folder = storage.folder.path, .rates = *rates});
  return known;
}

std::string CacheStorages::report(double bytes, std::int64_t now_s) const {
  Json all = Json::array();
  for (const Storage& storage : storages_) {
    Json one{{"tier", storage.which == CacheStorage::kDisk ? "disk" : "shared"},
             {"path", storage.folder.path},
             {"capacity_bytes", storage.folder.bytes},
             {"known", false},
             {"trouble", storage.trouble.empty() ? Json(nullptr) : Json(storage.trouble)}};
    if (const auto rates = storage.meter.rates()) {
      one["known"] = true;
      one["sample_bytes"] = bytes;
      one["cached_bytes_per_s"] = rate(bytes, rates->time_of(StorageWork::kRead));
      one["read_bytes_per_s"] = rate(bytes, rates->time_of(StorageWork::kReadPast));
      one["write_bytes_per_s"] = rate(bytes, rates->time_of(StorageWork::kWrite));
      one["age_s"] = std::max<std::int64_t>(0, now_s - rates->measured_at_s);
    }
    all.push_back(std::move(one));
  }
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace carya::loader
