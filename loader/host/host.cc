#include "loader/host/host.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/cgroup.h"

namespace carya::loader {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::int64_t first_number(const std::string& path, std::int64_t otherwise) {
  const std::string line = first_line(path);
  std::int64_t number = otherwise;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  return error == std::errc() ? number : otherwise;
}

/// Path of this process in a hierarchy.
std::string own_cgroup(const std::string& controller) {
  return cgroup_path(kernel_text("/proc/self/cgroup"), controller);
}

void lower(double& limit, std::string& source, double value, const std::string& file) {
  if (value <= 0 || (limit > 0 && limit <= value)) return;
  limit = value;
  source = file;
}

void read_quota(HostInfo& facts) {
  each_ancestor("/sys/fs/cgroup", own_cgroup(""), [&](const std::string& folder) {
    lower(facts.quota_cores, facts.quota_source, quota_from_cpu_max(first_line(folder + "/cpu.max")),
          folder + "/cpu.max");
  });
  for (const char* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
    each_ancestor(mount, own_cgroup("cpu"), [&](const std::string& folder) {
      lower(facts.quota_cores, facts.quota_source,
            quota_from_cfs(first_number(folder + "/cpu.cfs_quota_us", -1),
                           first_number(folder + "/cpu.cfs_period_us", 0)),
            folder + "/cpu.cfs_quota_us");
    });
  }
}

void read_cores(HostInfo& facts) {
  facts.online_cores = static_cast<std::uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  facts.affinity_cores = facts.online_cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    facts.affinity_cores = static_cast<std::uint32_t>(std::max(1, CPU_COUNT(&set)));
  read_quota(facts);
  facts.allowed_cores = facts.affinity_cores;
  if (facts.quota_cores > 0) facts.allowed_cores = std::min(facts.allowed_cores, facts.quota_cores);
}

void read_memory(HostInfo& facts) {
  struct sysinfo info{};
  if (sysinfo(&info) == 0) facts.memory_bytes = static_cast<std::uint64_t>(info.totalram) * info.mem_unit;
  const auto cap = [&](std::int64_t limit) {
    if (limit > 0) facts.memory_bytes = std::min(facts.memory_bytes, static_cast<std::uint64_t>(limit));
  };
  each_ancestor("/sys/fs/cgroup", own_cgroup(""),
                [&](const std::string& folder) { cap(first_number(folder + "/memory.max", 0)); });
  each_ancestor("/sys/fs/cgroup/memory", own_cgroup("memory"),
                [&](const std::string& folder) { cap(first_number(folder + "/memory.limit_in_bytes", 0)); });
}

void read_siblings(HostInfo& facts) {
  namespace fs = std::filesystem;
  const std::string path = own_cgroup("");
  if (path.empty() || path == "/") return;
  const fs::path own = "/sys/fs/cgroup" + path;
  const std::string weight = first_line((own / "cpu.weight").string());
  if (weight.empty()) return;
  std::error_code error;
  fs::directory_iterator entry(own.parent_path(), error);
  for (; !error && entry != fs::directory_iterator();
       entry.increment(error)) {  // groups come and go meanwhile
    std::error_code ignored;
    if (!entry->is_directory(ignored) || entry->path() == own) continue;
    const bool busy = !first_line((entry->path() / "cgroup.procs").string()).empty();
    if (busy && first_line((entry->path() / "cpu.weight").string()) == weight) ++facts.equal_weight_siblings;
  }
}

void read_local_processes(HostInfo& facts) {
  for (const char* name : {"LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE"}) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    const long count = std::strtol(text, nullptr, 10);  // "4(x2)" of Slurm reads as 4
    if (count < 1) continue;
    facts.local_processes = static_cast<std::uint32_t>(std::min(count, 1024L));
    facts.local_processes_source = name;
    return;
  }
}

/// "always [within_size] advise" -> "within_size".
std::string bracketed(const std::string& line) {
  const auto open = line.find('[');
  const auto close = line.find(']');
  return open == std::string::npos || close == std::string::npos ? std::string()
                                                                 : line.substr(open + 1, close - open - 1);
}

}  // namespace

double quota_from_cpu_max(const std::string& text) {
  std::istringstream words(text);
  std::int64_t quota = 0;
  std::int64_t period = 0;
  return words >> quota >> period ? quota_from_cfs(quota, period) : 0;
}

double quota_from_cfs(std::int64_t quota_us, std::int64_t period_us) {
  return quota_us > 0 && period_us > 0 ? static_cast<double>(quota_us) / static_cast<double>(period_us) : 0;
}

HostInfo read_host_info() {
  HostInfo facts;
  utsname name{};
  if (uname(&name) == 0) facts.kernel = name.release;
  read_cores(facts);
  read_memory(facts);
  read_siblings(facts);
  read_local_processes(facts);
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) facts.memlock_bytes = limit.rlim_cur;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) facts.open_files_max = limit.rlim_cur;
  facts.thp_shmem = bracketed(first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
  return facts;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  return cpu_name_of(file);
}

std::string cpu_name_of(std::istream& cpuinfo) {
  std::string implementer, part, line;
  while (std::getline(cpuinfo, line)) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) return value;
    if (line.starts_with("CPU implementer")) implementer = value;
    if (line.starts_with("CPU part")) part = value;
    if (!implementer.empty() && !part.empty()) return "ARM " + implementer + "/" + part;
  }
  return {};
}

std::uint32_t cores_allowed() {
  HostInfo facts;
  read_cores(facts);
  return static_cast<std::uint32_t>(std::max(1.0, facts.allowed_cores));
}

std::uint32_t auto_threads(const HostInfo& facts) {
  return static_cast<std::uint32_t>(std::max(1.0, std::floor(facts.allowed_cores / facts.local_processes)));
}

}  // namespace carya::loader
