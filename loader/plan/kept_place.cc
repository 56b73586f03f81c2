#include "loader/plan/kept_place.h"

#include <algorithm>
#include <new>
#include <utility>

#include "loader/plan/order_choice.h"
#include "transforms/plan/source_parts.h"

namespace carya::loader {
bool KeptPlace::distrusts(std::uint64_t sample) const {
  if (damaged == 0) return false;
  const MutexLock lock(distrusting);
  return distrusted.contains(sample);
}

void KeptPlace::distrust(std::uint64_t sample) {
  const MutexLock lock(distrusting);
  try {
    distrusted.insert(sample);
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
  if (figures->hits.timed() >= kTrustedSamples) return figures->hits.mean_s();
  for (const TimedSamples& of_tier : figures->file_hits)
    if (of_tier.timed() >= kTrustedSamples) return of_tier.mean_s();
  return 0;
}

bool part_plan(KeptPlace& place, const std::shared_ptr<const transforms::Pipeline>& pipeline,
               const transforms::PlanOptions& whole) {
  if (place.at.form != autotune::CacheForm::kResults) {
    auto parts = place.keeps_records() ? transforms::part_records(*pipeline)
                                       : transforms::part_at_source(pipeline, whole);
    if (!parts) return false;
    place.before = std::move(parts->before);
    place.behind = std::move(parts->behind);
    place.packed = std::move(parts->packed);
    return true;
  }
  transforms::PlanOptions before = whole, behind = whole;
  before.last = behind.first = place.at.ops;
  before.packed = behind.packed = true;
  auto first = transforms::Plan::compile(pipeline, before);
  auto last = transforms::Plan::compile(pipeline, behind);
  if (!first || !last) return false;
  place.before = std::move(*first);
  place.behind = std::move(*last);
  return true;
}

std::shared_ptr<KeptPlace> of_period(const KeptPlace& place, std::uint64_t epoch,
                                     std::shared_ptr<SampleCache> samples) {
  auto next = std::make_shared<KeptPlace>();
  next->order = place.order;
  next->at = place.at;
  next->name = place.name;
  next->begin(place.groups, epoch);
  next->before = place.before;
  next->behind = place.behind;
  next->samples = std::move(samples);
  next->figures = place.figures;
  return next;
}

}  // namespace carya::loader
