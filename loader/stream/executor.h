#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "loader/data/dataset.h"
#include "loader/stream/chunk.h"
#include "loader/wire/chunk_message.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

class Production;
class WorkerPlan;
struct Outbox;

/// Where a plan is cut: the ops before it run elsewhere, those behind it here.
struct PlanCut {
  std::uint64_t plan = 0;                        ///< RemotePlan::id
  std::vector<transforms::TensorSpec> outputs;   ///< of a row that comes home
  std::shared_ptr<PlanInUse> rest;               ///< null: no op is behind it
  std::shared_ptr<const WorkerPlan> compiled{};  ///< what workers run, to check them by
};

/// A chunk on its way to another machine and back. Whoever holds it may write to `places`, and nobody else
/// may; it is given back by RemoteDone when nothing writes there any more.
struct RemoteWork {
  Chunk* chunk = nullptr;
  std::shared_ptr<const PlanCut> cut;
  std::uint64_t worker = 0;  ///< who computes it, by the crew's number; 0: somebody who is not distrusted
  /// What is sent: the head, and parts, which stay what they are for whoever has them.
  struct Sent {
    RemoteChunk head{};
    std::vector<std::byte> table;
    std::vector<std::int64_t> labels;
    std::vector<std::vector<std::byte>> entries;  ///< of the decode index
    std::shared_ptr<const std::byte[]> buffer;
    std::shared_ptr<const Dataset> dataset;  ///< whose arrays are in memory
    std::vector<std::span<const std::byte>> parts;
    // The same for a worker that reads records itself; no table: not to be had.
    std::vector<std::vector<std::byte>> addresses;
    std::vector<std::byte> address_table;
    std::vector<std::span<const std::byte>> address_parts;
  };
  std::shared_ptr<const Sent> sent;
  bool by_address = false;  ///< which of both is sent
  RemoteChunk head() const;
  std::span<const std::byte> table() const { return by_address ? sent->address_table : sent->table; }
  const std::vector<std::span<const std::byte>>& parts() const {
    return by_address ? sent->address_parts : sent->parts;
  }
  std::size_t sent_bytes() const;
  /// Where what comes home goes, in order: in the batch's slot where the cut is last.
  std::vector<std::span<std::byte>> places;
  ReadBuffer aside;  ///< memory of the places that are in no slot
  std::size_t result_bytes() const;
};

/// What came of it: true, all rows are in their places; false, this machine is to compute it.
using RemoteDone = std::function<void(std::unique_ptr<RemoteWork>, bool computed)>;

/// Computes chunks of one production on other machines.
class Crew {
 public:
  virtual ~Crew() = default;
  /// Called once, before all else. `done` gives work back; `wake` asks for a feed(), when workers have room
  /// again. Both from any thread, but not inside of a call of these functions.
  virtual void begin(RemoteDone done, std::function<void()> wake) = 0;
  /// Chunks may have become ready, or time has passed (some 20 ms while work is out): take
  /// (Production::take_remote) what workers can begin now, and give back (Production::end_remote) what they
  /// do not finish in time. Under the engine's lock; never waits, never throws.
  virtual void feed(Production& production, Outbox& out) = 0;
  /// Take nothing more. What is out is given back soon, computed or not. Under the engine's lock; never
  /// waits.
  virtual void stop() = 0;
  /// After stop(), when all is given back: nothing is called any more once this has returned. Without a lock.
  virtual void end() = 0;
};

}  // namespace carya::loader
