#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "autotune/placement/placement.h"
#include "base/error.h"

namespace carya::autotune {

/// One job that wants cores of a host, or one host that wants workers of a fleet.
struct Claim {
  PlacementInputs facts;  ///< `cores` are those that the host has already; share_threads() ignores them
  Prices prices;
  PlacementGoal goal;  ///< `workers_max` bounds the workers that the claim is given
  /// Of the cores or workers, beside the weights of the other claims; above 0.
  double weight = 1;
  /// Claims of one owner, the jobs of a user say, have the workers that their weights give together, and money alone
  /// decides among them. None: an owner of its own. share_threads() ignores it.
  std::optional<std::uint32_t> owner{};
};

// The worth of another core or worker to a claim is the money that it saves: the fall of the cost per sample times the
// rate that the claim then has. Weights say how many may be had, money who of those that may have them: they are given
// one after the other, each to the claim that saves most by it. That is the optimum of what weights allow if each further
// one saves less than the one before. Nobody starves. The functions are pure; ties go to the earlier claim.

/// Share the `cores` of a host among its jobs. A job's right is its part of the cores by weight. Each job gets the whole
/// cores of its right as far as they save money, and at least one; what others leave of theirs goes where it saves most.
/// If a job may have workers, a core saves their cost. The shares are limits: cores that save nobody money go to the job
/// with the fewest, so that a job alone may use all. Where a right has a part of a core, or others have more than theirs
/// since nobody has less than one, the limit is rounded up: then the limits are more than the cores, and whoever
/// computes must let the jobs take turns by weight. Errors: kInvalidArgument (those of check(), with the claim's index; a
/// weight; no cores).
Result<std::vector<std::uint32_t>> share_threads(std::span<const Claim> jobs, std::uint32_t cores);

/// Share the `workers` of a fleet among its hosts. A host that saves money by a worker gets at least one, if there are
/// enough. Each other one goes to the owner that has fewest for its weight of those that save money by another, and there
/// to the host that saves most: an owner has at least the whole workers of its part by weight as far as they save money,
/// but for those that its first ones took, and what it leaves goes to the others by weight. Owners that are equal in that
/// go by money. Workers that save nobody money are given to nobody. Errors: as share_threads().
/// Cost: one prediction per cut for each worker that is given, and one more for each host.
Result<std::vector<std::uint32_t>> share_workers(std::span<const Claim> hosts, std::uint32_t workers);

/// What the last of `workers` workers saves a host, in $ per hour; for 0, what a first one would save. The claim's
/// numbers are checked already.
double worth_of_worker(const Claim& host, std::uint32_t workers);

}  // namespace carya::autotune
