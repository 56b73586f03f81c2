#include "shm/slot_ring.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <fmt/core.h>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>

#include "base/fault_point.h"
#include "shm/futex.h"
#include "shm/memfd.h"
#include "shm/memory_limit.h"
#include "shm/owned_ring.h"

// The protocol between the owner (this file) and a reader (ring_reader.cc, lease.cc), in the order of a slot's life.
//
//  1. Creation. The owner allocates, maps and pre-faults all memory, then seals it. A sealed file cannot be cut under a
//     mapping, so no access raises SIGBUS. The owner maps the control file before it adds F_SEAL_FUTURE_WRITE, so the
//     owner alone can write it.
//  2. Attachment. The owner makes a new page and a new attach_id for each attachment. A reader that was detached still
//     has its old page mapped, and what it writes there does not count for its successor.
//  3. Acquiring. The owner moves a slot from FREE to FILLING and increments its generation. No reader knows the slot
//     from here on, so the owner writes it with plain stores.
//  4. Publishing. The owner stores sequence, meta, generation, state and holders; then a delivery (slot, generation) in
//     each reader's queue; then the tail of that queue. A reader looks at the tail first, so a tail that is visible
//     makes everything before it visible. A queue has room for every slot, and a slot is outstanding once: a queue
//     cannot overflow.
//  5. Waking readers. The owner changes wake_word, then reads the reader's wait flag, and wakes the futex only if the
//     flag is set. The reader sets the flag, looks at the tail again, then sleeps on the wake_word that it read before
//     both. All four accesses are sequentially consistent: either the owner sees the flag or the reader sees the tail.
//     So no wake-up is lost, and none costs a system call while the reader is awake. A reader that sets the flag and
//     does not sleep costs the owner one system call per batch and nothing else. All readers that sleep are woken
//     together.
//  6. Taking. The reader reads the tail, the delivery and the slot entry, each once and checked, then its attach_id
//     again. The owner withdraws the attach_id before it reuses anything, so an unchanged attach_id means that what was
//     read is whole.
//  7. Holding. The reader publishes `taken` in its page before it can release that slot. So the owner tells slots that
//     are held from slots that are pending, and refuses the release of a slot that was never taken.
//  8. Releasing. The reader writes an entry (slot, generation) into its release ring, then the tail of that ring. A
//     slot is released at most once per generation, and is not delivered again before the owner has read the release:
//     the release ring cannot overflow.
//  9. Collecting. For each reader the owner reads the tail (at most what is outstanding), `taken`, and then compares
//     each entry with the ledger in its private memory. Any lie detaches that reader with its reason; the entries
//     before the lie stand, because they were true.
// 10. Waiting for releases. The owner sets owner_waiting, collects once more, then sleeps on event_fd(). A reader rings
//     its doorbell after a release if it sees owner_waiting. Both are sequentially consistent as in 5: the owner sleeps
//     through no release, and a busy owner is never rung.
// 11. Doorbells. Each reader has an eventfd of its own behind one epoll descriptor, edge-triggered and never read: a
//     reader can neither consume another reader's ring nor make the owner block in a read.
// 12. Detaching. The owner stores attach_id = 0, wakes the reader, and drops its holds at once. This is for a reader
//     that died, hung up or lied.
// 13. Retiring a reader that lives and takes no more. The owner stores attach_id = 0, then reads `taken`. The reader
//     stores `taken`, then looks at its attach_id once more, and gives the slot back unseen if it has changed. Both are
//     sequentially consistent as in 5: either the owner sees the slot as taken, and nobody writes it before its
//     release, or the reader sees that it was retired. Both may see it, so the one release may name a slot that the
//     owner has dropped: the owner ignores releases of slots that a retired reader does not hold.
// 14. The end. The owner stores closed = 1 and wakes all readers. Nothing is written after that, so leases stay
//     readable as long as they live.

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
  wake(ledger_.attached_mask());
}

