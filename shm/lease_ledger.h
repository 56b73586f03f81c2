#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "shm/fork_watch.h"
#include "shm/region.h"
#include "shm/ring_format.h"
#include "shm/slot_ring.h"

namespace carya::shm {

/// A reader's mappings and its end of the releases. The reader and all its leases share it; the last of them unmaps. A
/// forked child touches nothing of it.
struct Lease::Ledger {
  const std::uint32_t epoch = fork_epoch();
  Region control;  // read-only
  Region page;     // this reader's own
  std::vector<Region> slots;
  UniqueFd bell;
  bool slots_writable = false;
  std::atomic<std::uint32_t> held{0};  // leases alive

  // Several threads release, and the page has one tail. Only releases of this ledger wait for each other, for a few
  // nanoseconds.
  Mutex releasing;
  std::uint64_t tail GUARDED_BY(releasing) = 0;  // what the page's tail says

  bool forked() const { return epoch != fork_epoch(); }
  const format::ControlHeader& header() const {
    return *reinterpret_cast<const format::ControlHeader*>(control.data());
  }
  const format::SlotEntry& slot_entry(std::uint32_t slot) const {
    return reinterpret_cast<const format::SlotEntry*>(control.data() + format::kSlotsOffset)[slot];
  }
  const format::ReaderEntry& reader_entry(std::uint32_t reader) const {
    return reinterpret_cast<const format::ReaderEntry*>(control.data() + format::kReadersOffset)[reader];
  }
  format::ReaderPage& own_page() { return *reinterpret_cast<format::ReaderPage*>(page.data()); }

  /// Steps 8 and 10 of the protocol in slot_ring.cc.
  void release(std::uint32_t slot, std::uint32_t generation);
};

}  // namespace carya::shm
