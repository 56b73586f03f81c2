#include "loader/daemon/process_status.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "loader/engine/guest_seat.h"

namespace carya::loader {

void describe_process(DaemonStatus& status) {
  status.pid = static_cast<std::uint64_t>(getpid());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  status.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  std::uint64_t total_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  status.memory_bytes = resident_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::error_code ignored;
  status.mount_namespace = std::filesystem::read_symlink("/proc/self/ns/mnt", ignored);
  for (auto entry = std::filesystem::directory_iterator("/proc/self/fd", ignored);
       entry != std::filesystem::directory_iterator(); ++entry)
    ++status.descriptors;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  status.descriptors_limit = limit.rlim_cur;
  GuestsSeen seen = guests_seen();
  status.guests = std::move(seen.guests);
  status.guests_cpu_s = seen.cpu_s;
}

}  // namespace carya::loader
