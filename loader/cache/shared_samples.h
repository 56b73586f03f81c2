#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "loader/cache/sample_cache.h"
#include "loader/read/shared_budget.h"

namespace carya::loader {

/// Whose samples are looked for: streams of this process with the same records and the same ops before the place.
struct SharedSamplesKey {
  std::shared_ptr<const void> records;  ///< the dataset as it was opened, with its versions of files
  std::string ops;                      ///< the ops before the place, in their order, as JSON
};

/// The samples that other streams of this process keep for this key, or a new cache, which gets `wanted_bytes` of
/// `budget` or what is left of it (null: all that it wants). A cache lives as long as some stream uses it.
/// Threads: thread-safe. May throw std::bad_alloc.
std::shared_ptr<SampleCache> shared_samples(const SharedSamplesKey& key, std::uint64_t records,
                                            std::uint64_t wanted_bytes,
                                            const std::shared_ptr<SharedBudget>& budget);

/// Those that some stream of this process keeps for this key now; null: none does. Threads: thread-safe.
std::shared_ptr<SampleCache> find_shared_samples(const SharedSamplesKey& key);

}  // namespace carya::loader
