#include "shm/slot_ring.h"

#include <sys/epoll.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/fault_point.h"
#include "shm/futex.h"
#include "shm/memfd.h"
#include "shm/memory_limit.h"
#include "shm/owned_ring.h"

// The protocol. O: the owner (this file). R: a reader (ring_reader.cc, lease.cc).
//
//  1. O allocates, maps, pre-faults, then seals everything at creation. Sealed sizes: nobody can cut a file
//  under a
//     mapping, so no access is ever a SIGBUS. FUTURE_WRITE after O's own mapping: O alone can write control.
//  2. O makes a new page and a new attach_id for each attachment: a reader that was detached still has its
//  old page
//     mapped, and what it writes there must not count for its successor.
//  3. O acquires: FREE -> FILLING, generation + 1. From here no reader knows the slot, so O may write it
//  plainly.
//  4. O publishes: sequence, meta, generation, state, holders; then a delivery (slot, generation) in the
//  queue of each
//     reader; then that queue's tail. The tail is the only word a reader looks at first, so all before it is
//     visible once the tail is. A queue has room for every slot and a slot is outstanding once: it cannot
//     overflow.
//  5. O changes wake_word, then reads the reader's wait flag and wakes the futex only if it is set. R sets
//  the flag,
//     then looks at the tail again, then sleeps on the wake_word it read before both. All four are
//     sequentially consistent: either O sees the flag or R sees the tail, so no wake-up is lost and none
//     costs a system call when R is awake. R's word for "I sleep" can be a lie: it costs O one system call
//     per batch and nothing else.
//  6. R takes: reads tail, delivery, slot entry, each once and checked; then its attach_id again. O withdraws
//  the
//     attach_id before it reuses anything, so an unchanged id means that what was read is whole.
//  7. R publishes `taken` in its page before it can release that slot: O tells held from pending, and refuses
//  the
//     release of what was never taken.
//  8. R releases: an entry (slot, generation) in its release ring, then the ring's tail. A slot is released
//  at most
//     once per generation and not delivered again before O has read the release: the ring cannot overflow
//     either.
//  9. O collects: for each reader the tail (at most what is outstanding), `taken`, then each entry against
//  the ledger
//     in private memory. Any lie detaches that reader with its reason; the entries before it stand, they were
//     true.
// 10. O sets owner_waiting, collects once more, then sleeps on event_fd(). R rings its bell after a release
// if it sees
//     owner_waiting. Sequentially consistent like 5: no release is slept through, and a busy O is never rung.
// 11. Each reader has a bell of its own behind one epoll descriptor, edge-triggered and never read: a reader
// can
//     neither steal another's ring nor make O block in a read.
// 12. O detaches: attach_id = 0, wake; its holds are dropped at once. For a reader that died, hung up or
// lied.
// 13. O retires a reader that lives and will take no more: attach_id = 0, then it reads `taken`. R stores
// `taken`, then
//     looks at its attach_id once more and gives the slot back unseen if that has changed. Sequentially
//     consistent like 5: either O sees the slot as taken, and nobody writes it before its release, or R sees
//     that it was retired. Both may see it, so that the one release may come of a slot that O has dropped:
//     what a retired reader releases and does not hold is passed over.
// 14. O ends: closed = 1, wake all. Nothing is written after that, so leases stay readable as long as they
// live.

namespace carya::shm {

using format::ReaderEntry;
using format::SlotEntry;

Status OwnedRing::open() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return fail_errno("slot ring: epoll", errno);
  ASSIGN(memory_, RingMemory::create(layout_, options_));
  return {};
}

OwnedRing::~OwnedRing() {
  if (forked() || !memory_.control.data()) return;
  memory_.header().closed.store(
      1, std::memory_order_release);  // with the acquire of a reader's look at `closed`
  for (std::uint32_t reader = 0; reader < readers_.size(); ++reader) {
    if (ledger_.attached(reader)) wake(reader);
  }
}

