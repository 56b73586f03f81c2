#include <sys/eventfd.h>

#include <utility>

#include "base/fault_point.h"
#include "shm/lease_ledger.h"
#include "shm/slot_ring.h"

namespace carya::shm {

void Lease::Ledger::release(std::uint32_t slot, std::uint32_t generation) {
  {
    const MutexLock lock(releasing);
    format::ReaderPage& shared = own_page();
    // Relaxed: the tail publishes the entry, with the owner's load of the tail in collect().
    shared.releases[tail % format::kQueueEntries].store(format::pack(slot, generation),
                                                        std::memory_order_relaxed);
    FAULT_POINT("release.tail");
    shared.tail.store(++tail, std::memory_order_seq_cst);
  }
  FAULT_POINT("release.bell");
  held.fetch_sub(1, std::memory_order_relaxed);  // a figure, orders nothing
  if (header().owner_waiting.load(std::memory_order_seq_cst) != 0) eventfd_write(bell.get(), 1);
}

Lease::Lease(Lease&& other) noexcept
    : ledger_(std::move(other.ledger_)),
      data_(other.data_),
      slot_(other.slot_),
      generation_(other.generation_),
      sequence_(other.sequence_),
      meta_(other.meta_) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  release();
  ledger_ = std::move(other.ledger_);
  data_ = other.data_;
  slot_ = other.slot_;
  generation_ = other.generation_;
  sequence_ = other.sequence_;
  meta_ = other.meta_;
  return *this;
}

Lease::~Lease() {
  release();
}

std::byte* Lease::writable_data() const {
  return ledger_ && ledger_->slots_writable ? data_ : nullptr;
}

void Lease::release() {
  if (const auto ledger = std::move(ledger_); ledger && !ledger->forked())
    ledger->release(slot_, generation_);
}

}  // namespace carya::shm
