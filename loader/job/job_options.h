#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotune/order/op_model.h"
#include "io/read/read_engine.h"
#include "loader/data/decode_index.h"
#include "loader/host/host.h"
#include "loader/overflow/remote_options.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

class Crew;

/// For tests only: orders of the pipeline's ops, each of all indices.
struct PlanTesting {
  std::vector<std::vector<std::size_t>>
      orders{};                                 ///< the stream begins with the first; empty: by the planner
  std::uint64_t every_chunks = 0;               ///< turn to the next one so often; 0: as the planner says
  std::optional<std::int64_t> look_after_ns{};  ///< StreamPlannerOptions
};

/// How one rank's stream is made.
struct JobOptions {
  std::uint64_t rank = 0;
  std::uint64_t world_size = 1;
  std::optional<std::uint64_t> epochs;  ///< none: without end
  std::uint32_t threads = 0;            ///< 0: auto_threads(); at most kThreadsMax
  std::uint32_t slots = 0;              ///< 0: enough for `threads`, one held and one ready; else at least 2
  std::uint64_t read_ahead_bytes = 64 << 20;
  transforms::OnError on_error = transforms::OnError::kRaise;
  std::optional<std::uint64_t> seed;  ///< overrides the pipeline's, for order and ops
  bool prefetch_epochs = true;
  double io_timeout_s = 10;  ///< retries of a failing read end after this
  io::ReadEngineOptions::Kind io_engine = io::ReadEngineOptions::Kind::kAuto;
  std::uint64_t epoch = 0;  ///< where the stream begins
  std::uint64_t position = 0;
  bool label_int32 = false;  ///< labels as int32 (jax would copy int64)
  DecodeIndexOptions decode_index{};
  std::string cache_dir{};  ///< where what was measured of the pipeline is kept; "": nowhere
  /// kOff: ops run as declared; kExact: in the cheapest order that gives the same bits.
  autotune::Sense reorder = autotune::Sense::kExact;
  /// Of the ops, by index, kept whatever is cheaper: a frozen plan's, or fixed_order() of who makes the
  /// stream or of the state that it goes on from. `reorder` must allow it. All ranks of a job have the same.
  /// None: chosen.
  std::vector<std::size_t> order{};
  bool beneath = false;  ///< no link may lead out of the dataset's folder; in this process only
  bool fuse = true;      ///< false, to measure it: one op after the other, each whole; in this process only
  /// False: who reads it is no trainer, and how fast it takes batches says nothing; in this process only.
  bool trains = true;
  std::optional<RemoteOptions> remote{};  ///< none: this machine computes all
  std::shared_ptr<Crew> crew{};           ///< for tests: computes chunks elsewhere
  PlanTesting plan_testing{};
};

}  // namespace carya::loader
