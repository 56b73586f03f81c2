// The C library's functions that tell the time of day, defined once more: those of a program come before the
// library's, also for libstdc++ and spdlog.

#include "tests/faults/fault_clock.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

// They run before a sanitizer is ready, and below it.
#if defined(__clang__)
#define CARYA_UNSANITIZED __attribute__((disable_sanitizer_instrumentation))
#else
#define CARYA_UNSANITIZED __attribute__((no_sanitize("thread", "address", "undefined")))
#endif

namespace {

carya::faults::FaultClock* shifted_clock = nullptr;  // written before main()

/// Before the first thread. The descriptor is closed: what the process has open is counted.
__attribute__((constructor)) void find_clock() {
  const char* const text = std::getenv(carya::faults::kFaultClockVariable);
  if (text == nullptr) return;
  const int fd = std::atoi(text);
  void* const page =
      mmap(nullptr, sizeof(carya::faults::FaultClock), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (page == MAP_FAILED) _exit(126);  // a fault that has no effect must not pass for one
  shifted_clock = static_cast<carya::faults::FaultClock*>(page);
}

CARYA_UNSANITIZED bool is_time_of_day(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

CARYA_UNSANITIZED time_t take_shift() {
  if (shifted_clock == nullptr) return 0;
  const std::int64_t shift_s =
      __atomic_load_n(reinterpret_cast<std::int64_t*>(&shifted_clock->shift_s), __ATOMIC_RELAXED);
  if (shift_s != 0)
    __atomic_fetch_add(reinterpret_cast<std::uint64_t*>(&shifted_clock->answered), 1, __ATOMIC_RELAXED);
  return static_cast<time_t>(shift_s);
}

}  // namespace

extern "C" {

CARYA_UNSANITIZED int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long said = syscall(SYS_clock_gettime, clock, now);
  if (said == 0 && is_time_of_day(clock)) now->tv_sec += take_shift();
  return static_cast<int>(said);
}

CARYA_UNSANITIZED int gettimeofday(timeval* now, void* zone) noexcept {
  const long said = syscall(SYS_gettimeofday, now, zone);
  if (said == 0) now->tv_sec += take_shift();
  return static_cast<int>(said);
}

CARYA_UNSANITIZED time_t time(time_t* now) noexcept {
  timespec exact{};
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now != nullptr) *now = exact.tv_sec;
  return exact.tv_sec;
}

}  // extern "C"
