#include "shm/ring_memory.h"

#include <new>
#include <string>

#include "shm/memfd.h"
#include "shm/memory_limit.h"

namespace carya::shm {
namespace {

using format::ControlHeader;

/// kExhausted, with the figures and what to do about them.
std::unexpected<Error> no_room(const SlotLayout& layout, const SlotRingOptions& options,
                               const std::string& why, int sys_errno) {
  return fail(Code::kExhausted,
              "slot ring of " + std::to_string(options.slots) + " slots x " +
                  std::to_string(layout.slot_bytes()) + " B wants " +
                  std::to_string(options.slots * layout.slot_bytes()) + " B: " + why +
                  "; lower `slots` or the batch size" + (options.hugetlb ? ", or do without huge pages" : ""),
              sys_errno);
}

}  // namespace

Result<RingMemory> RingMemory::create(const SlotLayout& layout, const SlotRingOptions& options) {
  // Pages of the huge page pool are set aside already; the others must still be found.
  const std::uint64_t available = available_slot_bytes();
  if (!options.hugetlb && options.slots * layout.slot_bytes() + format::kControlBytes > available) {
    return no_room(layout, options, std::to_string(available) + " B of memory are available for slots", 0);
  }
  RingMemory memory;
  Status status = memory.add_control(layout, options);
  for (std::uint32_t slot = 0; status && slot < options.slots; ++slot)
    status = memory.add_slot(layout, options);
  if (status) return memory;
  const Error& error = status.error();
  if (error.code == Code::kExhausted) return no_room(layout, options, error.message, error.sys_errno);
  return std::unexpected(error);
}

Status RingMemory::add_control(const SlotLayout& layout, const SlotRingOptions& options) {
  ASSIGN(control_fd, create_memfd("carya-control", format::kControlBytes, false));
  ASSIGN(control, Region::map(control_fd.get(), format::kControlBytes, Region::Access::kReadWrite));
  control.prefault();
  TRY(seal_memfd(control_fd.get(), kSealReadOnly));
  auto* shared = new (control.data()) ControlHeader{};
  shared->magic = format::kControlMagic;
  shared->version = format::kVersion;
  shared->flags = options.readers_may_write ? 0 : format::kFlagReadOnly;
  shared->control_bytes = format::kControlBytes;
  shared->slot_bytes = layout.slot_bytes();
  shared->slots_offset = format::kSlotsOffset;
  shared->readers_offset = format::kReadersOffset;
  shared->slots = options.slots;
  shared->readers = options.readers;
  return {};
}

Status RingMemory::add_slot(const SlotLayout& layout, const SlotRingOptions& options) {
  const std::uint64_t bytes = layout.slot_bytes();
  ASSIGN(UniqueFd fd, create_memfd("carya-slot", bytes, options.hugetlb));
  ASSIGN(Region region, Region::map(fd.get(), bytes, Region::Access::kReadWrite));
  huge_bytes += options.hugetlb ? bytes : region.collapse();
  region.prefault();
  TRY(seal_memfd(fd.get(), options.readers_may_write ? kSealSize : kSealReadOnly));
  layout.write(region.data());
  slot_fds.push_back(std::move(fd));
  slots.push_back(std::move(region));
  return {};
}

}  // namespace carya::shm