/// Copy the ledger's line of a slot to the control segment. Release, with the acquires in a reader's take: what a
/// reader reads here is never newer than the attach_id that it reads afterwards (protocol 6).
void OwnedRing::mirror(std::uint32_t slot) {
  SlotEntry& entry = slot_entry(slot);
  entry.generation.store(ledger_.generation(slot), std::memory_order_release);
  entry.holders.store(ledger_.holders(slot), std::memory_order_release);
  entry.state.store(static_cast<std::uint32_t>(ledger_.state(slot)), std::memory_order_release);
}

/// Protocol 5. The readers write their wait flags; any value is harmless.
void OwnedRing::wake(std::uint32_t readers_mask) {
  const std::atomic<std::uint32_t>* asleep[kReadersMax];
  std::size_t count = 0;
  for (std::uint32_t rest = readers_mask; rest != 0; rest &= rest - 1) {
    const auto reader = static_cast<std::uint32_t>(std::countr_zero(rest));
    ReaderEntry& entry = reader_entry(reader);
    entry.wake_word.store(entry.wake_word.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
    if (readers_[reader].shared().waiting.load(std::memory_order_seq_cst) != 0)
      asleep[count++] = &entry.wake_word;
  }
  futex_wake({asleep, count});
}

void OwnedRing::set_limit(std::uint32_t slots) {
  if (forked()) return;
  limit_ = std::min(std::max(slots, 2u), options_.slots);
  collect();
  give_back();
}

/// Give back the memory of FREE slots that are not needed for `limit_` untaken ones: of those that acquire() would take
/// last.
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

/// Whether the slot has memory to write to. If none is available now, the next acquire() asks again.
bool OwnedRing::has_memory(std::uint32_t slot) {
  if (!emptied_[slot]) return true;
  if (layout_.slot_bytes() > available_slot_bytes()) return false;  // in a full cgroup the kernel would kill
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
  // A reader that may write may have overwritten the table; a few hundred bytes restore it.
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
  FAULT_POINT("publish.wake");
  wake(holders);
}

/// The end of protocol 4. The last delivery of the ledger to the reader is this slot.
void OwnedRing::hand_over(std::uint32_t slot, std::uint32_t reader) {
  ReaderEntry& shared = reader_entry(reader);
  const std::uint64_t pushed = ledger_.pushed(reader);
  // Release, with the acquire in take(): a delivery of a later attachment is never newer than the attach_id that is
  // read after it. For a reader's own deliveries the tail below would be enough.
  shared.queue[(pushed - 1) % format::kQueueEntries].store(format::pack(slot, ledger_.generation(slot)),
                                                           std::memory_order_release);
  FAULT_POINT("publish.tail");
  shared.tail.store(pushed, std::memory_order_seq_cst);
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
  if (waiting_ && !waiting) collect();  // a bell that is left behind would end the next sleep at once
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
    return fail(Code::kInvalidArgument, fmt::format("slot ring: {} slots (1 to {}) and {} readers (1 to {})",
                                                    options.slots, kSlotsMax, options.readers, kReadersMax));
  }
  if (layout.slot_bytes() == 0) return fail(Code::kInvalidArgument, "slot ring: an empty layout");
  watch_forks();
  auto ring = std::make_shared<OwnedRing>(layout, options);
  TRY(ring->open());
  return ring;
}

using format::ReaderEntry;
using format::ReaderPage;

/// Protocol 9. Counts the slots that became FREE in `freed`. An error is the reason to detach the reader.
Status OwnedRing::collect_reader(std::uint32_t reader, std::uint32_t& freed) {
  Reader& account = readers_[reader];
  const ReaderPage& page = account.shared();
  const std::uint64_t tail =
      page.tail.load(std::memory_order_seq_cst);  // with release(): entries and `taken`
  if (tail == account.head) return {};
  // The owner may have dropped a slot of a retired reader while the reader gave it back (protocol 13).
  const bool retired = ledger_.retired(reader);
  if (tail - account.head > ledger_.outstanding(reader) + (retired ? 1 : 0)) {
    return fail(Code::kCorrupt, fmt::format("says it released {} slots, it has {}", tail - account.head,
                                            ledger_.outstanding(reader)));
  }
  TRY(ledger_.take_to(reader, page.taken.load(std::memory_order_relaxed)));
  while (account.head != tail) {
    const std::uint64_t entry =
        page.releases[account.head % format::kQueueEntries].load(std::memory_order_relaxed);
    const std::uint32_t slot = format::slot_of(entry);
    const Result<bool> became_free = ledger_.release(reader, slot, format::generation_of(entry));
    if (!became_free && !retired) return std::unexpected(became_free.error());
    ++account.head;
    if (!became_free) continue;
    mirror(slot);
    if (*became_free) ++freed;
  }
  return {};
}

