#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace carya::loader {

/// The competition for the cores, disks and memory that this process uses. A number that cannot be read is empty, never
/// 0.
struct LocalPressure {
  /// The shares, 0 to 1, of the last ten seconds in which some task waited for a core, for storage, for memory. They
  /// are of our own cgroup if the kernel says so, else of the machine.
  std::optional<double> cpu{}, io{}, memory{};
  std::optional<std::uint64_t> runnable{};  ///< tasks of the machine that run or could: the run queue
  std::uint32_t cores = 1;                  ///< cores that this process may use (cores_allowed())
  /// The share, 0 to 1, of the CPU quota's periods in which the quota was used up, and the seconds for which it kept
  /// tasks from running. Both count since the cgroup began: our own, or the ancestor that was throttled most.
  std::optional<double> throttled_share{}, throttled_s{};
};

/// Read the pressure now. Never fails. `root`: the folder that contains proc/ and sys/; a test gives a folder of files.
/// Cost: reads a dozen small files of the kernel (bench_pressure). Call it on request, never for each batch.
/// Source: Documentation/accounting/psi.rst, admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst.
LocalPressure read_local_pressure(const std::string& root = "");

/// LocalPressure::memory in percent; 0 if the kernel says nothing.
double read_memory_pressure();

// These read texts that the kernel writes. The result is empty if the text has another form.

/// The share of ten seconds in a pressure file ("some avg10=1.53 avg60=...": 0.0153).
std::optional<double> psi_share(const std::string& text);
/// The running tasks in /proc/loadavg ("0.20 0.18 0.12 3/80 11206": 3). The procs_running of /proc/stat is the same
/// number, but the kernel needs far longer to write that file.
std::optional<std::uint64_t> runnable_from(const std::string& text);

struct Throttling {
  std::uint64_t periods = 0;    ///< periods of the quota
  std::uint64_t throttled = 0;  ///< periods in which the quota was used up
  double throttled_s = 0;
};
/// The throttling in a cgroup's cpu.stat, of version 2 (throttled_usec) or 1 (throttled_time, nanoseconds).
std::optional<Throttling> throttling_from(const std::string& text);

}  // namespace carya::loader
