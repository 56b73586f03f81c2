#include "shm/slot_ledger.h"

#include <fmt/core.h>
#include <algorithm>

namespace carya::shm {
namespace {

std::unexpected<Error> lie(const std::string& what) {
  return fail(Code::kCorrupt, what);
}

}  // namespace

SlotLedger::SlotLedger(std::uint32_t slots) : slots_(slots), readers_(kReadersMax) {
  CHECK(slots >= 1 && slots <= kSlotsMax);
  free_.reserve(slots);
  for (std::uint32_t slot = slots; slot > 0; --slot) free_.push_back(slot - 1);
}

std::optional<std::uint32_t> SlotLedger::acquire() {
  if (free_.empty()) return std::nullopt;
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  slots_[slot].state = State::kFilling;
  ++slots_[slot].generation;
  return slot;
}

std::optional<std::uint32_t> SlotLedger::next_free() const {
  return free_.empty() ? std::nullopt : std::optional(free_.back());
}

void SlotLedger::free_slot(std::uint32_t slot) {
  if (slots_[slot].state == State::kReady) gone_ = std::max(gone_, slots_[slot].sequence);
  slots_[slot].state = State::kFree;
  free_.push_back(slot);
}

void SlotLedger::abandon(std::uint32_t slot) {
  CHECK(slot < slots_.size() && slots_[slot].state == State::kFilling);
  free_slot(slot);
}

std::uint32_t SlotLedger::publish(std::uint32_t slot, std::uint32_t readers_mask, std::uint64_t sequence) {
  CHECK(slot < slots_.size() && slots_[slot].state == State::kFilling);
  slots_[slot].state = State::kReady;
  slots_[slot].sequence = sequence;
  slots_[slot].kept = keeping_;
  const std::uint32_t holders = readers_mask & attached_ & ~retired_;
  if (holders == 0) free_unheld(slot);
  for (std::uint32_t reader = 0; reader < kReadersMax; ++reader)
    if ((holders & 1u << reader) != 0) deliver(slot, reader);
  return holders;
}

std::optional<std::vector<std::uint32_t>> SlotLedger::ready_from(std::uint64_t sequence) const {
  if (sequence <= gone_) return std::nullopt;
  std::vector<std::uint32_t> ready;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (slots_[slot].state == State::kReady && slots_[slot].sequence >= sequence) ready.push_back(slot);
  std::ranges::sort(ready, {}, [this](std::uint32_t slot) { return slots_[slot].sequence; });
  return ready;
}

void SlotLedger::deliver(std::uint32_t slot, std::uint32_t reader) {
  CHECK(slots_[slot].state == State::kReady && (slots_[slot].holders & 1u << reader) == 0);
  slots_[slot].holders |= 1u << reader;
  readers_[reader].delivery[slot] = readers_[reader].pushed++;
  ++readers_[reader].outstanding;
}

void SlotLedger::attach(std::uint32_t reader) {
  CHECK(reader < kReadersMax && !attached(reader));
  readers_[reader] = Reader{};
  attached_ |= 1u << reader;
}

std::uint32_t SlotLedger::detach(std::uint32_t reader) {
  CHECK(reader < kReadersMax);
  std::uint32_t freed = 0;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
    if ((slots_[slot].holders & 1u << reader) != 0 && drop_holder(slot, reader)) ++freed;
  attached_ &= ~(1u << reader);
  retired_ &= ~(1u << reader);
  return freed;
}

std::uint32_t SlotLedger::retire(std::uint32_t reader) {
  CHECK(attached(reader));
  std::uint32_t freed = 0;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (untaken(slot, reader) && drop_holder(slot, reader)) ++freed;
  retired_ |= 1u << reader;
  return freed;
}

bool SlotLedger::untaken(std::uint32_t slot, std::uint32_t reader) const {
  return (slots_[slot].holders & 1u << reader) != 0 &&
         readers_[reader].delivery[slot] >= readers_[reader].taken;
}

void SlotLedger::keep_untaken(std::uint32_t reader) {
  CHECK(attached(reader));
  keeping_ = true;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (untaken(slot, reader)) slots_[slot].kept = true;
}

std::uint32_t SlotLedger::drop_kept(std::uint64_t before) {
  std::uint32_t freed = 0;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].state != State::kReady || !slots_[slot].kept || slots_[slot].sequence >= before)
      continue;
    slots_[slot].kept = false;
    if (free_unheld(slot)) ++freed;
  }
  return freed;
}

std::uint32_t SlotLedger::stop_keeping() {
  keeping_ = false;
  return drop_kept(UINT64_MAX);
}

bool SlotLedger::free_unheld(std::uint32_t slot) {
  if (slots_[slot].holders != 0 || slots_[slot].kept) return false;
  free_slot(slot);
  return true;
}

/// Returns whether the slot became FREE.
bool SlotLedger::drop_holder(std::uint32_t slot, std::uint32_t reader) {
  slots_[slot].holders &= ~(1u << reader);
  --readers_[reader].outstanding;
  return free_unheld(slot);
}

Status SlotLedger::take_to(std::uint32_t reader, std::uint64_t taken) {
  Reader& account = readers_[reader];
  if (taken < account.taken || taken > account.pushed) {
    return lie(fmt::format("says it took {} batches, before it was {}, delivered were {}", taken,
                           account.taken, account.pushed));
  }
  account.taken = taken;
  return {};
}

Result<bool> SlotLedger::release(std::uint32_t reader, std::uint32_t slot, std::uint32_t generation) {
  const auto subject = [slot] { return fmt::format("released slot {}", slot); };
  if (slot >= slots_.size()) return lie(fmt::format("{} of {}", subject(), slots_.size()));
  const Slot& entry = slots_[slot];
  if (generation != entry.generation) {
    return lie(fmt::format("{} generation {}, it is at {}", subject(), generation, entry.generation));
  }
  if ((entry.holders & 1u << reader) == 0) return lie(subject() + ", which it does not hold (twice?)");
  const Reader& account = readers_[reader];
  if (account.delivery[slot] >= account.taken) return lie(subject() + ", which it has not taken");
  return drop_holder(slot, reader);
}

std::uint32_t SlotLedger::outstanding_before(std::uint32_t reader, std::uint64_t taken) const {
  std::uint32_t count = 0;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if ((slots_[slot].holders & 1u << reader) != 0 && readers_[reader].delivery[slot] < taken) ++count;
  }
  return count;
}

bool SlotLedger::taken_by_any(std::uint32_t slot, const std::uint64_t* taken) const {
  for (std::uint32_t reader = 0; reader < kReadersMax; ++reader) {
    if ((slots_[slot].holders & 1u << reader) == 0) continue;
    if (readers_[reader].delivery[slot] < taken[reader]) return true;
  }
  return false;
}

}  // namespace carya::shm