/// Copy the ledger's line of a slot to where readers see it. Release, with the acquires of a reader's take:
/// what a reader reads here is never newer than the attach_id that it reads afterwards (protocol 6).
void OwnedRing::mirror(std::uint32_t slot) {
  SlotEntry& entry = slot_entry(slot);
  entry.generation.store(ledger_.generation(slot), std::memory_order_release);
  entry.holders.store(ledger_.holders(slot), std::memory_order_release);
  entry.state.store(static_cast<std::uint32_t>(ledger_.state(slot)), std::memory_order_release);
}

/// Protocol 5. The wait flag is the reader's word; whatever it says is harmless.
void OwnedRing::wake(std::uint32_t reader) {
  ReaderEntry& entry = reader_entry(reader);
  entry.wake_word.store(entry.wake_word.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  if (readers_[reader].shared().waiting.load(std::memory_order_seq_cst) != 0) futex_wake(entry.wake_word);
}

void OwnedRing::set_limit(std::uint32_t slots) {
  if (forked()) return;
  limit_ = std::min(std::max(slots, 2u), options_.slots);
  collect();
  give_back();
}

/// Of FREE slots, those that a full set of untaken ones leaves over: the ones acquired last.
void OwnedRing::give_back() {
  if (limit_ == options_.slots || !options_.readers_may_write) return;
  const SlotRingStats now = stats();
  const std::uint32_t untaken = std::min(limit_, now.filling + now.ready);
  const std::uint32_t spare = now.free - std::min(now.free, limit_ - untaken);
  for (const std::uint32_t slot : ledger_.free_slots().first(spare)) {
    if (emptied_[slot]) continue;
    if (!give_back_memory(memory_.slot_fds[slot].get(), layout_.slot_bytes())) return;
    emptied_[slot] = true;
  }
}

/// Whether the slot has memory to be written to. When none is to be had it is asked for again next time.
bool OwnedRing::has_memory(std::uint32_t slot) {
  if (!emptied_[slot]) return true;
  if (layout_.slot_bytes() > available_slot_bytes()) return false;  // in a full cgroup asking would kill
  if (!take_memory_again(memory_.slot_fds[slot].get(), layout_.slot_bytes())) return false;
  emptied_[slot] = false;
  return true;
}

std::optional<std::uint32_t> OwnedRing::acquire() {
  if (forked()) return std::nullopt;
  collect();
  if (limit_ < options_.slots) {
    give_back();
    if (const SlotRingStats now = stats(); now.filling + now.ready >= limit_) return std::nullopt;
  }
  if (const auto next = ledger_.next_free(); !next || !has_memory(*next)) return std::nullopt;
  const auto slot = ledger_.acquire();
  mirror(*slot);
  // A reader that may write has perhaps written over the table; a few hundred bytes restore it.
  if (options_.readers_may_write) layout_.write(memory_.slots[*slot].data());
  return slot;
}

std::byte* OwnedRing::data(std::uint32_t slot) {
  CHECK(slot < memory_.slots.size());
  return memory_.slots[slot].data();
}

void OwnedRing::publish(std::uint32_t slot, std::uint64_t sequence, const Meta& meta,
                        std::uint32_t readers_mask) {
  if (forked()) return;
  CHECK(!last_sequence_ || sequence > *last_sequence_);
  last_sequence_ = sequence;
  const std::uint32_t holders = ledger_.publish(slot, readers_mask, sequence);
  SlotEntry& entry = slot_entry(slot);
  entry.sequence.store(sequence, std::memory_order_release);  // with a take, as in mirror()
  for (std::size_t word = 0; word < kMetaWords; ++word)
    entry.meta[word].store(meta[word], std::memory_order_release);
  FAULT_POINT("publish.slot");
  mirror(slot);
  for (std::uint32_t rest = holders; rest != 0; rest &= rest - 1)
    hand_over(slot, static_cast<std::uint32_t>(std::countr_zero(rest)));
}

/// The end of protocol 4: what the ledger delivered last to the reader is this slot.
void OwnedRing::hand_over(std::uint32_t slot, std::uint32_t reader) {
  ReaderEntry& shared = reader_entry(reader);
  const std::uint64_t pushed = ledger_.pushed(reader);
  // Release, with the acquire in take(): a delivery of a later attachment is never newer than the attach_id
  // that is read after it. The tail below would be enough for a reader's own deliveries.
  shared.queue[(pushed - 1) % format::kQueueEntries].store(format::pack(slot, ledger_.generation(slot)),
                                                           std::memory_order_release);
  FAULT_POINT("publish.tail");
  shared.tail.store(pushed, std::memory_order_seq_cst);
  FAULT_POINT("publish.wake");
  wake(reader);
}

void OwnedRing::abandon(std::uint32_t slot) {
  if (forked()) return;
  ledger_.abandon(slot);
  mirror(slot);
}

std::uint32_t OwnedRing::collect() {
  if (forked()) return 0;
  if (waiting_) {  // empty the ready list first: a bell rung after this line is seen by the next sleep
    epoll_event events[kReadersMax];
    epoll_wait(epoll_.get(), events, kReadersMax, 0);
  }
  std::uint32_t freed = 0;
  for (std::uint32_t rest = ledger_.attached_mask(); rest != 0; rest &= rest - 1) {
    const auto reader = static_cast<std::uint32_t>(std::countr_zero(rest));
    if (auto status = collect_reader(reader, freed); !status)
      freed += take_back(reader, status.error().message);
  }
  return freed;
}

void OwnedRing::set_waiting(bool waiting) {
  if (forked()) return;
  if (waiting_ && !waiting) collect();  // leaves no bell behind that would end the next sleep at once
  waiting_ = waiting;
  memory_.header().owner_waiting.store(waiting ? 1 : 0,
                                       std::memory_order_seq_cst);  // with the load after a release
}

SlotRing::ReaderFds OwnedRing::reader_fds(std::uint32_t reader) const {
  CHECK(reader < readers_.size());
  ReaderFds fds{memory_.control_fd.get(), readers_[reader].page_fd.get(), readers_[reader].bell.get(), {}};
  for (const UniqueFd& slot : memory_.slot_fds) fds.slots.push_back(slot.get());
  return fds;
}

SlotRingStats OwnedRing::stats() const {
  SlotRingStats stats;
  stats.bytes = layout_.slot_bytes() *
                (options_.slots - static_cast<std::uint64_t>(std::ranges::count(emptied_, true)));
  stats.huge_bytes = memory_.huge_bytes;
  std::uint64_t taken[kReadersMax] = {};
  for (std::uint32_t reader = 0; reader < readers_.size(); ++reader) {
    if (!forked() && ledger_.attached(reader)) {
      taken[reader] = readers_[reader].shared().taken.load(std::memory_order_acquire);
    }
  }
  for (std::uint32_t slot = 0; slot < options_.slots; ++slot) {
    switch (ledger_.state(slot)) {
      case SlotLedger::State::kFree:
        ++stats.free;
        break;
      case SlotLedger::State::kFilling:
        ++stats.filling;
        break;
      case SlotLedger::State::kReady:
        ++(ledger_.taken_by_any(slot, taken) ? stats.held : stats.ready);
        break;
    }
  }
  return stats;
}

Result<std::shared_ptr<SlotRing>> SlotRing::create(const SlotLayout& layout, const SlotRingOptions& options) {
  if (options.slots < 1 || options.slots > kSlotsMax || options.readers < 1 ||
      options.readers > kReadersMax) {
    return fail(Code::kInvalidArgument, "slot ring: " + std::to_string(options.slots) + " slots (1 to " +
                                            std::to_string(kSlotsMax) + ") and " +
                                            std::to_string(options.readers) + " readers (1 to " +
                                            std::to_string(kReadersMax) + ")");
  }
  if (layout.slot_bytes() == 0) return fail(Code::kInvalidArgument, "slot ring: an empty layout");
  watch_forks();
  auto ring = std::make_shared<OwnedRing>(layout, options);
  TRY(ring->open());
  return ring;
}

}  // namespace carya::shm