Status OwnedRing::open_reader(Reader& reader, std::uint32_t index, std::uint32_t attach_id) {
  ASSIGN(reader.page_fd, create_memfd("carya-reader", format::kPageBytes, false));
  {
    ASSIGN(Region writable,
           Region::map(reader.page_fd.get(), format::kPageBytes, Region::Access::kReadWrite));
    auto* page = new (writable.data()) ReaderPage{};
    page->magic = format::kPageMagic;
    page->version = format::kVersion;
    page->reader = index;
    page->attach_id = attach_id;
    page->entries = format::kQueueEntries;
  }
  TRY(seal_memfd(reader.page_fd.get(), kSealSize));
  ASSIGN(reader.page, Region::map(reader.page_fd.get(), format::kPageBytes, Region::Access::kReadOnly));
  reader.page.prefault();
  reader.bell.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!reader.bell) return fail_errno(fmt::format("slot ring: bell of reader {}", index), errno);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u32 = index;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, reader.bell.get(), &event) != 0) {
    return fail_errno(fmt::format("slot ring: watch the bell of reader {}", index), errno);
  }
  return {};
}

Result<std::uint32_t> OwnedRing::attach_reader(std::uint64_t from_sequence) {
  if (forked()) return fail(Code::kForked, "slot ring: used in a forked child");
  std::uint32_t index = 0;
  while (index < readers_.size() && ledger_.attached(index)) ++index;
  if (index == readers_.size()) {
    return fail(Code::kExhausted,
                fmt::format("slot ring: all {} readers are attached; raise `readers`", index));
  }
  const auto ready = ledger_.ready_from(from_sequence);
  if (!ready)
    return fail(Code::kNotFound,
                fmt::format("slot ring: batch {}, or one after it, is not here any more", from_sequence));
  Reader reader;
  if (++attachments_ == 0) ++attachments_;  // 0 means detached
  TRY(open_reader(reader, index, attachments_));
  reader.reason.clear();
  readers_[index] = std::move(reader);
  ledger_.attach(index);
  ReaderEntry& entry = reader_entry(index);
  entry.tail.store(0, std::memory_order_release);
  entry.attach_id.store(attachments_,
                        std::memory_order_release);  // with the acquire in attach(): a tail of 0
  for (const std::uint32_t slot : *ready) {
    ledger_.deliver(slot, index);
    mirror(slot);
    hand_over(slot, index);
  }
  return index;
}

std::bitset<kSlotsMax> OwnedRing::slots_of(std::uint32_t reader) const {
  std::bitset<kSlotsMax> slots;
  for (std::uint32_t slot = 0; slot < options_.slots; ++slot)
    slots[slot] = (ledger_.holders(slot) & 1u << reader) != 0;
  return slots;
}

void OwnedRing::mirror_all(const std::bitset<kSlotsMax>& slots) {
  for (std::uint32_t slot = 0; slot < options_.slots; ++slot)
    if (slots[slot]) mirror(slot);
}

/// Take in what the reader released and took until now. Detaches the reader if that is a lie.
Status OwnedRing::listen_last(std::uint32_t reader) {
  std::uint32_t freed = 0;
  Status honest = collect_reader(reader, freed);
  if (honest)
    honest = ledger_.take_to(reader, readers_[reader].shared().taken.load(std::memory_order_seq_cst));
  if (!honest) take_back(reader, honest.error().message);
  return honest;
}

