#include "loader/plan/kept_place.h"

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "loader/plan/order_choice.h"

namespace carya::loader {
namespace {

using Json = nlohmann::json;

Json microseconds(double seconds) {
  return seconds > 0 ? Json(seconds * 1e6) : Json(nullptr);
}

}  // namespace

bool KeptPlace::distrusts(std::uint64_t source) const {
  if (damaged == 0) return false;
  const MutexLock lock(distrusting);
  return distrusted.contains(source);
}

void KeptPlace::distrust(std::uint64_t source) {
  const MutexLock lock(distrusting);
  try {
    distrusted.insert(source);
  } catch (const std::bad_alloc&) {
  }
  damaged = std::max<std::uint64_t>(1, distrusted.size());
}

bool KeptPlace::uses(autotune::CacheStorage storage) const {
  return storage == autotune::CacheStorage::kMemory ||
         std::ranges::any_of(files->tiers(),
                             [&](const auto& tier) { return storage_of(tier->options().kind) == storage; });
}

double KeptPlace::mean_bytes() const {
  const SampleCacheStats stats = samples->stats();
  if (stats.records > 0) return static_cast<double>(stats.bytes) / static_cast<double>(stats.records);
  for (const auto& tier : files->tiers())
    if (const io::SegmentStoreStats store = tier->stats().store; store.entries > 0)
      return static_cast<double>(store.entry_bytes) / static_cast<double>(store.entries);
  return 0;
}

double KeptPlace::hit_s() const {
  if (hits.timed() >= kTrustedSamples) return hits.mean_s();
  for (const TimedSamples& of_tier : file_hits)
    if (of_tier.timed() >= kTrustedSamples) return of_tier.mean_s();
  return 0;
}

std::string tier_report(const KeptPlace& place, std::size_t number, double sample_s) {
  const FileTier& tier = *place.files->tiers()[number];
  const TimedSamples& hits = place.file_hits.at(number);
  const std::uint64_t looked = place.looked;
  const FileTierStats stats = tier.stats();
  const double count = static_cast<double>(hits.count());
  const double saved = count * (sample_s - hits.mean_s()) - stats.read_cpu_s - stats.write_cpu_s;
  const Json report{{"tier", tier.options().kind == TierKind::kDisk ? "disk" : "shared"},
                    {"path", tier.options().folder},
                    {"capacity_bytes", tier.options().capacity_bytes},
                    {"bytes", stats.store.tier_bytes},
                    {"records", stats.store.entries},
                    {"hits", hits.count()},
                    {"hit_share", looked > 0 ? count / static_cast<double>(looked) : 0.0},
                    {"hit_us", microseconds(hits.mean_s())},
                    {"fetched", stats.fetched},
                    {"fetched_bytes", stats.fetched_bytes},
                    {"fetch_failures", stats.fetch_failures},
                    {"written", stats.store.written},
                    {"written_bytes", stats.store.written_bytes},
                    {"write_failures", stats.write_failures},
                    {"damaged", stats.store.damaged},
                    {"admitted_share", stats.admitted_share},
                    {"past_page_cache", stats.past_page_cache},
                    {"full", stats.is_full},
                    {"over_budget", stats.is_over_budget},
                    {"age_s", stats.store.oldest_s > 0
                                  ? Json(std::max(0.0, static_cast<double>(unix_s()) - stats.store.oldest_s))
                                  : Json(nullptr)},
                    {"open", stats.is_open},
                    {"read_cpu_s", stats.read_cpu_s},
                    {"write_cpu_s", stats.write_cpu_s},
                    {"saved_cpu_s", hits.timed() > 0 && sample_s > 0 ? Json(saved) : Json(nullptr)},
                    {"trouble", stats.trouble.empty() ? Json(nullptr) : Json(stats.trouble)}};
  return report.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace carya::loader
