// Production's chunks that other machines compute: given to a crew, taken back with their rows or without.
#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "loader/stream/executor.h"
#include "loader/stream/scheduler.h"
#include "loader/wire/record_address.h"
#include "loader/wire/worker_plan.h"

namespace carya::loader {
namespace {

using Kind = transforms::SourceField::Kind;

std::size_t bytes_of(std::span<const std::span<const std::byte>> parts) {
  return std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                         [](std::size_t sum, const auto& part) { return sum + part.size(); });
}

// Rows as they were cut from their step, one behind the other, none from a substitute, sent for the first
// time: a chunk knows one worker that it came from.
bool is_fresh(const Chunk& chunk) {
  for (std::size_t t = 0; t < chunk.tasks.size(); ++t)
    if (chunk.tasks[t].row != chunk.tasks.front().row + t || chunk.tasks[t].draws > 0) return false;
  return !chunk.received.memory && !chunk.came_back && chunk.delivered.worker == 0;
}

}  // namespace

std::size_t RemoteWork::sent_bytes() const {
  return table().size() + bytes_of(parts());
}

RemoteChunk RemoteWork::head() const {
  RemoteChunk head = sent->head;
  head.addresses = by_address;
  return head;
}

std::size_t RemoteWork::result_bytes() const {
  return std::accumulate(places.begin(), places.end(), std::size_t{0},
                         [](std::size_t sum, const auto& place) { return sum + place.size(); });
}

std::unique_ptr<RemoteWork> Production::take_remote(std::shared_ptr<const PlanCut> cut,
                                                    const RemoteWanted& wanted) {
  const bool with_entries = cut->compiled && cut->compiled->wants_entries();
  std::vector<Chunk*> slotted;
  std::unique_ptr<RemoteWork> work;
  try {
    std::ranges::copy_if(ready_, std::back_inserter(slotted),
                         [](const Chunk* chunk) { return chunk->step->slot.has_value(); });
    if (slotted.size() <= wanted.lead) return nullptr;
    std::ranges::sort(slotted, {}, &Chunk::order);
    const std::size_t published = wanted.batches_before > 0 ? ring_->stats().ready : 0;
    const auto is_late_enough = [&](const Chunk& chunk) {
      const auto step = std::ranges::find(steps_, chunk.step, &std::unique_ptr<Step>::get);
      return published + static_cast<std::size_t>(step - steps_.begin()) >= wanted.batches_before;
    };
    Chunk* found = nullptr;
    for (std::size_t i = wanted.lead; i < slotted.size(); ++i) {
      const bool late_enough = is_late_enough(*slotted[i]);
      if ((late_enough || wanted.or_last) && may_go(*slotted[i], with_entries)) found = slotted[i];
      if (late_enough && found) break;
    }
    if (!found) return nullptr;
    work = std::make_unique<RemoteWork>();
    work->chunk = found;
    work->cut = std::move(cut);
    describe(*work, with_entries, wanted.addresses);
    place_results(*work);
    Step& step = *work->chunk->step;
    step.delivered.reserve(step.delivered.size() + step.chunks_open);
  } catch (const std::bad_alloc&) {
    return nullptr;  // it stays ready
  }
  std::erase(ready_, work->chunk);
  ++remote_;
  return work;
}

const Step* Production::waited_for() const {
  if (running_ > 0 || remote_ == 0 || steps_.empty() || !steps_.front()->slot) return nullptr;
  if (std::ranges::any_of(ready_, [](const Chunk* chunk) { return chunk->step->slot.has_value(); }))
    return nullptr;
  return ring_->stats().ready == 0 ? steps_.front().get() : nullptr;
}

// Whether another machine may compute it: what is wrong with records, files or index entries is found here.
bool Production::may_go(const Chunk& chunk, bool with_entries) const {
  return is_fresh(chunk) && dataset_->check_arrays() &&
         std::ranges::all_of(chunk.tasks, [&](const RowTask& task) {
           const std::uint64_t source = dataset_->source_index(task.record);
           return dataset_->check_record(task.record) &&
                  !(with_entries && options_.index->verifies(source, chunk.step->epoch));
         });
}