/// Protocol 13.
void OwnedRing::retire_reader(std::uint32_t reader, const std::string& reason) {
  CHECK(reader < readers_.size());
  if (forked() || !ledger_.attached(reader) || ledger_.retired(reader)) return;
  reader_entry(reader).attach_id.store(0, std::memory_order_seq_cst);
  wake(1u << reader);
  if (!listen_last(reader)) return;
  const std::bitset<kSlotsMax> mine = slots_of(reader);
  ledger_.retire(reader);
  mirror_all(mine);
  readers_[reader].reason = reason.empty() ? "retired" : reason;
}

void OwnedRing::keep_untaken(std::uint32_t reader) {
  CHECK(reader < readers_.size());
  if (forked() || !ledger_.attached(reader) || ledger_.retired(reader)) return;
  if (listen_last(reader)) ledger_.keep_untaken(reader);
}

void OwnedRing::drop_kept(std::uint64_t before_sequence) {
  if (!forked() && ledger_.drop_kept(before_sequence) > 0) mirror_all(~std::bitset<kSlotsMax>());
}

void OwnedRing::stop_keeping() {
  if (!forked() && ledger_.stop_keeping() > 0) mirror_all(~std::bitset<kSlotsMax>());
}

std::uint32_t OwnedRing::take_back(std::uint32_t reader, const std::string& reason) {
  Reader& account = readers_[reader];
  reader_entry(reader).attach_id.store(0, std::memory_order_seq_cst);  // before any reuse (protocol 6)
  wake(1u << reader);
  const std::bitset<kSlotsMax> mine = slots_of(reader);
  const std::uint32_t freed = ledger_.detach(reader);
  mirror_all(mine);
  // Removed by hand: the reader's duplicate keeps the bell open, and with it its place in the epoll set.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, account.bell.get(), nullptr);
  account = Reader{};
  account.reason = reason.empty() ? "detached" : reason;
  return freed;
}

void OwnedRing::detach_reader(std::uint32_t reader, const std::string& reason) {
  CHECK(reader < readers_.size());
  if (forked() || !ledger_.attached(reader)) return;
  take_back(reader, reason);
}

std::string OwnedRing::detach_reason(std::uint32_t reader) const {
  CHECK(reader < readers_.size());
  return readers_[reader].reason;
}

std::uint32_t OwnedRing::held_by_retired() const {
  std::bitset<kSlotsMax> held;
  for (std::uint32_t reader = 0; reader < readers_.size(); ++reader)
    if (ledger_.retired(reader)) held |= slots_of(reader);
  return static_cast<std::uint32_t>(held.count());
}

std::uint32_t OwnedRing::held_by(std::uint32_t reader) const {
  CHECK(reader < readers_.size());
  if (forked() || !ledger_.attached(reader)) return 0;
  if (ledger_.retired(reader)) return ledger_.outstanding(reader);
  const ReaderPage& page = readers_[reader].shared();
  const std::uint64_t released =
      page.tail.load(std::memory_order_acquire) - readers_[reader].head;  // not collected
  const std::uint32_t taken = ledger_.outstanding_before(reader, page.taken.load(std::memory_order_acquire));
  return released < taken ? taken - static_cast<std::uint32_t>(released) : 0;
}

std::uint64_t OwnedRing::waited_ns(std::uint32_t reader) const {
  CHECK(reader < readers_.size());
  if (forked() || !ledger_.attached(reader)) return 0;
  return readers_[reader].shared().waited_ns.load(std::memory_order_relaxed);
}

std::uint64_t OwnedRing::least_waited_ns() const {
  const std::uint32_t attached = forked() ? 0 : ledger_.attached_mask();
  std::uint64_t least = attached == 0 ? 0 : UINT64_MAX;
  for (std::uint32_t rest = attached; rest != 0; rest &= rest - 1)
    least = std::min(least, waited_ns(static_cast<std::uint32_t>(std::countr_zero(rest))));
  return least;
}

}  // namespace carya::shm
