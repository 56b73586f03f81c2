#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "loader/plan/plan_profile.h"

namespace carya::loader {

struct ReportOptions {
  autotune::Sense sense = autotune::Sense::kExact;
  /// The order that runs, as PlanOptions::order; empty: the one that the planner chooses.
  std::vector<std::size_t> running{};
};

/// Why a pipeline's ops run in the order in which they do, as a JSON object:
///   reorder           the sense under which orders are legal
///   declared, order   names of the ops ("name#1" for the second so called)
///   indices           the same order by the ops' declared places, as PlanOptions::order
///   declared_us, us   CPU time of one sample by the model
///   declared_ops, ops in their order: op, text (with its parameters), us, bytes_in, bytes_out, fused (in the
///                     pass of the op before), source, samples and age_s of the cost (as facts_json())
///   stages            of the order: the ops of each pass, by name
///   best              order, indices and us of what the planner chooses now
///   relaxed           order, indices and us of what a loader with reorder="relaxed" would run; null where
///                     that saves less than kWorthwhileSaving, and where it does already or ops stay as
///                     declared
///   proven            no legal order is cheaper than the best by the model
///   assumed           names of the ops whose cost nobody measured here
///   sizes             of a mean record: record_bytes, height, width, and of how many pictures (0: assumed)
///   measured          orders that ran, as facts_json() says
///   moves             exchanged pairs of the best: op (runs first), passes, saved_us, at_least
///   fusions           of the best: op, with, saved_us, at_least
///   alternatives      orders within 20 % of the best: order, us, loss, text
///   stream            what a stream met, this one or an earlier one: read_latency_s, read_bytes_per_s (while
///                     reads were under way) and their age read_age_s; demand_per_s (samples/s that the
///                     trainer takes when it never waits) and demand_age_s; null where nobody measured it
///   parallelism       threads that a loader takes by itself here, cores that it may use
/// Errors: those of the planner.
Result<std::string> explain_order(const transforms::Pipeline& pipeline, const PlanProfile& profile,
                                  const ReportOptions& options = {});

/// Explain the order that a stream would begin with, by the profile that earlier streams of the pipeline left in the
/// cache folder of this machine, if there is one. `options.running` replaces that order unless it is empty.
Result<std::string> explain_kept(const transforms::Pipeline& pipeline, const std::string& cache_dir,
                                 ReportOptions options = {});

}  // namespace carya::loader
