#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "loader/data/record_error.h"
#include "loader/host/pressure.h"
#include "loader/stream/scheduler.h"
#include "shm/slot_ring.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// What the making of one rank's stream has cost so far.
struct ProducerStats {
  ProductionStats production;
  shm::SlotRingStats ring;
  std::string io_engine;
  std::uint32_t threads = 0;
  std::uint32_t slots = 0;
  DecodeIndexStats decode_index;
  std::vector<std::string> order;         ///< names of the ops, as they run now
  std::vector<std::size_t> indices{};     ///< the same by their declared places
  std::vector<std::string> plan_lines{};  ///< why other plans were turned to, and what troubled the planner
  std::vector<OrderProfile>
      plan_profile{};        ///< what orders of the ops cost, here and in earlier streams: the last 4
  StreamRates rates{};       ///< of this stream, else of an earlier one
  LocalPressure pressure{};  ///< on who makes the stream
  std::string placement{};   ///< Overflow::report(); "": this machine computes all
};

/// What was found broken in the batches up to one, and what stopped the stream there.
struct Found {
  std::vector<Failure> quarantine;
  std::optional<Failure> failure;
};

/// Where a job's batches come from: made in this process (RankStream), or by the daemon (DaemonStream). The
/// batches themselves come through the slots; this is everything beside them.
/// Threads: seek() and set_on_error() by one thread at a time; everything else thread-safe.
class Producer {
 public:
  virtual ~Producer() = default;

  /// Throw away what was prefetched and go on at this place. Gives the session that slots published from now
  /// on carry; those of an older one are to be given back unread.
  virtual Result<std::uint64_t> seek(std::uint64_t epoch, std::uint64_t position) = 0;
  /// Batches begun from now on have this policy. Gives whether it was another one before.
  virtual Result<bool> set_on_error(transforms::OnError policy) = 0;
  /// Entries of the batches up to this sequence number, each given once.
  virtual Result<Found> take_found(std::uint64_t sequence) = 0;
  virtual Result<ProducerStats> stats() const = 0;
  /// Whether it is still there, asked when a batch is long in coming. Errors: kClosed (gone: another may be
  /// found); any other ends the job, and so does kClosed with errno ECANCELED (it was stopped).
  virtual Status check() = 0;
  /// What the trainer takes when it never waits, in samples/s: to be kept for the next stream. Costs nothing.
  virtual void note_demand(double per_s) = 0;
  /// Stop producing; what is leased stays readable.
  virtual void close() = 0;
};

}  // namespace carya::loader
