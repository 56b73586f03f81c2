#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::loader {

/// Tells who schedules a stream that samples have come from files. Threads: thread-safe.
class FetchBell {
 public:
  /// Errors: kExhausted (descriptors).
  static Result<std::shared_ptr<FetchBell>> create() {
    UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fd) return fail_errno("cache", errno);
    return std::shared_ptr<FetchBell>(new FetchBell(std::move(fd)));
  }
  int fd() const { return fd_.get(); }
  void ring() const {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(fd_.get(), &one, sizeof one));  // full: it rings already
  }
  void quiet() const {
    std::uint64_t count = 0;
    static_cast<void>(!::read(fd_.get(), &count, sizeof count));  // empty: it did not ring
  }

 private:
  explicit FetchBell(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

/// The samples that one chunk has asked of files. Each is settled once, by whoever is first: the thread that reads it, or
/// who has waited for it too long. The last one rings. Threads: thread-safe.
class FetchGroup {
 public:
  FetchGroup(std::size_t count, std::shared_ptr<const FetchBell> bell)
      : states_(count), open_(count), bell_(std::move(bell)) {}

  /// The sample `index` is in its memory, or will not come. Only the first call for it counts.
  void settle(std::size_t index, bool there) {
    State asked = State::kAsked;
    // Release: who sees that it is there sees its bytes.
    if (!states_[index].compare_exchange_strong(asked, there ? State::kThere : State::kNot,
                                                std::memory_order_acq_rel))
      return;
    if (open_.fetch_sub(1, std::memory_order_acq_rel) == 1) bell_->ring();
  }
  bool is_settled() const { return open_.load(std::memory_order_acquire) == 0; }
  /// Whether the sample is in its memory, once all are settled.
  bool is_there(std::size_t index) const {
    return states_[index].load(std::memory_order_acquire) == State::kThere;
  }

 private:
  enum class State : std::uint8_t { kAsked, kThere, kNot };
  std::vector<std::atomic<State>> states_;
  std::atomic<std::size_t> open_;
  const std::shared_ptr<const FetchBell> bell_;
};

}  // namespace carya::loader
