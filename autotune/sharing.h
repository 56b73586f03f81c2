#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autotune/placement.h"
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
/// where each further one saves less than the one before. Nobody starves: first everybody gets an equal share
/// of a tenth of all (of what it can use, if that is less). Pure, and the same every time; ties go to the
/// earlier claim.

/// Cores of a host with `cores` for its jobs, in quarters. What nobody needs is given to nobody.
/// Errors: kInvalidArgument: those of check(), with the claim's index; cores that are not above 0.
Result<std::vector<double>> share_cores(std::span<const Claim> jobs, double cores);

/// Workers of a fleet with `workers` for its hosts; a host that gains by one gets at least one, where there
/// are as many. Workers that save nobody money are given to nobody. Errors: as above.
/// Cost: one prediction per cut for each worker given, and one more for each host.
Result<std::vector<std::uint32_t>> share_workers(std::span<const Claim> hosts, std::uint32_t workers);

}  // namespace carya::autotune
