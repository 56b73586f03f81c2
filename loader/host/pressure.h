#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace carya::loader {

/// What else wants the cores, disks and memory that this process uses. What cannot be read is not there,
/// never 0.
struct LocalPressure {
  /// Shares, 0 to 1, of the last ten seconds in which some task waited for a core, for storage, for memory:
  /// of our own cgroup where the kernel says it, else of the machine.
  std::optional<double> cpu{}, io{}, memory{};
  std::optional<std::uint64_t> runnable{};  ///< tasks of the machine that run or could: the run queue
  std::uint32_t cores = 1;                  ///< that this process may use (cores_allowed())
  /// Of the periods in which a CPU quota was looked at, the share in which it was used up, 0 to 1; and for
  /// how long tasks were kept from running by it, in seconds. Since the cgroup began: of our own, or of the
  /// one above it that was kept most.
  std::optional<double> throttled_share{}, throttled_s{};
};

/// Read it now. Never fails. `root`: the folder in which proc/ and sys/ are looked for ("" for tests only: a
/// machine of files).
/// Cost: a dozen small files of the kernel's (bench_pressure): for who asks, never for each batch.
/// Source: Documentation/accounting/psi.rst, admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst.
LocalPressure read_local_pressure(const std::string& root = "");

/// LocalPressure::memory in percent, 0 where the kernel says nothing.
double read_memory_pressure();

// Of texts as the kernel writes them; nothing where the text is not that.

/// The share of ten seconds in a pressure file ("some avg10=1.53 avg60=...": 0.0153).
std::optional<double> psi_share(const std::string& text);
/// Of /proc/loadavg ("0.20 0.18 0.12 3/80 11206": 3). The procs_running of /proc/stat is the same number, in
/// a file that takes the kernel far longer to write.
std::optional<std::uint64_t> runnable_from(const std::string& text);

struct Throttling {
  std::uint64_t periods = 0;    ///< looked at
  std::uint64_t throttled = 0;  ///< of them, the quota was used up
  double throttled_s = 0;
};
/// Of a cgroup's cpu.stat: version 2 (throttled_usec) or 1 (throttled_time, nanoseconds).
std::optional<Throttling> throttling_from(const std::string& text);

}  // namespace carya::loader
