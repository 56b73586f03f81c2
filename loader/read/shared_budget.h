#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace carya::loader {

/// The bytes of shared memory that all jobs of a process may have together. A job reserves its bytes before it
/// allocates, so that jobs which begin at the same time cannot exceed the limit. Threads: thread-safe.
class SharedBudget : public std::enable_shared_from_this<SharedBudget> {
 public:
  /// Reserved bytes, which the destructor gives back. Threads: owner only.
  class Part {
   public:
    Part() = default;
    Part(Part&& other) noexcept : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
    Part& operator=(Part&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Part() {
      if (budget_) budget_->give_back(bytes_);
    }

   private:
    friend class SharedBudget;
    Part(std::shared_ptr<SharedBudget> budget, std::uint64_t bytes)
        : budget_(std::move(budget)), bytes_(bytes) {}
    std::shared_ptr<SharedBudget> budget_;
    std::uint64_t bytes_ = 0;
  };

  static std::shared_ptr<SharedBudget> create(std::uint64_t limit) {
    return std::shared_ptr<SharedBudget>(new SharedBudget(limit));
  }
  /// Returns nothing if fewer than `bytes` are left.
  std::optional<Part> reserve(std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    if (bytes > limit_ - std::min(limit_, used_)) return std::nullopt;
    used_ += bytes;
    return Part(shared_from_this(), bytes);
  }
  /// Reservations stay valid, even beyond a lower limit.
  void set_limit(std::uint64_t limit) {
    const MutexLock lock(mutex_);
    limit_ = limit;
  }
  std::uint64_t used() const {
    const MutexLock lock(mutex_);
    return used_;
  }
  std::uint64_t left() const {
    const MutexLock lock(mutex_);
    return limit_ - std::min(limit_, used_);
  }

 private:
  explicit SharedBudget(std::uint64_t limit) : limit_(limit) {}
  void give_back(std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    used_ -= bytes;
  }

  mutable Mutex mutex_;
  std::uint64_t limit_ GUARDED_BY(mutex_) = 0;
  std::uint64_t used_ GUARDED_BY(mutex_) = 0;
};

}  // namespace carya::loader