// What is sent of the chunk, in both ways.
void Production::describe(RemoteWork& work, bool with_entries, bool with_addresses) const {
  const Chunk& chunk = *work.chunk;
  const std::size_t count = chunk.tasks.size();
  const std::size_t fields = dataset_->fields().size();
  auto sent = std::make_shared<RemoteWork::Sent>();
  sent->head = {.plan = work.cut->plan, .epoch = chunk.step->epoch, .rows = count};
  sent->labels = chunk.labels;
  sent->buffer = chunk.buffer.memory;
  sent->dataset = dataset_;
  RemoteInputs inputs{.rows = {}, .inputs = chunk.inputs};
  for (const RowTask& task : chunk.tasks) inputs.rows.push_back({task.record, task.occurrence});
  // Labels lie in the chunk, which has others soon.
  const auto* first = reinterpret_cast<const std::byte*>(chunk.labels.data());
  const auto* own = reinterpret_cast<const std::byte*>(sent->labels.data());
  for (std::span<const std::byte>& input : inputs.inputs)
    if (input.data() >= first && input.data() < first + 8 * chunk.labels.size())
      input = {own + (input.data() - first), input.size()};
  const auto source = [&](std::size_t i) { return dataset_->source_index(chunk.tasks[i / fields].record); };
  if (with_entries) {
    sent->entries.resize(chunk.inputs.size());
    for (std::size_t i = 0; i < chunk.inputs.size(); ++i)
      inputs.entries.push_back(options_.index->entry(i % fields, source(i), sent->entries[i]));
  }
  sent->table = remote_table(pipeline_->fields(), inputs);
  sent->parts = remote_parts(pipeline_->fields(), inputs);
  for (std::size_t i = 0; with_addresses && i < chunk.inputs.size(); ++i) {
    if (dataset_->fields()[i % fields].kind != Kind::kEncoded) continue;
    const auto address = record_address(*dataset_->fields()[i % fields].manifest, source(i));
    if (!address) with_addresses = false;
    if (address) inputs.inputs[i] = sent->addresses.emplace_back(remote_address(*address));
  }
  if (with_addresses) {
    sent->address_table = remote_table(pipeline_->fields(), inputs);
    sent->address_parts = remote_parts(pipeline_->fields(), inputs);
  }
  work.sent = std::move(sent);
}

// Tensors of which a slot holds other bytes wait aside, as all do that ops are still to see.
void Production::place_results(RemoteWork& work) {
  const Chunk& chunk = *work.chunk;
  const std::size_t count = chunk.tasks.size();
  const auto& outputs = work.cut->outputs;
  std::vector<bool> direct;
  std::size_t aside = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    direct.push_back(!work.cut->rest &&
                     rows_->row_bytes(i) == static_cast<std::uint64_t>(outputs[i].bytes()));
    if (!direct[i]) aside += count * static_cast<std::size_t>(outputs[i].bytes());
  }
  if (aside > 0) work.aside = pool_->take(aside);
  if (aside > 0 && !work.aside.memory) throw std::bad_alloc();
  std::span<std::byte> left(work.aside.memory.get(), aside);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (direct[i]) {
      work.places.push_back(rows_->rows(*chunk.step->slot, i, chunk.tasks.front().row, count));
      continue;
    }
    work.places.push_back(left.first(count * static_cast<std::size_t>(outputs[i].bytes())));
    left = left.subspan(work.places.back().size());
  }
}

void Production::end_remote(RemoteWork& work, bool computed, Outbox& out) {
  --remote_;
  Chunk& chunk = *work.chunk;
  if (chunk.step->dropped || !computed || std::ranges::find(distrusted_, work.worker) != distrusted_.end()) {
    pool_->give(std::move(work.aside));
    if (chunk.step->dropped) return end_chunk(chunk);
    chunk.came_back = true;
    return make_ready(chunk, out);
  }
  chunk.delivered = {work.worker, chunk.order, chunk.tasks.front().row, chunk.tasks.size()};
  ++stats_.remote_chunks;
  stats_.remote_bytes += work.sent_bytes() + work.result_bytes();
  if (work.cut->rest) {
    if (place_received(work)) return make_ready(chunk, out);
    fail_step(*chunk.step, chunk.tasks.front(), out_of_memory());
    return end_chunk(chunk);
  }
  for (std::size_t t = 0; t < chunk.tasks.size(); ++t) {
    SlotRows::Row row;
    const RowTask& task = chunk.tasks[t];
    rows_->begin(row, *chunk.step->slot, task.row);
    if (row.narrow_label != nullptr) std::memcpy(&row.wide_label, work.aside.memory.get() + 8 * t, 8);
    rows_->finish(row, *chunk.step->slot, task.row, task.record);
  }
  pool_->give(std::move(work.aside));
  end_chunk(chunk);
}

