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

/// The owner's own account of slots and readers, in private memory. The owner checks everything that a reader says
/// against it. States: FREE -> FILLING -> READY -> FREE when the last holder has released the slot.
/// It uses no shared memory and no system calls. Threads: owner only.
class SlotLedger {
 public:
  using State = format::SlotState;
  explicit SlotLedger(std::uint32_t slots);

  std::uint32_t slots() const { return static_cast<std::uint32_t>(slots_.size()); }
  State state(std::uint32_t slot) const { return slots_[slot].state; }
  std::uint32_t generation(std::uint32_t slot) const { return slots_[slot].generation; }
  std::uint32_t holders(std::uint32_t slot) const { return slots_[slot].holders; }

  /// FREE -> FILLING with the next generation. The slot that was freed last comes first, since its pages are the
  /// warmest.
  std::optional<std::uint32_t> acquire();
  /// The slot that acquire() returns next.
  std::optional<std::uint32_t> next_free() const;
  /// The FREE slots; the one that is acquired last stands first.
  std::span<const std::uint32_t> free_slots() const { return free_; }
  void abandon(std::uint32_t slot);
  /// FILLING -> READY for the attached readers of the mask that are not retired. Without any the slot is FREE at once,
  /// unless slots are kept. Sequences ascend. Returns the holders.
  std::uint32_t publish(std::uint32_t slot, std::uint32_t readers_mask, std::uint64_t sequence);

  /// The READY slots from that sequence on, in order; empty if one of them was FREE already.
  std::optional<std::vector<std::uint32_t>> ready_from(std::uint64_t sequence) const;
  /// Add a holder to a READY slot.
  void deliver(std::uint32_t slot, std::uint32_t reader);

  void attach(std::uint32_t reader);
  bool attached(std::uint32_t reader) const { return (attached_ & 1u << reader) != 0; }
  std::uint32_t attached_mask() const { return attached_; }
  /// Deliver nothing more to the reader, and drop what it has not taken. Returns how many slots became FREE.
  std::uint32_t retire(std::uint32_t reader);
  /// From now on, keep slots that are published, and those that the reader has not taken, READY even without a holder.
  void keep_untaken(std::uint32_t reader);
  /// Keep slots of lower sequences no longer. Returns how many became FREE.
  std::uint32_t drop_kept(std::uint64_t before);
  /// Keep no slot any more. Returns how many became FREE.
  std::uint32_t stop_keeping();
  bool retired(std::uint32_t reader) const { return (retired_ & 1u << reader) != 0; }
  /// Take back all slots that the reader holds. Returns how many became FREE.
  std::uint32_t detach(std::uint32_t reader);

  /// The reader says that it took `taken` deliveries so far. Errors: kCorrupt if that is impossible.
  Status take_to(std::uint32_t reader, std::uint64_t taken);
  /// The reader says that it releases this slot of this generation. Returns whether the slot became FREE. Errors:
  /// kCorrupt.
  Result<bool> release(std::uint32_t reader, std::uint32_t slot, std::uint32_t generation);

  std::uint64_t pushed(std::uint32_t reader) const { return readers_[reader].pushed; }
  /// The number of slots that were published to the reader and not released by it, taken or not.
  std::uint32_t outstanding(std::uint32_t reader) const { return readers_[reader].outstanding; }
  /// The number of those slots that lie before delivery `taken`.
  std::uint32_t outstanding_before(std::uint32_t reader, std::uint64_t taken) const;
  /// Whether any holder of a READY slot has taken it, if reader r took `taken[r]` deliveries (of kReadersMax readers).
  bool taken_by_any(std::uint32_t slot, const std::uint64_t* taken) const;

 private:
  struct Slot {
    State state = State::kFree;
    std::uint32_t generation = 0;
    std::uint32_t holders = 0;  // not 0, or kept, exactly while READY
    bool kept = false;
    std::uint64_t sequence = 0;  // the sequence of the last publication
  };
  struct Reader {
    std::uint64_t pushed = 0;       // deliveries made to the reader
    std::uint64_t taken = 0;        // deliveries that the reader said it took; never more than pushed
    std::uint32_t outstanding = 0;  // slots that name the reader as a holder
    std::array<std::uint64_t, kSlotsMax>
        delivery{};  // by slot: the number of its delivery; valid for a holder
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
  std::uint32_t retired_ = 0;  // attached readers that are retired
  std::uint64_t gone_ = 0;     // the highest sequence that was READY and is no longer
};

}  // namespace carya::shm
