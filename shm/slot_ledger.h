#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "shm/ring_format.h"

namespace carya::shm {

/// The owner's own account of slots and readers, in private memory: the truth against which everything that a
/// reader says is checked. States: FREE -> FILLING -> READY -> FREE when its last holder has released it.
/// Pure bookkeeping: no shared memory, no system calls. Threads: owner only.
class SlotLedger {
 public:
  using State = format::SlotState;
  explicit SlotLedger(std::uint32_t slots);

  std::uint32_t slots() const { return static_cast<std::uint32_t>(slots_.size()); }
  State state(std::uint32_t slot) const { return slots_[slot].state; }
  std::uint32_t generation(std::uint32_t slot) const { return slots_[slot].generation; }
  std::uint32_t holders(std::uint32_t slot) const { return slots_[slot].holders; }

  /// FREE -> FILLING with the next generation; the slot freed last comes first (its pages are the warmest).
  std::optional<std::uint32_t> acquire();
  /// The one that acquire() gives next.
  std::optional<std::uint32_t> next_free() const;
  /// FREE slots, the one that will be acquired last first.
  std::span<const std::uint32_t> free_slots() const { return free_; }
  void abandon(std::uint32_t slot);
  /// FILLING -> READY for the attached readers of the mask that are not retired; with none of them, FREE at
  /// once unless slots are kept. Sequences ascend. Returns the holders.
  std::uint32_t publish(std::uint32_t slot, std::uint32_t readers_mask, std::uint64_t sequence);

  /// READY slots from that sequence on, in order; none when one of them was FREE already.
  std::optional<std::vector<std::uint32_t>> ready_from(std::uint64_t sequence) const;
  /// A READY slot gets one more holder.
  void deliver(std::uint32_t slot, std::uint32_t reader);

  void attach(std::uint32_t reader);
  bool attached(std::uint32_t reader) const { return (attached_ & 1u << reader) != 0; }
  std::uint32_t attached_mask() const { return attached_; }
  /// Nothing more is delivered to the reader, and what it has not taken it holds no longer; returns how many
  /// slots became FREE.
  std::uint32_t retire(std::uint32_t reader);
  /// From now on what is published, and what the reader has not taken, stays READY also when nobody holds it.
  void keep_untaken(std::uint32_t reader);
  /// Slots of lower sequences are kept no longer; returns how many became FREE.
  std::uint32_t drop_kept(std::uint64_t before);
  /// Nor is any other.
  std::uint32_t stop_keeping();
  bool retired(std::uint32_t reader) const { return (retired_ & 1u << reader) != 0; }
  /// Take back all that the reader holds; returns how many slots became FREE.
  std::uint32_t detach(std::uint32_t reader);

  /// The reader says that it took `taken` deliveries so far. Errors: kCorrupt, when that cannot be.
  Status take_to(std::uint32_t reader, std::uint64_t taken);
  /// The reader says that it releases this slot of this generation. True if the slot became FREE. Errors:
  /// kCorrupt.
  Result<bool> release(std::uint32_t reader, std::uint32_t slot, std::uint32_t generation);

  std::uint64_t pushed(std::uint32_t reader) const { return readers_[reader].pushed; }
  /// Slots published to the reader and not yet released by it, taken or not.
  std::uint32_t outstanding(std::uint32_t reader) const { return readers_[reader].outstanding; }
  /// Those of them that lie before delivery `taken`.
  std::uint32_t outstanding_before(std::uint32_t reader, std::uint64_t taken) const;
  /// Whether a READY slot has been taken by any of its holders, when reader r took `taken[r]` (of
  /// kReadersMax) so far.
  bool taken_by_any(std::uint32_t slot, const std::uint64_t* taken) const;

 private:
  struct Slot {
    State state = State::kFree;
    std::uint32_t generation = 0;
    std::uint32_t holders = 0;  // not 0, or kept, exactly while READY
    bool kept = false;
    std::uint64_t sequence = 0;  // of the last publication
  };
  struct Reader {
    std::uint64_t pushed = 0;       // deliveries made to it
    std::uint64_t taken = 0;        // of which it said it took so many; never more than pushed
    std::uint32_t outstanding = 0;  // slots that name it as a holder
    std::array<std::uint64_t, kSlotsMax> delivery{};  // by slot: which delivery it was; valid for a holder
  };
  void free_slot(std::uint32_t slot);
  bool untaken(std::uint32_t slot, std::uint32_t reader) const;
  bool free_unheld(std::uint32_t slot);
  bool drop_holder(std::uint32_t slot, std::uint32_t reader);

  std::vector<Slot> slots_;
  std::vector<Reader> readers_;
  std::vector<std::uint32_t> free_;  // a stack, reserved for all slots
  std::uint32_t attached_ = 0;
  bool keeping_ = false;
  std::uint32_t retired_ = 0;  // of the attached
  std::uint64_t gone_ = 0;     // the highest sequence that was READY and is no longer
};

}  // namespace carya::shm
