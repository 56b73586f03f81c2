#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/philox.h"
#include "loader/overflow/chunk_window.h"
#include "loader/overflow/worker_selection.h"
#include "loader/overflow/worker_speed.h"
#include "remote/pool/pool.h"

namespace carya::loader {

/// What one executor knows of a worker.
struct WorkerEntry {
  std::uint64_t plan = 0;        ///< the newest plan that the worker has; 0: the worker is not there
  bool room = true;              ///< the worker takes another chunk, as far as is known
  std::uint64_t chunks_max = 0;  ///< chunks that the worker lets this host have at a time
  WorkerSeen seen{};             ///< `used`: the worker gets chunks
  bool reads = false;            ///< the worker reads records of its plan itself
  bool proven = false;           ///< a chunk with that plan on this connection was compared and is right
  bool expelled = false;
  bool drains = false;   ///< the worker goes away: what it has comes home, and no more goes
  bool retired = false;  ///< its fleet has given it up; likewise
  std::size_t out = 0;   ///< chunks that the worker has, or that are being compared
  double cores = 0;      ///< 0: the worker never came
  ChunkWindow window{};
  WorkerSpeed speed{};
  double free = 1;  ///< the share of the worker that other hosts leave

  bool is_there() const { return plan != 0 && !expelled && !drains && !retired; }
};

/// The workers of one executor: which of them are used, and which one gets the next chunk. A used worker that is
/// ready gets the next chunk if it would return it first. Threads: owner only; the executor has it under its mutex.
class WorkerTable {
 public:
  /// `seed` differs from executor to executor, so that hosts do not prefer the same workers.
  explicit WorkerTable(std::uint64_t seed);

  /// A worker may have come, by at(), before it is added.
  void add(std::uint64_t member, const std::string& address);
  void remove(std::uint64_t member) { entries_.erase(member); }
  /// Null: the worker was removed.
  WorkerEntry* find(std::uint64_t member);
  /// The entry of a worker, which is made where there is none.
  WorkerEntry& at(std::uint64_t member) { return entries_[member]; }
  std::size_t size() const { return entries_.size(); }

  /// Workers need this plan from now on; what they took for another one says nothing any more.
  void set_plan(std::uint64_t plan);
  /// Use at most `count` workers from now on.
  void set_count(std::uint32_t count);
  /// A worker has said who it is, or has a plan: choose anew which are used.
  void note_came() { choose(false); }
  /// Take over what the pool measured, and choose anew; one look in a few may leave a worker that others use too.
  void look(std::span<const remote::WorkerStats> measured);

  struct Next {
    std::uint64_t member;
    WorkerEntry* entry;
  };
  /// The worker that gets the next chunk; none: all are busy. One whose first chunk was not compared gets no second.
  std::optional<Next> next();
  bool any_reads() const;

  /// Record that a worker's threads took `thread_ns` for `rows` rows. Returns what a worker of speed 1 needs for
  /// them, in ns.
  double note_speed(WorkerEntry& entry, std::uint64_t thread_ns, std::uint64_t rows);
  /// The mean over workers that ever came; 0: none did.
  double mean_cores() const;
  /// Of the workers that are there and known, beside the fastest if all of it were free, the fastest first.
  std::vector<double> speeds() const;
  struct Counts {
    std::uint32_t used = 0, ready = 0;
  };
  /// Workers in use, and those of them that have the plan.
  Counts counts() const;

 private:
  bool is_ready(const WorkerEntry& entry) const {
    return plan_ != 0 && entry.plan == plan_ && !entry.expelled;
  }
  void choose(bool moves);

  const std::uint64_t seed_;
  SampleRng random_;
  std::map<std::uint64_t, WorkerEntry> entries_;
  std::uint64_t plan_ = 0;  // 0: there is none
  std::uint32_t count_ = UINT32_MAX;
};

}  // namespace carya::loader
