#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "transforms/plan/plan.h"

namespace carya::loader {

/// The CPU time of a stream's stages as a counter, from profiles that time a few samples only. The mean of all timed
/// samples times all samples would fall with each sample that is timed and cheaper than the mean. So samples are charged
/// by what was timed since the last look, and only then: what was charged stays. Threads: owner only.
class OpCpu {
 public:
  /// The seconds of each stage so far, in the order of `stages`, which are those of one stream and only grow.
  std::vector<double> look(std::span<const transforms::OpProfile> stages);

 private:
  struct Charged {
    std::uint64_t samples = 0, timed_samples = 0, cpu_ns = 0;
    double seconds = 0;
  };
  std::map<std::string, Charged> charged_;  // by what distinguishes the series: the stage's place and name
};

}  // namespace carya::loader
