// Production's steps: begun in stream order, given slots in order, published in order. production.cc has the
// chunks that they are cut into.
#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "loader/stream/scheduler.h"

namespace carya::loader {

std::uint64_t Production::record_at(std::uint64_t epoch, std::uint64_t position) {
  if (!pipeline_->shuffled()) return position;
  if (!permutation_ || permutation_epoch_ != epoch) {
    permutation_.emplace(options_.seed, epoch, options_.shape.records);
    permutation_epoch_ = epoch;
  }
  return (*permutation_)(position);
}

/// The next step of the stream, if there is one now.
bool Production::begin_step() {
  const StreamShape& shape = options_.shape;
  if (shape.at_end(position_)) {
    if (!options_.prefetch_epochs) return false;
    ++epoch_;
    position_ = 0;
  }
  if (options_.epochs && epoch_ >= *options_.epochs) return false;
  std::unique_ptr<Step>& step = steps_.emplace_back(take_step());
  step->epoch = epoch_;
  step->index = position_ / shape.global_size;
  step->position = position_;
  step->part = shape.part(position_);
  position_ += shape.step_positions(position_);
  step->position_after = position_;
  step->last = shape.at_end(position_);
  return true;
}

std::unique_ptr<Step> Production::take_step() {
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

/// No memory to go on: the stream fails where nothing more was begun. What was, ends as usual.
void Production::stop_exhausted() {
  failing_ = true;
  if (steps_.empty() || steps_.back()->rows_issued == steps_.back()->part.count) {
    exhausted_ = true;
  } else {
    Step& step = *steps_.back();
    const std::uint64_t row = step.rows_issued;
    fail_step(step, {.row = row, .position = step.part.first + row}, out_of_memory());
  }
  publish_complete();
}

void Production::fail_step(Step& step, const RowTask& task, const Error& error) {
  failing_ = true;
  if (step.failure && step.failure_row <= task.row) return;
  step.failure_row = task.row;
  try {
    step.failure = make_failure(*dataset_, error, step.epoch, task.position, task.record);
  } catch (const std::bad_alloc&) {
    step.failure = memory_failure(step.epoch, task.position, task.record);
  }
}

/// A chunk of the step has ended.
void Production::leave_step(Step& step) {
  --step.chunks_open;
  if (!step.dropped) return publish_complete();
  if (step.chunks_open > 0) return;
  const auto found =
      std::find_if(buried_.begin(), buried_.end(), [&](const auto& other) { return other.get() == &step; });
  CHECK(found != buried_.end());
  std::unique_ptr<Step> owned = std::move(*found);
  buried_.erase(found);
  bury(std::move(owned));
}

void Production::assign_slots() {
  while (slotted_ < steps_.size()) {
    const std::optional<std::uint32_t> slot = take_slot();
    if (!slot) return;
    Step& step = *steps_[slotted_++];
    step.slot = slot;
    totals_.taken_samples += static_cast<double>(step.part.count);
    look_at_cores();
    for (std::uint64_t row = step.part.count; row < step.part.rows; ++row) rows_->clear(*step.slot, row, -1);
  }
}

std::optional<std::uint32_t> Production::take_slot() {
  std::optional<std::uint32_t> slot = ring_->acquire();
  if (slot) return slot;
  ring_->set_waiting(true);  // ask for the bell, then look once more: a release in between rings no bell
  slot = ring_->acquire();
  if (slot) ring_->set_waiting(false);
  return slot;
}

void Production::publish_complete() {
  while (!steps_.empty() && steps_.front()->slot && steps_.front()->complete()) {
    publish(*steps_.front());
    free_steps_.push_back(std::move(steps_.front()));
    steps_.pop_front();
    --slotted_;
    if (failure) return drop_session();
  }
  if (!exhausted_ || failure || stopped_ || !steps_.empty()) return;
  Step end{.epoch = epoch_, .index = position_ / options_.shape.global_size, .slot = take_slot()};
  if (!end.slot) return;
  end.failure = memory_failure(epoch_, position_, 0);
  publish(end);
  drop_session();
}

void Production::publish(Step& step) {
  try {
    if (!step.quarantined.empty()) published_quarantine_[sequence_ + 1].swap(step.quarantined);
  } catch (const std::bad_alloc&) {
    fail_step(step, {.position = step.part.first}, out_of_memory());
  }
  note_went_out(step);
  if (step.part.repeated) rows_->invalidate(*step.slot, 0);
  const shm::Meta meta = meta_of(step, session_, published_quarantine_.contains(sequence_ + 1));
  if (step.failure) failure = std::move(step.failure);
  ++sequence_;
  places_[sequence_ % places_.size()] = {sequence_, step.epoch, step.position};
  ++stats_.batches;
  stats_.samples += step.part.count;
  stats_.epoch = step.epoch;
  stats_.position = step.position_after;
  ring_->publish(*step.slot, sequence_, meta);
}

Production::Place Production::next_place() const {
  if (!steps_.empty()) return {sequence_ + 1, steps_.front()->epoch, steps_.front()->position};
  if (options_.prefetch_epochs && options_.shape.at_end(position_)) return {sequence_ + 1, epoch_ + 1, 0};
  return {sequence_ + 1, epoch_, position_};
}

std::optional<std::uint64_t> Production::sequence_at(std::uint64_t epoch, std::uint64_t position) const {
  if (failing_ || failure || exhausted_ || stopped_ || mixed_) return std::nullopt;
  if (options_.prefetch_epochs && options_.shape.at_end(position)) {  // the same place by another name
    ++epoch;
    position = 0;
  }
  if (const Place next = next_place(); next.epoch == epoch && next.position == position) return next.sequence;
  for (const Place& place : places_)
    if (place.sequence != 0 && place.epoch == epoch && place.position == position) return place.sequence;
  return std::nullopt;
}

void Production::drop_session() {
  if (prepared_ != nullptr) recycle(*std::exchange(prepared_, nullptr));
  for (Chunk* chunk : ready_) {
    --chunk->step->chunks_open;
    recycle(*chunk);
  }
  ready_.clear();
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

void Production::bury(std::unique_ptr<Step> step) {
  if (step->slot) ring_->abandon(*step->slot);
  free_steps_.push_back(std::move(step));
}

}  // namespace carya::loader
