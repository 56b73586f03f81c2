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

/// A reader's mappings and its end of the releases, shared by the reader and all its leases: the last of them
/// unmaps. In a forked child nothing of it is touched.
struct Lease::Ledger {
  const std::uint32_t epoch = fork_epoch();
  Region control;  // read-only
  Region page;     // this reader's own
  std::vector<Region> slots;
  UniqueFd bell;
  bool slots_writable = false;
  std::atomic<std::uint32_t> held{0};  // leases alive

  // Several threads release; the page has one tail. Only this ledger's releases wait for it, a few
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

  /// Protocol 8 and 10.
  void release(std::uint32_t slot, std::uint32_t generation);
};

}  // namespace carya::shm
