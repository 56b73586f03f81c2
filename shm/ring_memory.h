#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "shm/region.h"
#include "shm/ring_format.h"
#include "shm/slot_ring.h"

namespace carya::shm {

/// All memory of a ring but its readers' pages: allocated, mapped, pre-faulted, sealed, in that order, so
/// that nothing that comes later can fail for lack of it. Threads: owner only.
struct RingMemory {
  /// Errors: kExhausted, with the bytes wanted and what to lower; kUnsupported.
  static Result<RingMemory> create(const SlotLayout& layout, const SlotRingOptions& options);

  format::ControlHeader& header() { return *reinterpret_cast<format::ControlHeader*>(control.data()); }
  format::SlotEntry& slot_entry(std::uint32_t slot) {
    return reinterpret_cast<format::SlotEntry*>(control.data() + format::kSlotsOffset)[slot];
  }
  format::ReaderEntry& reader_entry(std::uint32_t reader) {
    return reinterpret_cast<format::ReaderEntry*>(control.data() + format::kReadersOffset)[reader];
  }

  UniqueFd control_fd;
  Region control;
  std::vector<UniqueFd> slot_fds;
  std::vector<Region> slots;  // each starts with the layout's table
  std::uint64_t huge_bytes = 0;

 private:
  Status add_control(const SlotLayout& layout, const SlotRingOptions& options);
  Status add_slot(const SlotLayout& layout, const SlotRingOptions& options);
};

}  // namespace carya::shm
