#include "loader/program/process_figures.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace carya::loader {

ProcessFigures process_figures() {
  ProcessFigures figures;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  figures.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  std::uint64_t total_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  figures.memory_bytes = resident_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::error_code ignored;
  for (auto entry = std::filesystem::directory_iterator("/proc/self/fd", ignored);
       entry != std::filesystem::directory_iterator(); ++entry)
    ++figures.descriptors;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  figures.descriptors_limit = limit.rlim_cur;
  return figures;
}

}  // namespace carya::loader
