#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

namespace carya::loader {

/// A worker that is there, as an executor sees it.
struct WorkerSeen {
  /// The number of chunks that the worker lets this host have at a time, times its speed relative to the fastest
  /// worker. A worker that more hosts use allows fewer chunks.
  double room = 0;
  std::uint64_t order = 0;  ///< decides among workers with the same room; differs from executor to executor
  bool used = false;
};

/// Choose `count` workers to use. Workers in use stay in use; the others are added by room, so that the hosts of a
/// fleet spread over it. `moves`: leave one worker for an unused one with at least twice its room. The caller sets
/// `moves` at random looks, since two hosts that share a worker would else both leave it.
inline void choose_workers(std::span<WorkerSeen> workers, std::size_t count, bool moves) {
  const auto roomier = [](const WorkerSeen* a, const WorkerSeen* b) {
    return std::tuple(b->room, a->order) < std::tuple(a->room, b->order);
  };
  std::vector<WorkerSeen*> used, others;
  for (WorkerSeen& worker : workers) (worker.used ? used : others).push_back(&worker);
  std::ranges::sort(used, roomier);
  std::ranges::sort(others, roomier);
  for (; used.size() > count; used.pop_back()) used.back()->used = false;
  if (moves && !used.empty() && used.size() == count && !others.empty() &&
      2 * used.back()->room <= others.front()->room)
    std::swap(used.back()->used, others.front()->used);
  for (std::size_t i = 0; i < others.size() && used.size() + i < count; ++i) others[i]->used = true;
}

}  // namespace carya::loader
