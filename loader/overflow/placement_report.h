#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autotune/controller/controller.h"
#include "remote/pool/pool.h"

namespace carya::loader {

/// Dollars spent so far, and what the same samples would have cost elsewhere.
struct Bill {
  double host = 0;
  double workers = 0;
  double all_local = 0;
  double all_remote = 0;
};

/// A stream's placement at one moment: who computes, what was decided, and the numbers behind the decision.
struct PlacementReport {
  std::vector<remote::WorkerStats> workers;  ///< all workers, with those that were expelled
  std::vector<std::string> events;           ///< the last events, one line each
  autotune::Objective objective{};
  autotune::Prices prices{};
  bool fixed = false;    ///< the user has said how many workers there are
  std::string trouble;   ///< "": none
  std::string pipeline;  ///< the pipeline's fingerprint
  std::string phase;     ///< the controller's phase; "connecting" while nothing is decided
  std::string why;       ///< the reason of the decision, in words

  /// The part that there is once a decision was made.
  struct Decided {
    autotune::PlacementInputs facts;
    autotune::Choice choice;                      ///< the placement that runs, as the model sees it
    std::uint32_t workers = 0;                    ///< workers that run
    std::uint32_t cores = 0;                      ///< cores of this machine that the stream uses
    std::uint64_t ops_remote = 0;                 ///< ops that workers run; 0: no plan was sent
    std::optional<autotune::EarlierRun> earlier;  ///< the earlier run that the controller began with
    std::uint64_t changes = 0;
    double confidence = 0;
    double looks_again_in_s = 0;
    autotune::Measurements measured;              ///< measurements of the last interval
    std::vector<autotune::Neighbour> neighbours;  ///< placements next to the one that runs
    std::vector<std::size_t> order;               ///< order of the ops, by declared place
    std::vector<std::string> op_names;            ///< names of the ops, in that order
    double seconds = 0;                           ///< seconds since the start
    Bill bill;
  };
  std::optional<Decided> decided;
};

/// The report as a JSON object (docs/remote.md). Numbers that are not known, or have no bound, are null.
std::string to_json(const PlacementReport& report);

}  // namespace carya::loader
