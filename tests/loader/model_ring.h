#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "shm/slot_ring.h"
#include "tests/loader/short_memory.h"

namespace carya::loader {

/// What ends a history of a model test: something is not as it must be.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(bool holds, const char* what) {
  if (holds) return;
  const MemorySpared spared;
  throw Violation(what);
}

template <typename A, typename B>
void require_equal(const A& is, const B& must_be, const char* what) {
  if (is == must_be) return;
  const MemorySpared spared;
  throw Violation(std::string(what) + ": is " + std::to_string(is) + ", must be " + std::to_string(must_be));
}

/// A ring in plain memory with one reader, which says when its owner misuses it. A slot that is acquired is
/// full of garbage. Threads: owner only.
class ModelRing final : public shm::SlotRing {
 public:
  ModelRing(shm::SlotLayout layout, std::uint32_t slots)
      : layout_(std::move(layout)),
        bytes_(layout_.tensors().back().offset + layout_.tensors().back().bytes()),
        states_(slots, State::kFree),
        memory_(slots, std::vector<std::byte>(bytes_)),
        limit_(slots) {}

  enum class State : std::uint8_t { kFree, kFilling, kReady, kHeld };
  static constexpr std::byte kGarbage{0xEE};

  std::function<void(std::uint32_t slot)> on_acquired;
  std::function<void(std::uint32_t slot, std::uint64_t sequence, const shm::Meta& meta)> on_published;
  /// The owner found no slot and is about to ask for the bell: a release now rings none.
  std::function<void()> before_waiting;

  std::uint32_t count(State state) const {
    return static_cast<std::uint32_t>(std::ranges::count(states_, state));
  }
  bool limited() const { return limit_ < slots(); }
  /// Whether acquire() gives a slot now.
  bool has_room() const {
    return count(State::kFree) > 0 && count(State::kFilling) + count(State::kReady) < limit_;
  }

  // The reader. False: there is nothing to take, or to release.
  bool take() {
    if (published_.empty()) return false;
    states_[published_.front()] = State::kHeld;
    held_.push_back(published_.front());
    published_.pop_front();
    return true;
  }
  /// Release one of the slots that it holds. True with `rings`: the bell is rung if it was asked for.
  bool release(std::uint64_t choice, bool rings = true) {
    if (held_.empty()) return false;
    const auto at = held_.begin() + static_cast<std::ptrdiff_t>(choice % held_.size());
    states_[*at] = State::kFree;
    held_.erase(at);
    ++released_;
    if (rings && waiting_) rung_ = true;
    return true;
  }
  std::size_t held() const { return held_.size(); }
  std::uint64_t released() const { return released_; }
  bool rung() const { return rung_; }
  /// As the engine does it before it looks.
  void answer_bell() {
    rung_ = false;
    set_waiting(false);
  }

  const shm::SlotLayout& layout() const override { return layout_; }
  std::uint32_t slots() const override { return static_cast<std::uint32_t>(states_.size()); }
  void set_limit(std::uint32_t slots) override { limit_ = slots; }
  std::optional<std::uint32_t> acquire() override {
    if (!has_room()) return std::nullopt;
    const MemorySpared spared;
    turn_ = (turn_ + 1) % slots();
    while (states_[turn_] != State::kFree) turn_ = (turn_ + 1) % slots();
    states_[turn_] = State::kFilling;
    std::ranges::fill(memory_[turn_], kGarbage);
    on_acquired(turn_);
    return turn_;
  }
  std::byte* data(std::uint32_t slot) override { return memory_.at(slot).data(); }
  void publish(std::uint32_t slot, std::uint64_t sequence, const shm::Meta& meta, std::uint32_t) override {
    require(states_.at(slot) == State::kFilling, "a slot is published that is not being filled");
    const MemorySpared spared;
    states_[slot] = State::kReady;
    published_.push_back(slot);
    on_published(slot, sequence, meta);
  }
  void abandon(std::uint32_t slot) override {
    require(states_.at(slot) == State::kFilling, "a slot is abandoned that is not being filled");
    states_[slot] = State::kFree;
  }
  std::uint32_t collect() override { return 0; }
  int event_fd() const override { return -1; }
  void set_waiting(bool waiting) override {
    if (waiting) before_waiting();
    waiting_ = waiting;
  }
  std::uint64_t least_waited_ns() const override { return waited_ns_ += 1'000'000; }
  shm::SlotRingStats stats() const override {
    return {.free = count(State::kFree),
            .filling = count(State::kFilling),
            .ready = count(State::kReady),
            .held = count(State::kHeld)};
  }

  Result<std::uint32_t> attach_reader(std::uint64_t) override { return 0U; }
  void retire_reader(std::uint32_t, const std::string&) override {}
  void keep_untaken(std::uint32_t) override {}
  void drop_kept(std::uint64_t) override {}
  void stop_keeping() override {}
  void detach_reader(std::uint32_t, const std::string&) override {}
  std::string detach_reason(std::uint32_t) const override { return {}; }
  std::uint32_t held_by(std::uint32_t) const override { return count(State::kHeld); }
  std::uint32_t owed_by(std::uint32_t) const override { return count(State::kReady) + count(State::kHeld); }
  std::uint32_t held_by_retired() const override { return 0; }
  std::uint64_t waited_ns(std::uint32_t) const override { return waited_ns_; }
  ReaderFds reader_fds(std::uint32_t) const override { return {-1, -1, -1, {}}; }

 private:
  const shm::SlotLayout layout_;
  const std::uint64_t bytes_;
  std::vector<State> states_;
  std::vector<std::vector<std::byte>> memory_;
  std::uint32_t limit_;
  std::uint32_t turn_ = 0;
  std::deque<std::uint32_t> published_;
  std::vector<std::uint32_t> held_;
  std::uint64_t released_ = 0;
  bool waiting_ = false;
  bool rung_ = false;
  mutable std::uint64_t waited_ns_ = 0;
};

}  // namespace carya::loader
