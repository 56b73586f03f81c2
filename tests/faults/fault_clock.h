#pragma once

#include <atomic>
#include <cstdint>

namespace carya::faults {

/// The clock that the twins go by: where CARYA_FAULT_CLOCK names a descriptor of this, CLOCK_REALTIME (and
/// its kin: CLOCK_REALTIME_COARSE, CLOCK_TAI, gettimeofday, time) is the kernel's plus `shift_s`. Monotonic
/// clocks stay what they are, as when the time of a machine is set. The harness writes, its children read.
struct FaultClock {
  std::atomic<std::int64_t> shift_s;
  std::atomic<std::uint64_t> answered;  ///< questions that were answered with a shifted time
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

inline constexpr char kFaultClockVariable[] = "CARYA_FAULT_CLOCK";

}  // namespace carya::faults
