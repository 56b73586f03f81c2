#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autotune/order/op_model.h"
#include "autotune/placement/placement.h"
#include "io/read/read_engine.h"
#include "loader/cache/cache_options.h"
#include "loader/data/decode_index.h"
#include "loader/data/store_sources.h"
#include "loader/host/host.h"
#include "loader/host/nodes.h"
#include "loader/overflow/remote_options.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// How one rank's stream is made. These are the only defaults: the Python package and a daemon have none of
/// their own.
struct JobOptions {
  std::uint64_t rank = 0;
  std::uint64_t world_size = 1;
  std::optional<std::uint64_t> epochs;  ///< none: without end
  std::uint32_t threads = 0;            ///< 0: auto_threads(); at most kThreadsMax
  /// The job's part of the cores beside other jobs of the process: twice the weight of another, twice its thread time.
  /// From kWeightMin to kWeightMax.
  double weight = 1;
  /// The NUMA node that batches are wanted on: that of the reader's accelerator. kNoNode: the one of all cores that the
  /// reader may use, where there is one.
  std::int32_t node = kNoNode;
  std::uint32_t slots = 0;  ///< 0: by the size of a batch; else at least 2
  std::uint64_t read_ahead_bytes = 64'000'000;
  transforms::OnError on_error = transforms::OnError::kRaise;
  std::optional<std::uint64_t> seed;  ///< overrides the pipeline's seed, for order and ops
  bool prefetch_epochs = true;
  double io_timeout_s = 30;  ///< a read that fails is retried for so many seconds
  io::ReadEngineOptions::Kind io_engine = io::ReadEngineOptions::Kind::kAuto;
  std::uint64_t epoch = 0;  ///< where the stream begins
  std::uint64_t position = 0;
  bool label_int32 = false;                         ///< labels are int32, since jax would copy int64
  DecodeIndexOptions decode_index{.wanted = true};  ///< without a cache folder there is none
  std::string cache_dir{};  ///< the folder that keeps what was measured of the pipeline; "": nothing is kept
  /// kOff: ops run as declared. kExact: ops run in the cheapest order that gives the same bits.
  autotune::Sense reorder = autotune::Sense::kExact;
  /// The order of the ops, by index, that is kept even if another one is cheaper. It comes from a frozen plan, from
  /// the maker of the stream, or from the state that the stream goes on from (fixed_order()). `reorder` must allow
  /// it. All ranks of a job have the same order. Empty: the planner chooses.
  std::vector<std::size_t> order{};
  // The next five hold in this process only; no daemon is told of them.
  bool beneath = false;  ///< no link may lead out of the dataset's folder
  bool fuse = true;      ///< false, to measure it: one op runs after the other, each whole
  /// False: the reader is no trainer, so that the rate at which it takes batches says nothing.
  bool trains = true;
  StorePricesGiven store_prices{};  ///< of the stores that records are read from
  /// $ per hour of this machine with its accelerators: what stores charge is compared with.
  double host_per_hour = autotune::kAssumedPrices.host_per_hour;
  std::optional<RemoteOptions> remote{};  ///< none: this machine computes everything
  CacheOptions cache{};                   ///< samples kept in memory for later epochs; not beside `remote`
};

}  // namespace carya::loader
