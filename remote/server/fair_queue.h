#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace carya::remote {

/// Chooses who is served next among clients that wait: users take turns by weight, and in a user's turn his clients do by
/// theirs (stride scheduling: one of weight 3 is served three times while one of weight 1 is served once). So what a
/// client leaves is its user's before it is anybody's. Who begins to wait has no turns saved up. Threads: owner only.
class FairQueue {
 public:
  struct Weights {
    double user = 1, client = 1;  ///< above 0
  };
  /// Let client `who` wait for a turn; it must not wait already. The user has the weight that was said last.
  void wait(std::uint64_t who, const std::string& user, const Weights& weights) {
    User& its = users_[user];
    its.weight = weights.user;
    if (its.waiting.empty()) turns_.emplace(now_ + 1 / its.weight, user);
    its.waiting.emplace(its.now + 1 / weights.client, who);
  }
  bool none_waits() const { return turns_.empty(); }
  /// The client whose turn is next. At least one must wait.
  std::uint64_t next() const { return users_.at(turns_.begin()->second).waiting.begin()->second; }
  /// Serve next(): it waits no longer.
  void take_next() {
    const auto turn = turns_.extract(turns_.begin()).value();
    const auto user = users_.find(turn.second);
    now_ = turn.first;
    User& its = user->second;
    its.now = its.waiting.begin()->first;
    its.waiting.erase(its.waiting.begin());
    if (its.waiting.empty())
      users_.erase(user);
    else
      turns_.emplace(now_ + 1 / its.weight, turn.second);
    if (turns_.empty()) now_ = 0;
  }
  /// Remove a client that gave up waiting, if it waits.
  void leave(std::uint64_t who) {
    for (auto& [name, its] : users_)
      std::erase_if(its.waiting, [who](const auto& one) { return one.second == who; });
    std::erase_if(turns_, [this](const auto& turn) { return users_.at(turn.second).waiting.empty(); });
    std::erase_if(users_, [](const auto& user) { return user.second.waiting.empty(); });
  }

 private:
  struct User {
    double weight = 1, now = 0;                            // the time of its last client's turn
    std::set<std::pair<double, std::uint64_t>> waiting{};  // time of the turn, client
  };
  std::map<std::string, User> users_;  // of whom somebody waits
  std::set<std::pair<double, std::string>> turns_;
  double now_ = 0;  // time of the last turn
};

}  // namespace carya::remote
