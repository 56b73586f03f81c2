#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "autotune/placement/remote_cut.h"
#include "base/error.h"

namespace carya::autotune {

/// What is known of a stream, its host, its workers and their links. Where 0 means unknown, so does every impossible
/// number: negative, infinite, not a number.
struct PlacementInputs {
  double local_cpu_s = 0;       ///< thread-seconds of a sample that stays on the host; above 0
  std::vector<RemoteCut> cuts;  ///< the places where the plan can be cut; empty: nothing can go to workers
  double cores = 1;             ///< cores of the host that the stream may use; above 0
  double demand = 0;            ///< samples/s that the trainer takes if it never waits; 0: unknown, all
  double worker_cores = 1;      ///< mean cores of a worker
  /// The speed of each worker relative to one with those cores and costs, in the order in which workers are used; each
  /// above 0. Further workers have the mean speed of these. Empty: all workers have speed 1.
  std::vector<double> worker_speeds{};
  double link_in_bytes_per_s = 0;   ///< rate of the link to the host; 0: no limit is known
  double link_out_bytes_per_s = 0;  ///< rate of the link from the host; 0: no limit is known
  double source_bytes = 0;          ///< bytes of one record; 0: unknown
  double source_bytes_per_s = 0;  ///< rate of the storage for host and workers together; 0: no limit is known
};

struct Prices {
  double host_per_hour = 0;    ///< price of the host with its accelerators, in $
  double worker_per_hour = 0;  ///< price of one worker, in $

  bool operator==(const Prices&) const = default;
};

/// The prices where nobody gave any. Source: Google Cloud us-central1, on demand, of v2-8 and n2-standard-8, with which
/// Pecan (USENIX ATC 2024) was evaluated.
inline constexpr Prices kAssumedPrices{.host_per_hour = 4.96, .worker_per_hour = 0.427319};
inline constexpr double kSecondsPerHour = 3600;

enum class Objective : std::uint8_t {
  kCost,          ///< least cost per sample, among those that make the trainer wait <= 2 %, if there are any
  kSpeed,         ///< highest rate, then least cost
  kCostAtTarget,  ///< least cost per hour at the target rate; the highest rate below it if it is out of reach
};
/// "cost", "speed", "cost-at-target".
std::string_view objective_name(Objective objective);
/// Errors: kInvalidArgument with the three names.
Result<Objective> objective_from_name(std::string_view name);

inline constexpr std::uint32_t kAnyWorkersMax = 100'000;  ///< of workers_max

struct PlacementGoal {
  Objective objective = Objective::kCost;
  double target = 0;  ///< samples/s of kCostAtTarget; 0: what the trainer takes
  std::uint32_t workers_max = 256;
  /// That there can be for this stream: more are neither asked for nor offered.
  std::uint32_t workers_there = kAnyWorkersMax;
  double workers_cost_per_hour_max = std::numeric_limits<double>::infinity();  ///< $, of all workers together

  bool operator==(const PlacementGoal&) const = default;
};

/// Waiting that the objective kCost accepts, as a share of the trainer's time. Source: issue "Overflow".
inline constexpr double kStallMax = 0.02;

/// What keeps a stream from being faster.
enum class Limit : std::uint8_t {
  kDemand,      ///< the trainer, or the target: as fast as it is wanted
  kLocalCores,  ///< cores of the host, for what stays there and what it receives
  kWorkers,     ///< the workers chosen; more would be faster and cost more than they bring
  kLinkIn,
  kLinkOut,
  kSource,
  kWorkersThere,    ///< workers_there
  kWorkersMax,      ///< workers_max
  kWorkersCostMax,  ///< workers_cost_per_hour_max
};
std::string_view limit_name(Limit limit);

/// One way to run a stream and what the model says of it.
struct Choice {
  std::optional<std::size_t> cut;  ///< index of the facts' cuts; none: all local
  std::uint32_t workers = 0;
  bool all_remote = false;   ///< every sample goes; else only what local cores cannot do
  double cores = 0;          ///< of the host that are needed, not rounded
  double remote_share = 0;   ///< of the samples
  double rate = 0;           ///< samples/s
  double stall = 0;          ///< share of the time in which the trainer would wait; 0 where demand is unknown
  double cost_per_hour = 0;  ///< $, host and workers
  double cost_per_sample = 0;  ///< $; infinite at rate 0
  Limit limit = Limit::kDemand;
};

/// Errors: kInvalidArgument with the number and what it must be.
Status check(const PlacementInputs& facts);
Status check(const Prices& prices);
Status check(const PlacementGoal& goal);

/// The model: what a stream does with so many workers at one cut (none of either: all local). Only the
/// surplus goes to workers, and no more than they, the link and the host's cores for receiving can take;
/// cores are those that are needed. Numbers must have been checked.
Choice predict(const PlacementInputs& facts, const Prices& prices, const PlacementGoal& goal,
               std::optional<std::size_t> cut, std::uint32_t workers, bool all_remote = false);

/// Workers that there can be and that the goal allows, by number and bill.
std::uint32_t workers_allowed(const Prices& prices, const PlacementGoal& goal);

/// Whether `a` is better than `b` by the goal; `reachable`: some choice makes the trainer wait no more than
/// kStallMax.
bool better(const PlacementGoal& goal, const Choice& a, const Choice& b, bool reachable);

/// What place() found.
struct Best {
  Choice choice;
  bool reachable = false;  ///< some choice makes the trainer wait no more than kStallMax
};
/// The best number of workers and cut. Exact: every number that could help, at every cut; ties take fewer
/// workers, then the earlier cut. Pure. `serve` false: whether the trainer can be served is in doubt; nothing
/// is paid for that, and nothing is reachable. Errors: those of check().
Result<Best> place(const PlacementInputs& facts, const Prices& prices, const PlacementGoal& goal,
                   bool serve = true);
/// Of a choice that is the best, or has all the workers that it may have: its limit is that no more can be,
/// or are allowed, where more would be taken. Numbers must have been checked.
void name_limit(Choice& choice, const PlacementInputs& facts, const Prices& prices, const PlacementGoal& goal,
                bool serve = true);
/// Whether some choice makes the trainer wait no more than kStallMax. Numbers must have been checked.
bool reachable(const PlacementInputs& facts, const Prices& prices, const PlacementGoal& goal);
/// What the goal calls best of all samples made by workers; none as best_at_cut(). Numbers must have been
/// checked.
std::optional<Choice> best_all_remote(const PlacementInputs& facts, const Prices& prices,
                                      const PlacementGoal& goal, bool reachable);
/// The best at one cut with at least one worker; none where workers are not allowed or bring nothing. Numbers
/// must have been checked.
std::optional<Choice> best_at_cut(const PlacementInputs& facts, const Prices& prices,
                                  const PlacementGoal& goal, std::size_t cut, bool all_remote = false);

}  // namespace carya::autotune
