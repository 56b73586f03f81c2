#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "autotune/placement/placement.h"

namespace carya::autotune::simulator {

/// Some samples of one job and how they can be made: a way costs dollars and worker-hours for each sample. Only ways are
/// kept of which none costs more of both than a mixture of others. By worker-hours.
class Work {
 public:
  /// Every number of workers up to `workers_max` at every cut, by the model; what a job does not use of its last worker
  /// others do. `scaling_loss`: as in WorldSpec.
  Work(double samples, const PlacementInputs& truth, const Prices& prices, double scaling_loss,
       std::uint32_t workers_max);

  struct Way {
    double dollars = 0, worker_hours = 0;  ///< of one sample
  };
  /// The cheapest where each worker-hour costs `extra` dollars more.
  const Way& cheapest(double extra) const;
  double samples() const { return samples_; }

 private:
  double samples_;
  std::vector<Way> ways_;
};

/// The least that all of this work costs, in dollars, with at most so many worker-hours in all. No plan whatever costs
/// less: one may mix ways, work at any time, move workers without loss and start them at once. It is the dual of that
/// linear program: a price on worker-hours for which no more are taken than there are. Where there are too few for any
/// way: as if there were enough.
double least_cost(std::span<const Work> work, double worker_hours);

/// How much of `total` each has if it goes by weight, none less than `least` nor more than `most` of it says: the same
/// times its weight, but for these bounds. If the `least` are more than there is, all have their `least`.
std::vector<double> by_weight(std::span<const double> weights, std::span<const double> least,
                              std::span<const double> most, double total);

/// Jain's index: 1 where all are equal, 1 / n where one has all.
double jain_index(std::span<const double> shares);

}  // namespace carya::autotune::simulator
