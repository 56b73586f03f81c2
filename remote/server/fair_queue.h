#pragma once

#include <cstdint>
#include <set>
#include <utility>

namespace carya::remote {

/// Chooses who is served next among clients that wait, by weight (stride scheduling): a client of weight 3 is served
/// three times while one of weight 1 is served once. A client that begins to wait has no turns saved up. Threads: owner
/// only.
class FairQueue {
 public:
  /// Let client `who` wait for a turn; it must not wait already. `weight` is above 0.
  void wait(std::uint64_t who, double weight) { waiting_.emplace(now_ + 1 / weight, who); }
  bool none_waits() const { return waiting_.empty(); }
  /// The client whose turn is next. At least one must wait.
  std::uint64_t next() const { return waiting_.begin()->second; }
  /// Serve next(): it waits no longer.
  void take_next() {
    now_ = waiting_.begin()->first;
    waiting_.erase(waiting_.begin());
    if (waiting_.empty()) now_ = 0;
  }
  /// Remove a client that gave up waiting, if it waits.
  void leave(std::uint64_t who) {
    std::erase_if(waiting_, [who](const auto& one) { return one.second == who; });
  }

 private:
  std::set<std::pair<double, std::uint64_t>> waiting_;  // time of the turn, client
  double now_ = 0;                                      // time of the last turn
};

}  // namespace carya::remote
