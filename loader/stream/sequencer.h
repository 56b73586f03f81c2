#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/permutation.h"
#include "loader/data/dataset.h"
#include "loader/stream/chunk.h"
#include "loader/stream/delivery_log.h"
#include "loader/stream/slot_rows.h"
#include "loader/stream/stream_shape.h"
#include "shm/slot_ring.h"

namespace carya::loader {

/// The settings that determine the order of a stream's batches.
struct SequenceOptions {
  StreamShape shape;
  std::uint64_t seed = 0;
  bool shuffled = false;
  std::optional<std::uint64_t> epochs{};  ///< the number of epochs, from 0; none: without end
  bool prefetch_epochs = true;            ///< whether to begin the next epoch while this one drains
  std::uint64_t traced_as = 0;            ///< trace_stream() of the stream
};

/// Figures of the published batches.
struct SequenceStats {
  std::uint64_t batches = 0, samples = 0;
  std::uint64_t epoch = 0, position = 0;  ///< the place behind the last published batch
};

/// The steps of a stream. They are begun, given slots and published in stream order.
///
/// A session lasts from one seek() to the next. In a session a step is first open (its rows are being cut into chunks),
/// then under way, then published. A step that fails is published as a failure, which ends the session: no later step
/// is begun or published. Chunks of a dropped session still end; its steps keep their slots until then. Only beginning
/// a step needs memory.
///
/// Threads: owner only.
class Sequencer {
 public:
  Sequencer(const SequenceOptions& options, std::shared_ptr<const Dataset> dataset,
            std::shared_ptr<shm::SlotRing> ring, const SlotRows& rows);

  /// Begin a session at this place. The last session must have been dropped.
  void seek(std::uint64_t epoch, std::uint64_t position);
  /// End the session and drop its steps.
  void drop();
  /// Begin no more steps.
  void stop() { stopped_ = true; }
  void pause() { paused_ = true; }
  void resume() { paused_ = false; }
  /// The policy for broken rows changed during this session.
  void note_mixed() { mixed_ = true; }

  /// The row at a position of an epoch: its record, and which random numbers that has.
  struct Row {
    std::uint64_t record;
    std::uint64_t occurrence;
  };
  Row row_at(std::uint64_t epoch, std::uint64_t position);
  /// The step whose rows are issued next; null if there is none, or if nothing may begin now.
  Step* open_step() const;
  /// Begin the next step. There is no open step. Returns null if the stream has no step now. May throw std::bad_alloc;
  /// then call run_out_of_memory().
  Step* begin_step();
  /// Give a free slot to the next step without one. Returns null if there is no free slot or no such step.
  Step* assign_slot();
  /// Publish the complete steps in front. Returns true if the last of them was a failure; the caller then drops the
  /// session.
  bool publish_complete();
  /// Stop the stream at this row of the step, unless a lower row of it has failed already.
  void fail(Step& step, const RowTask& task, const Error& error);
  /// There is no memory to go on: the stream fails at the first row that was not begun.
  void run_out_of_memory();
  /// Add the entry of a broken row to the step. Entries are ordered by position; a step keeps at most 10,000.
  static void note_broken(Step& step, RecordError entry);
  /// A chunk of the step has ended. If the step was dropped, this call may delete it.
  void leave(Step& step);

  std::uint64_t session() const { return session_; }
  bool stopped() const { return stopped_; }
  /// The steps of this session that are not published, in order. The first ones have slots.
  const std::deque<std::unique_ptr<Step>>& steps() const { return steps_; }
  bool has_slotted() const { return slotted_ > 0; }
  /// The failure that stopped this session, once it was published.
  const std::optional<RecordError>& failure() const { return failure_; }
  /// The sequence under which this session published the batch that begins at this place, or will publish it next.
  /// Returns nothing if the batch is too old, not yet next, or if the stream has failed: then only seek() leads there.
  std::optional<std::uint64_t> sequence_at(std::uint64_t epoch, std::uint64_t position) const;
  /// The entries of published batches, by sequence.
  const std::map<std::uint64_t, std::vector<RecordError>>& quarantine() const { return quarantine_; }
  /// The entries of the batches behind one sequence and up to another one.
  std::vector<RecordError> entries(std::uint64_t behind, std::uint64_t up_to) const;
  /// Forget the entries of batches before this sequence, which every reader has, or will never get.
  void forget_before(std::uint64_t sequence);
  /// The published batches that had rows of `worker`, in words; "" if there are none.
  std::string went_out(std::uint64_t worker) const { return deliveries_.of(worker); }
  const SequenceStats& stats() const { return stats_; }
  /// The samples of this rank behind the last published batch; 0: without end.
  double samples_left() const;
  const SequenceOptions& options() const { return options_; }

 private:
  struct Place {
    std::uint64_t sequence = 0, epoch = 0, position = 0;
  };
  bool may_begin() const { return !stopped_ && !paused_ && !failing_; }
  std::unique_ptr<Step> take_step();
  void bury(std::unique_ptr<Step> step);
  std::optional<std::uint32_t> take_slot();
  void publish(Step& step);
  Place next_place() const;

  const SequenceOptions options_;
  const std::shared_ptr<const Dataset> dataset_;
  const std::shared_ptr<shm::SlotRing> ring_;
  const SlotRows& rows_;

  // Where the stream is: the next step begins at (epoch_, position_).
  std::uint64_t session_ = 1;
  std::uint64_t epoch_ = 0;
  std::uint64_t position_ = 0;
  std::optional<Permutation> permutation_;  // for permutation_epoch_, if shuffled
  std::uint64_t permutation_epoch_ = 0;
  bool stopped_ = false;
  bool paused_ = false;
  bool failing_ = false;    // a step has failed: begin no step after it
  bool exhausted_ = false;  // there was no memory for the next step
  bool mixed_ = false;      // the policy changed since the last seek()

  // All steps of this session in stream order; the first slotted_ of them have slots. Each list has room for all steps
  // that were ever made, so that moving a step never fails.
  std::deque<std::unique_ptr<Step>> steps_;
  std::size_t slotted_ = 0;
  std::vector<std::unique_ptr<Step>> buried_;  // dropped steps whose chunks have not all ended
  std::vector<std::unique_ptr<Step>> free_steps_;
  std::size_t steps_made_ = 0;
  std::uint64_t steps_begun_ = 0;  // in this session

  // What was published.
  std::uint64_t unread_slots_;  // free ones that no reader gave back
  std::uint64_t sequence_ = 0;  // that of the last published slot
  std::vector<Place> places_;   // the beginnings of the last batches, one for each slot
  std::optional<RecordError> failure_;
  std::map<std::uint64_t, std::vector<RecordError>> quarantine_;
  DeliveryLog deliveries_;
  SequenceStats stats_;
};

}  // namespace carya::loader
