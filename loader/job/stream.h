#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "loader/data/record_error.h"
#include "loader/host/nodes.h"
#include "loader/host/pressure.h"
#include "loader/stream/stream_scheduler.h"
#include "shm/slot_ring.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// What it has cost so far to make one rank's stream.
struct StreamStats {
  SchedulerStats scheduler;  ///< what the stream's scheduler has counted
  shm::SlotRingStats ring;
  std::string io_engine;
  std::uint32_t threads = 0;
  std::uint32_t slots = 0;
  std::int32_t slots_node = kNoNode;     ///< the NUMA node that they were to be on; kNoNode: any
  std::vector<NodeShare> slots_nodes{};  ///< node_shares() of their memory
  DecodeIndexStats decode_index;
  std::vector<std::string> order;         ///< names of the ops, in the order in which they run now
  std::vector<std::size_t> indices{};     ///< the declared places of the same ops
  std::vector<std::string> plan_lines{};  ///< why the planner changed the plan, and which trouble it met
  std::vector<OrderProfile>
      plan_profile{};        ///< the cost of the last 4 orders of the ops, in this stream and earlier ones
  StreamRates rates{};       ///< rates of this stream; of an earlier one where this one has none yet
  LocalPressure pressure{};  ///< pressure on the process that makes the stream
  std::string placement{};   ///< PlacementReport as JSON; "": this machine computes everything
  std::string cache{};       ///< StreamCache::report(); "": no samples are kept
};

/// The broken records of the batches up to one, and the failure that stopped the stream there.
struct DeliveredErrors {
  std::vector<RecordError> quarantine;
  std::optional<RecordError> failure;
};

/// The source of a job's batches: LocalStream makes them in this process, DaemonStream asks a daemon. Batches
/// themselves come through the slots; everything else that a job needs comes through this interface.
/// Threads: seek() and set_on_error() by one thread at a time; everything else thread-safe.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Drop what was prefetched and go on at this place. Returns the session that slots published from now on carry.
  /// The reader gives slots of an older session back unread.
  virtual Result<std::uint64_t> seek(std::uint64_t epoch, std::uint64_t position) = 0;
  /// Apply this policy to batches that are begun from now on. Returns whether it was another one before.
  virtual Result<bool> set_on_error(transforms::OnError policy) = 0;
  /// Returns the entries of the batches up to this sequence number. Each entry is returned once.
  virtual Result<DeliveredErrors> take_errors(std::uint64_t sequence) = 0;
  virtual Result<StreamStats> stats() const = 0;
  /// Checks that the stream's maker is still there; a job calls it when a batch is long in coming. Errors: kClosed if
  /// the maker is gone, so that the job looks for another one. Any other error ends the job, and so does kClosed with
  /// errno ECANCELED (the maker was stopped).
  virtual Status check() = 0;
  /// Record the rate at which the trainer takes samples when it never waits, in samples/s, for the next stream.
  virtual void note_demand(double per_s) = 0;
  /// Stop producing; what is leased stays readable.
  virtual void close() = 0;
};

}  // namespace carya::loader
