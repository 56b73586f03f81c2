#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

namespace carya::loader {

/// A worker that is there, as its crew sees it.
struct WorkerSeen {
  /// Chunks that it lets this host have at a time, fewer the more hosts ask it, times its speed beside the
  /// fastest one's.
  double room = 0;
  std::uint64_t order = 0;  ///< among those with the same room: another one for every crew
  bool used = false;
};

/// Sets who of them is used, `count` in all: who was goes on, more are those with the most room, so that the
/// hosts of a fleet spread over it. `moves`: one with half the room of one that is not used, or less, is left
/// for that; to be said at random looks, or two hosts that share a worker would both leave it.
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
