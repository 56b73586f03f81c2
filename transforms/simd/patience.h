#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

namespace carya {

/// Whether the caller still wants a picture. A loop over rows asks after each row, with the work of that row, so that
/// no work as large as a picture runs unchecked. The function is called once for about a millisecond of work. A loop
/// that is told to stop leaves its output unspecified and returns; its caller then asks given_up().
///
/// Units:   work is in values (bytes of a uint8 picture), each counted as often as it is read or added up.
/// Threads: owner only.
class Patience {
 public:
  /// Call `go_on` from now on; empty: never. Clears given_up().
  void set(std::function<bool()> go_on) {
    go_on_ = std::move(go_on);
    given_up_ = false;
    left_ = go_on_ ? kStep : kEndless;
  }
  /// Count `work` (>= 0) more values. Returns false once the picture was given up.
  bool after(std::int64_t work) {
    left_ -= work;
    return left_ > 0 ? !given_up_ : ask();
  }
  /// Call the function now. Returns false once the picture was given up.
  bool ask() {
    if (!given_up_ && go_on_) given_up_ = !go_on_();
    left_ = go_on_ ? kStep : kEndless;
    return !given_up_;
  }
  bool given_up() const { return given_up_; }

 private:
  // Values between two calls: a blur or a resize takes 0.1 to 1 ns for each.
  static constexpr std::int64_t kStep = std::int64_t{4} << 20;
  static constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

  std::function<bool()> go_on_;
  std::int64_t left_ = kEndless;
  bool given_up_ = false;
};

/// patience->after(work), or true without a Patience.
inline bool goes_on(Patience* patience, std::int64_t work) {
  return patience == nullptr || patience->after(work);
}

}  // namespace carya
