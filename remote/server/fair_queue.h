#pragma once

#include <cstdint>
#include <set>
#include <utility>

namespace carya::remote {

/// Whose turn it is among those that wait: with weights 3 and 1 the one has three turns while the other has
/// one (stride scheduling). Who begins to wait has no turns saved up. Threads: owner only.
class Turns {
 public:
  /// It waits for a turn; not while it waits already. `weight` is above 0.
  void wait(std::uint64_t who, double weight) { waiting_.emplace(now_ + 1 / weight, who); }
  bool none_waits() const { return waiting_.empty(); }
  /// Of those that wait, of which there is one.
  std::uint64_t next() const { return waiting_.begin()->second; }
  /// The next one has its turn, and waits no longer.
  void take_next() {
    now_ = waiting_.begin()->first;
    waiting_.erase(waiting_.begin());
    if (waiting_.empty()) now_ = 0;
  }
  void leave(std::uint64_t who) {
    std::erase_if(waiting_, [who](const auto& one) { return one.second == who; });
  }

 private:
  std::set<std::pair<double, std::uint64_t>> waiting_;  // by when it is their turn
  double now_ = 0;
};

}  // namespace carya::remote
