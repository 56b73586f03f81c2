#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autotune/cache/cache_choice.h"
#include "loader/cache/cache_options.h"
#include "loader/cache/storage_meter.h"
#include "loader/cache/storage_probe.h"
#include "loader/plan/kept_place.h"
#include "loader/plan/plan_profile.h"

namespace carya::loader {

/// The storages in which "auto" may keep samples of one stream, with what is known of each: from earlier streams, from a
/// probe where nothing is known or where that is old and no tier measures, and from the tiers that work. Threads: owner
/// only.
class CacheStorages {
 public:
  /// `threads`: of the stream, that compute.
  CacheStorages(const CacheOptions& cache, std::shared_ptr<WriteBudget> budget,
                std::span<const StorageProfile> earlier, double threads);
  /// Take over what probes have found, and what the tiers of the place did. Call it about once a second. `kept`: null: none
  /// is used. True: one of the storages is another one since then.
  bool look(const KeptPlace* kept, std::int64_t now_s);
  /// Begin the probes that are due, for samples of these sizes.
  void probe(const KeptPlace* kept, double small_bytes, double large_bytes, std::int64_t now_s);

  /// A tier of samples of so many bytes, of which there are so many in all; none: there is no such storage, or nothing is
  /// known of it. `memory_bytes`: what the page cache may take.
  std::optional<autotune::CacheTier> tier(autotune::CacheStorage storage, double bytes, double records,
                                          double memory_bytes) const;
  /// What the next stream should know.
  std::vector<StorageProfile> known() const;
  /// For stats(), as a JSON list; `bytes`: of a sample.
  std::string report(double bytes, std::int64_t now_s) const;

  /// What is known of a storage that is not used is found out anew after so long, then after twice as long, and so on.
  static constexpr std::int64_t kProbeAgainS = 600;

 private:
  struct Storage {
    autotune::CacheStorage which;
    CacheFolder folder;
    StorageMeter meter;
    std::unique_ptr<StorageProbe> probe{};  // that is under way
    std::int64_t next_probe_s = 0, gap_s = kProbeAgainS;
    std::string trouble{};  // of the last probe
  };
  const double threads_;
  const std::shared_ptr<WriteBudget> budget_;
  std::vector<Storage> storages_;
};

}  // namespace carya::loader
