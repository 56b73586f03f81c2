#include "loader/daemon/process_status.h"

#include <unistd.h>

#include <filesystem>
#include <utility>

#include "loader/engine/guest_seat.h"
#include "loader/program/process_figures.h"

namespace carya::loader {

void describe_process(DaemonStatus& status) {
  status.pid = static_cast<std::uint64_t>(getpid());
  const ProcessFigures figures = process_figures();
  status.cpu_s = figures.cpu_s;
  status.memory_bytes = figures.memory_bytes;
  status.descriptors = figures.descriptors;
  status.descriptors_limit = figures.descriptors_limit;
  std::error_code ignored;
  status.mount_namespace = std::filesystem::read_symlink("/proc/self/ns/mnt", ignored);
  GuestsSeen seen = guests_seen();
  status.guests = std::move(seen.guests);
  status.guests_cpu_s = seen.cpu_s;
}

}  // namespace carya::loader
