// The owner's readers: attached, listened to, retired, detached. The protocol is numbered in slot_ring.cc.
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>

#include "shm/memfd.h"
#include "shm/owned_ring.h"

namespace carya::shm {

using format::ReaderEntry;
using format::ReaderPage;

/// Protocol 9. Adds the slots that became FREE; an error is the reason to detach the reader.
Status OwnedRing::collect_reader(std::uint32_t reader, std::uint32_t& freed) {
  Reader& account = readers_[reader];
  const ReaderPage& page = account.shared();
  const std::uint64_t tail =
      page.tail.load(std::memory_order_seq_cst);  // with release(): entries and `taken`
  if (tail == account.head) return {};
  // Of a retired reader one may have been dropped here while it was given back there (protocol 13).
  const bool retired = ledger_.retired(reader);
  if (tail - account.head > ledger_.outstanding(reader) + (retired ? 1 : 0)) {
    return fail(Code::kCorrupt, "says it released " + std::to_string(tail - account.head) +
                                    " slots, it has " + std::to_string(ledger_.outstanding(reader)));
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
  if (!reader.bell) return fail_errno("slot ring: bell of reader " + std::to_string(index), errno);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u32 = index;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, reader.bell.get(), &event) != 0) {
    return fail_errno("slot ring: watch the bell of reader " + std::to_string(index), errno);
  }
  return {};
}

Result<std::uint32_t> OwnedRing::attach_reader(std::uint64_t from_sequence) {
  if (forked()) return fail(Code::kForked, "slot ring: used in a forked child");
  std::uint32_t index = 0;
  while (index < readers_.size() && ledger_.attached(index)) ++index;
  if (index == readers_.size()) {
    return fail(Code::kExhausted,
                "slot ring: all " + std::to_string(index) + " readers are attached; raise `readers`");
  }
  const auto ready = ledger_.ready_from(from_sequence);
  if (!ready)
    return fail(Code::kNotFound, "slot ring: batch " + std::to_string(from_sequence) +
                                     ", or one after it, is not here any more");
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

/// What the reader released and took until now; detached when that is a lie.
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
  wake(reader);
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
  wake(reader);
  const std::bitset<kSlotsMax> mine = slots_of(reader);
  const std::uint32_t freed = ledger_.detach(reader);
  mirror_all(mine);
  // By hand: the reader's duplicate keeps the bell open, and with it its place in the epoll set.
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
