#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autotune/placement/placement.h"
#include "base/error.h"

namespace carya::autotune {

/// One job that wants cores of a host, or one host that wants workers of a fleet.
struct Claim {
  PlacementFacts facts;  ///< cores: of the host, what it has already; shared cores ignore it
  Prices prices;
  PlacementGoal goal;  ///< workers_max bounds what it is given
};

/// What another core or worker is worth to a claim is the money it saves: the fall of its cost per sample
/// times the rate it then has. Each is given where it saves most, one after the other, which is the optimum
/// where each further one saves less than the one before. Nobody starves. Pure, and the same every time; ties
/// go to the earlier claim.

/// Threads of a host with `cores` for its jobs: at least one for each, `cores` in all (one each, where there
/// are more jobs). With workers that a job may have, a core saves what they cost. They are limits: what saves
/// nobody money goes to who has fewest, so that a job alone may use all. Errors: kInvalidArgument: those of
/// check(), with the claim's index; no cores.
Result<std::vector<std::uint32_t>> share_threads(std::span<const Claim> jobs, std::uint32_t cores);

/// Workers of a fleet with `workers` for its hosts; a host that gains by one gets at least one, where there
/// are as many. Workers that save nobody money are given to nobody. Errors: as above.
/// Cost: one prediction per cut for each worker given, and one more for each host.
Result<std::vector<std::uint32_t>> share_workers(std::span<const Claim> hosts, std::uint32_t workers);

/// What the last of so many workers saves a host, in $ per hour; of none: what a first one would. Of checked
/// numbers.
double worth_of_worker(const Claim& host, std::uint32_t workers);

}  // namespace carya::autotune
