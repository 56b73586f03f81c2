#include "loader/stream/sequencer.h"

#include <algorithm>
#include <new>

#include "base/clock.h"
#include "loader/stream/slot_meta.h"
#include "loader/trace/trace.h"

namespace carya::loader {
namespace {

/// The most entries that one step keeps; the counters count all.
constexpr std::size_t kQuarantinedMax = 10'000;

}  // namespace

Sequencer::Sequencer(const SequenceOptions& options, std::shared_ptr<const Dataset> dataset,
                     std::shared_ptr<shm::SlotRing> ring, const SlotRows& rows)
    : options_(options),
      dataset_(std::move(dataset)),
      ring_(std::move(ring)),
      rows_(rows),
      unread_slots_(ring_->slots()),
      places_(ring_->slots()) {}

void Sequencer::seek(std::uint64_t epoch, std::uint64_t position) {
  CHECK(steps_.empty());
  ++session_;
  epoch_ = epoch;
  position_ = position;
  paused_ = failing_ = exhausted_ = mixed_ = false;
  steps_begun_ = 0;
  std::ranges::fill(places_, Place());
  failure_.reset();
  quarantine_.clear();  // entries of batches that no reader will get
}

void Sequencer::drop() {
  slotted_ = 0;
  for (; !steps_.empty(); steps_.pop_front()) {
    std::unique_ptr<Step>& step = steps_.front();
    step->dropped = true;
    if (step->chunks_open == 0)
      bury(std::move(step));
    else
      buried_.push_back(std::move(step));
  }
}

Sequencer::Row Sequencer::row_at(std::uint64_t epoch, std::uint64_t position) {
  const std::optional<DrawnOrder>& drawn = dataset_->drawn();
  std::uint64_t index = drawn ? drawn->index(epoch, position) : position;
  if (options_.shuffled && (!drawn || drawn->in_order())) {
    if (!permutation_ || permutation_epoch_ != epoch) {
      permutation_.emplace(options_.seed, epoch, dataset_->kept_count());
      permutation_epoch_ = epoch;
    }
    index = (*permutation_)(index);
  }
  return {.record = dataset_->kept_record(index), .occurrence = drawn ? DrawnOrder::kAgain + position : 0};
}

Step* Sequencer::open_step() const {
  if (!may_begin() || steps_.empty() || steps_.back()->rows_issued == steps_.back()->part.count)
    return nullptr;
  return steps_.back().get();
}

Step* Sequencer::begin_step() {
  if (!may_begin()) return nullptr;
  const StreamShape& shape = options_.shape;
  if (shape.at_end(position_)) {
    if (!options_.prefetch_epochs) return nullptr;
    ++epoch_;
    position_ = 0;
  }
  if (options_.epochs && epoch_ >= *options_.epochs) return nullptr;
  std::unique_ptr<Step>& step = steps_.emplace_back(take_step());
  step->number = steps_begun_++;
  step->epoch = epoch_;
  step->index = position_ / shape.global_size;
  step->position = position_;
  step->part = shape.part(position_);
  position_ += shape.step_positions(position_);
  step->position_after = position_;
  step->last = shape.at_end(position_);
  return step.get();
}

std::unique_ptr<Step> Sequencer::take_step() {
  if (free_steps_.empty()) {
    ++steps_made_;
    free_steps_.reserve(steps_made_);
    buried_.reserve(steps_made_);
    return std::make_unique<Step>();
  }
  std::unique_ptr<Step> step = std::move(free_steps_.back());
  free_steps_.pop_back();
  *step = Step{};
  return step;
}

void Sequencer::run_out_of_memory() {
  failing_ = true;
  if (steps_.empty() || steps_.back()->rows_issued == steps_.back()->part.count) {
    exhausted_ = true;
    return;
  }
  Step& step = *steps_.back();
  const std::uint64_t row = step.rows_issued;
  fail(step, {.row = row, .position = step.part.first + row}, out_of_memory());
}

void Sequencer::fail(Step& step, const RowTask& task, const Error& error) {
  CHECK(!step.dropped);
  failing_ = true;
  if (step.failure && step.failure_row <= task.row) return;
  step.failure_row = task.row;
  try {
    step.failure = make_failure(*dataset_, error, step.epoch, task.position, task.record);
  } catch (const std::bad_alloc&) {
    step.failure = memory_failure(step.epoch, task.position, task.record);
  }
}

void Sequencer::note_broken(Step& step, RecordError entry) {
  if (step.quarantined.size() == kQuarantinedMax) return;
  // Chunks end in any order, so the place follows from the position. Entries of one position stay in theirs.
  const auto place = std::ranges::upper_bound(step.quarantined, entry.position, {}, &RecordError::position);
  step.quarantined.insert(place, std::move(entry));
}

void Sequencer::leave(Step& step) {
  CHECK(step.chunks_open > 0);
  --step.chunks_open;
  if (!step.dropped || step.chunks_open > 0) return;
  const auto found = std::ranges::find(buried_, &step, &std::unique_ptr<Step>::get);
  CHECK(found != buried_.end());
  std::unique_ptr<Step> owned = std::move(*found);
  buried_.erase(found);
  bury(std::move(owned));
}

void Sequencer::bury(std::unique_ptr<Step> step) {
  if (step->slot) ring_->abandon(*step->slot), ++unread_slots_;
  free_steps_.push_back(std::move(step));
}

Step* Sequencer::assign_slot() {
  if (slotted_ == steps_.size()) return nullptr;
  const std::optional<std::uint32_t> slot = take_slot();
  if (!slot) return nullptr;
  Step& step = *steps_[slotted_++];
  CHECK(!step.slot);
  step.slot = slot;
  step.unread_slot = unread_slots_ > 0;
  if (step.unread_slot) --unread_slots_;
  step.slotted_ns = trace_on() ? monotonic_ns() : 0;
  for (std::uint64_t row = step.part.count; row < step.part.rows; ++row) rows_.clear(*step.slot, row, -1);
  return &step;
}

std::optional<std::uint32_t> Sequencer::take_slot() {
  std::optional<std::uint32_t> slot = ring_->acquire();
  if (slot) return slot;
  // Ask for the bell, then look once more: a release before that rang no bell.
  ring_->set_waiting(true);
  slot = ring_->acquire();
  if (slot) ring_->set_waiting(false);
  return slot;
}

bool Sequencer::publish_complete() {
  while (!steps_.empty() && steps_.front()->slot && steps_.front()->complete()) {
    publish(*steps_.front());
    free_steps_.push_back(std::move(steps_.front()));
    steps_.pop_front();
    CHECK(slotted_ > 0);
    --slotted_;
    if (failure_) return true;
  }
  if (!exhausted_ || failure_ || stopped_ || !steps_.empty()) return false;
  Step end{.epoch = epoch_, .index = position_ / options_.shape.global_size, .slot = take_slot()};
  if (!end.slot) return false;
  end.failure = memory_failure(epoch_, position_, 0);
  publish(end);
  return true;
}

void Sequencer::publish(Step& step) {
  // The entries are stored before the slot is published: its meta words say whether there are any.
  try {
    if (!step.quarantined.empty()) quarantine_[sequence_ + 1].swap(step.quarantined);
  } catch (const std::bad_alloc&) {
    fail(step, {.position = step.part.first}, out_of_memory());
  }
  deliveries_.note(step);
  if (step.part.repeated) rows_.invalidate(*step.slot, 0);
  const shm::Meta meta = meta_of(step, session_, quarantine_.contains(sequence_ + 1));
  if (step.failure) failure_ = std::move(step.failure);
  ++sequence_;
  places_[sequence_ % places_.size()] = {sequence_, step.epoch, step.position};
  ++stats_.batches;
  stats_.samples += step.part.count;
  stats_.epoch = step.epoch;
  stats_.position = step.position_after;
  if (trace_on() && step.slotted_ns != 0)
    trace_note({.kind = TraceKind::kFill,
                .lane = *step.slot,
                .stream = options_.traced_as,
                .begin_ns = step.slotted_ns,
                .end_ns = monotonic_ns(),
                .of = sequence_,
                .step = trace_step(session_, step.number),
                .rows = step.part.count,
                .value = step.epoch});
  ring_->publish(*step.slot, sequence_, meta);
}

Sequencer::Place Sequencer::next_place() const {
  if (!steps_.empty()) return {sequence_ + 1, steps_.front()->epoch, steps_.front()->position};
  if (options_.prefetch_epochs && options_.shape.at_end(position_)) return {sequence_ + 1, epoch_ + 1, 0};
  return {sequence_ + 1, epoch_, position_};
}

std::optional<std::uint64_t> Sequencer::sequence_at(std::uint64_t epoch, std::uint64_t position) const {
  if (failing_ || failure_ || exhausted_ || stopped_ || mixed_) return std::nullopt;
  if (options_.prefetch_epochs && options_.shape.at_end(position)) {  // the same place by another name
    ++epoch;
    position = 0;
  }
  if (const Place next = next_place(); next.epoch == epoch && next.position == position) return next.sequence;
  for (const Place& place : places_)
    if (place.sequence != 0 && place.epoch == epoch && place.position == position) return place.sequence;
  return std::nullopt;
}

std::vector<RecordError> Sequencer::entries(std::uint64_t behind, std::uint64_t up_to) const {
  std::vector<RecordError> found;
  const auto end = quarantine_.upper_bound(std::max(behind, up_to));
  for (auto entry = quarantine_.upper_bound(behind); entry != end; ++entry)
    found.insert(found.end(), entry->second.begin(), entry->second.end());
  return found;
}

void Sequencer::forget_before(std::uint64_t sequence) {
  quarantine_.erase(quarantine_.begin(), quarantine_.lower_bound(sequence));
}

double Sequencer::samples_left() const {
  if (!options_.epochs) return 0;
  const auto records = static_cast<double>(options_.shape.records);
  const double all = static_cast<double>(*options_.epochs) * records;
  const double done = static_cast<double>(stats_.epoch) * records + static_cast<double>(stats_.position);
  return std::max(0.0, all - done) / static_cast<double>(options_.shape.world_size);
}

}  // namespace carya::loader
