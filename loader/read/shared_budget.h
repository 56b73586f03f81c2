#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace carya::loader {

/// Bytes of shared memory that the jobs of a process may have, all together. They are reserved before
/// anything is made, so that many who ask at once cannot have more than there is. Threads: thread-safe.
class SharedBudget : public std::enable_shared_from_this<SharedBudget> {
 public:
  /// Bytes that are somebody's until it is destroyed. Threads: owner only.
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
  /// None: so many are not left.
  std::optional<Part> reserve(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes > limit_ - std::min(limit_, used_)) return std::nullopt;
    used_ += bytes;
    return Part(shared_from_this(), bytes);
  }
  /// What is reserved stays so, also beyond a lower limit.
  void set_limit(std::uint64_t limit) {
    const std::lock_guard lock(mutex_);
    limit_ = limit;
  }
  std::uint64_t used() const {
    const std::lock_guard lock(mutex_);
    return used_;
  }
  std::uint64_t left() const {
    const std::lock_guard lock(mutex_);
    return limit_ - std::min(limit_, used_);
  }

 private:
  explicit SharedBudget(std::uint64_t limit) : limit_(limit) {}
  void give_back(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
  }

  mutable std::mutex mutex_;  // guards what follows
  std::uint64_t limit_ = 0;
  std::uint64_t used_ = 0;
};

}  // namespace carya::loader
