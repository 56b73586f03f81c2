#pragma once

#include <cstddef>

#include "loader/read/read_client.h"

namespace carya::loader {

/// Whether a client that has `taken` places may take one more while `free` are left: three for each free one. So a
/// single client uses three quarters of the places, and some stay free however many clients have storage that hangs.
/// Source: Choudhury and Hahne, Dynamic queue length thresholds, IEEE/ACM Transactions on Networking 6(2), 1998.
constexpr bool may_take_more(std::size_t taken, std::size_t free) {
  return taken < 3 * free;
}

/// The clients that take turns, in order. A client is in it at most once. Nothing here needs memory, so nothing can
/// fail. Threads: as its owner.
class ReadTurns {
 public:
  std::size_t size() const { return size_; }
  const ReadClient* first() const { return first_; }

  /// Does nothing if the client is in it already.
  void push_back(ReadClient& client) {
    if (client.has_turn) return;
    client.has_turn = true;
    client.next_turn = nullptr;
    (last_ != nullptr ? last_->next_turn : first_) = &client;
    last_ = &client;
    ++size_;
  }
  /// Take the first client out. There must be one.
  ReadClient& pop_front() {
    ReadClient& client = *first_;
    first_ = client.next_turn;
    if (first_ == nullptr) last_ = nullptr;
    client.has_turn = false;
    --size_;
    return client;
  }
  /// Take the client with this number out, if it is there.
  void remove(std::uint64_t number) {
    for (std::size_t left = size_; left > 0; --left) {
      ReadClient& client = pop_front();
      if (client.number() != number) push_back(client);
    }
  }

 private:
  ReadClient* first_ = nullptr;
  ReadClient* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace carya::loader
