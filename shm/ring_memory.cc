#include "shm/ring_memory.h"

#include <sys/resource.h>

#include <fmt/core.h>
#include <array>
#include <cerrno>
#include <cstdio>
#include <new>
#include <string>

#include "shm/memfd.h"
#include "shm/memory_limit.h"

namespace carya::shm {
namespace {

using format::ControlHeader;

/// A size for people: "4.5 GiB", with about three digits.
std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; number >= 1024 && unit + 1 < kUnits.size(); ++unit) number /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || number >= 100 ? "%.0f %s" : "%.1f %s", number, kUnits[unit]);
  return text;
}

/// The error kExhausted, with the figures and the cure.
std::unexpected<Error> no_room(const SlotLayout& layout, const SlotRingOptions& options,
                               const std::string& why, int sys_errno) {
  const std::uint64_t bytes = options.slots * layout.slot_bytes();
  return fail(
      Code::kExhausted,
      fmt::format(
          "slots: {} of {} want {}: {}; give a smaller batch or image, or fewer slots= (2 at least){}",
          options.slots, bytes_text(layout.slot_bytes()), bytes_text(bytes), why,
          (options.hugetlb ? ", or do without huge pages" : ", or raise the memory limit")),
      sys_errno);
}

/// The error for missing descriptors: each slot is a memory file, and a descriptor of this process.
std::unexpected<Error> no_descriptor(const SlotRingOptions& options, int sys_errno) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string process =
      sys_errno == EMFILE
          ? fmt::format(
                "this process may open {} files; raise that limit (ulimit -n, or LimitNOFILE= of a service)",
                limit.rlim_cur)
          : "the machine has no more open files to give; raise sysctl fs.file-max";
  return fail(Code::kExhausted,
              fmt::format("slots: {} take a descriptor each, and {}", options.slots, process), sys_errno);
}

}  // namespace

Result<RingMemory> RingMemory::create(const SlotLayout& layout, const SlotRingOptions& options) {
  // Pages of the huge page pool are reserved already; all others must still be available.
  const std::uint64_t available = available_slot_bytes();
  if (!options.hugetlb && options.slots * layout.slot_bytes() + format::kControlBytes > available) {
    return no_room(layout, options, bytes_text(available) + " of memory are left for slots here", 0);
  }
  RingMemory memory;
  Status status = memory.add_control(layout, options);
  for (std::uint32_t slot = 0; status && slot < options.slots; ++slot)
    status = memory.add_slot(layout, options);
  if (status) return memory;
  const Error& error = status.error();
  if (error.sys_errno == EMFILE || error.sys_errno == ENFILE) return no_descriptor(options, error.sys_errno);
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