void Production::distrust(std::uint64_t worker, Outbox& out) {
  std::vector<Chunk*> again;
  try {
    distrusted_.push_back(worker);
    list_distrusted(worker, again);
  } catch (const std::bad_alloc&) {  // nothing from here on may be published
    if (!steps_.empty())
      fail_step(*steps_.front(), {.position = steps_.front()->part.first}, out_of_memory());
  }
  for (Chunk* chunk : again) begin_again(*chunk, out);
}

void Production::note_went_out(const Step& step) {
  std::uint64_t noted = 0;
  for (const Delivered& delivered : step.delivered) {
    if (delivered.worker == 0 || delivered.worker == noted) continue;
    noted = delivered.worker;
    const auto same = std::ranges::find_if(
        went_out_, [&](const WentOut& one) { return one.worker == noted && one.epoch == step.epoch; });
    if (same == went_out_.end()) {
      went_out_[went_out_next_++ % kWentOutMax] = {noted, step.epoch, step.index, step.index, 1};
    } else if (same->last != step.index) {
      same->first = std::min(same->first, step.index);
      same->last = std::max(same->last, step.index);
      ++same->batches;
    }
  }
}

std::string Production::went_out(std::uint64_t worker) const {
  std::string text;
  for (const WentOut& one : went_out_)
    if (one.worker == worker)
      text += (text.empty() ? "epoch " : ", epoch ") + std::to_string(one.epoch) + " steps " +
              std::to_string(one.first) + " to " + std::to_string(one.last) + " (" +
              std::to_string(one.batches) + " of them)";
  return text;
}

/// Chunks that have ended, as new ones; those that wait for the ops behind the cut. Those that are computed
/// now are marked.
void Production::list_distrusted(std::uint64_t worker, std::vector<Chunk*>& again) {
  const auto is_theirs = [&](const Delivered& delivered) { return delivered.worker == worker; };
  std::size_t count = ready_.size();
  for (const auto& step : steps_) count += step->delivered.size();
  again.reserve(count);
  for (const auto& chunk : chunks_) chunk->distrusted |= is_theirs(chunk->delivered);
  std::ranges::copy_if(ready_, std::back_inserter(again), &Chunk::distrusted);
  std::erase_if(ready_, [](const Chunk* chunk) { return chunk->distrusted; });
  for (const auto& step : steps_) {
    for (const Delivered& delivered : step->delivered) {
      if (!is_theirs(delivered)) continue;
      Chunk& chunk = take_chunk(*step, delivered.count);
      chunk.order = delivered.order;
      chunk.delivered = delivered;
      ++step->chunks_open;
      again.push_back(&chunk);
    }
    std::erase_if(step->delivered, is_theirs);
  }
}

/// All of its rows, from their records, by this machine. What was found of them is found anew.
void Production::begin_again(Chunk& chunk, Outbox& out) {
  const std::uint64_t first = chunk.step->part.first + chunk.delivered.row;
  std::erase_if(chunk.step->quarantined, [&](const Failure& entry) {
    return entry.position >= first && entry.position < first + chunk.delivered.count;
  });
  set_tasks(chunk, chunk.delivered.row, chunk.delivered.count);
  chunk.plan.reset();
  pool_->give(std::exchange(chunk.received, {}));
  chunk.broken.clear();
  chunk.read_error.reset();
  chunk.delivered = {};
  chunk.distrusted = false;
  chunk.came_back = true;
  issue(chunk, out);
}

// The rows that came home are the inputs of the ops behind the cut. False: no memory.
bool Production::place_received(RemoteWork& work) {
  Chunk& chunk = *work.chunk;
  try {
    std::vector<std::span<const std::byte>> inputs;
    for (std::size_t t = 0; t < chunk.tasks.size(); ++t)
      for (std::size_t i = 0; i < work.places.size(); ++i) {
        const auto bytes = static_cast<std::size_t>(work.cut->outputs[i].bytes());
        inputs.push_back(std::span<const std::byte>(work.places[i]).subspan(t * bytes, bytes));
      }
    chunk.inputs = std::move(inputs);
  } catch (const std::bad_alloc&) {
    return false;
  }
  chunk.received = std::move(work.aside);
  chunk.plan = work.cut->rest;
  return true;
}

}  // namespace carya::loader
