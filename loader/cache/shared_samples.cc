#include "loader/cache/shared_samples.h"

#include <algorithm>
#include <list>
#include <utility>

#include "base/mutex.h"
#include "shm/memory_limit.h"

namespace carya::loader {
namespace {

/// A cache, and its part of the budget for as long as it lives.
struct Owned {
  SharedBudget::Part part;
  SampleCache samples;
};

struct Known {
  std::weak_ptr<const void> records;
  std::string ops;
  std::weak_ptr<SampleCache> samples;
};

/// The caches of this process, and the lock of their list.
struct Caches {
  Mutex mutex;
  std::list<Known> all GUARDED_BY(mutex);
};
Caches& caches() {
  static Caches of_process;
  return of_process;
}

bool same_object(const std::weak_ptr<const void>& one, const std::shared_ptr<const void>& other) {
  return !one.owner_before(other) && !other.owner_before(one);
}

std::shared_ptr<SampleCache> find(const std::list<Known>& all, const SharedSamplesKey& key) {
  for (const Known& known : all)
    if (same_object(known.records, key.records) && known.ops == key.ops)
      if (auto samples = known.samples.lock()) return samples;
  return nullptr;
}

}  // namespace

std::shared_ptr<SampleCache> find_shared_samples(const SharedSamplesKey& key) {
  Caches& known = caches();
  const MutexLock lock(known.mutex);
  return find(known.all, key);
}

std::shared_ptr<SampleCache> shared_samples(const SharedSamplesKey& key, std::uint64_t records,
                                            std::uint64_t wanted_bytes,
                                            const std::shared_ptr<SharedBudget>& budget) {
  Caches& known = caches();
  const MutexLock lock(known.mutex);
  known.all.remove_if([](const Known& one) { return one.samples.expired(); });
  if (auto samples = find(known.all, key)) return samples;
  SharedBudget::Part part;
  std::uint64_t bytes = wanted_bytes;
  if (budget) {
    bytes = std::min(bytes, budget->left());
    if (auto reserved = budget->reserve(bytes))
      part = std::move(*reserved);
    else
      bytes = 0;  // somebody else was faster
  }
  const SampleCacheOptions options{.records = records, .capacity_bytes = bytes, .available_bytes = [] {
                                     return shm::available_memory_bytes();
                                   }};
  const std::shared_ptr<Owned> owned(new Owned{std::move(part), SampleCache(options)});
  std::shared_ptr<SampleCache> samples(owned, &owned->samples);
  known.all.push_back({key.records, key.ops, samples});
  return samples;
}

}  // namespace carya::loader
