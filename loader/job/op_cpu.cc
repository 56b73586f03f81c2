#include "loader/job/op_cpu.h"

#include <fmt/core.h>

namespace carya::loader {

std::vector<double> OpCpu::look(std::span<const transforms::OpProfile> stages) {
  std::vector<double> seconds;
  for (const transforms::OpProfile& stage : stages) {
    Charged& one = charged_[fmt::format("{} {}", seconds.size(), stage.name)];
    const bool grew =
        stage.timed_samples > one.timed_samples && stage.samples >= one.samples && stage.cpu_ns >= one.cpu_ns;
    if (grew) {
      const double mean_ns = static_cast<double>(stage.cpu_ns - one.cpu_ns) /
                             static_cast<double>(stage.timed_samples - one.timed_samples);
      one = {.samples = stage.samples,
             .timed_samples = stage.timed_samples,
             .cpu_ns = stage.cpu_ns,
             .seconds = one.seconds + static_cast<double>(stage.samples - one.samples) * mean_ns * 1e-9};
    }
    seconds.push_back(one.seconds);
  }
  return seconds;
}

}  // namespace carya::loader
