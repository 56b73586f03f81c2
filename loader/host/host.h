#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

namespace carya::loader {

/// The largest number of threads of one stream or one worker.
inline constexpr std::uint32_t kThreadsMax = 1024;
/// What a job's weight may be.
inline constexpr double kWeightMin = 0.01, kWeightMax = 100;

/// The machine, and what this process may use of it.
struct HostInfo {
  std::string kernel;  ///< "6.1.0-..."
  std::uint32_t online_cores = 1;
  std::uint32_t affinity_cores = 1;
  double quota_cores = 0;              ///< cgroup v1 or v2 CPU quota in cores; 0: none
  std::string quota_source;            ///< the file the quota was read from
  double allowed_cores = 1;            ///< affinity and quota together
  std::uint32_t local_processes = 1;   ///< ranks on this host, by the launcher's variables
  std::string local_processes_source;  ///< the name of that variable, or ""
  std::uint64_t memory_bytes = 0;      ///< the smaller of the machine's memory and the cgroup's limit
  std::uint64_t memlock_bytes = 0;     ///< RLIMIT_MEMLOCK
  std::uint64_t open_files_max = 0;    ///< RLIMIT_NOFILE
  std::string thp_shmem;               ///< the chosen word of transparent_hugepage/shmem_enabled; "": unknown
  std::uint32_t equal_weight_siblings = 0;  ///< busy sibling cgroups with our own CPU weight
};

/// Read the machine anew. Never fails: a field that cannot be read keeps its default.
HostInfo read_host_info();

/// The threads of `threads="auto"`: allowed cores / local processes, at least 1 (DESIGN section 8).
std::uint32_t auto_threads(const HostInfo& facts);

/// The whole cores that affinity and quota allow now, at least 1. Reads nothing else.
std::uint32_t cores_allowed();

/// The name of the CPU, such as "Intel(R) Xeon(R) Platinum 8480+"; "" if the kernel does not say.
std::string cpu_name();
/// The name of the CPU in the text of /proc/cpuinfo. On aarch64 that has numbers instead: "ARM 0x41/0xd4f" (implementer
/// and part).
std::string cpu_name_of(std::istream& cpuinfo);

/// The CPU quota, in cores, from the text of cgroup v2's cpu.max ("max 100000" is 0), or from v1's quota and period.
double quota_from_cpu_max(const std::string& text);
double quota_from_cfs(std::int64_t quota_us, std::int64_t period_us);

}  // namespace carya::loader
