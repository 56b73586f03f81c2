#include "loader/stream/chunk_results.h"

#include <cstring>
#include <new>
#include <numeric>
#include <utility>

namespace carya::loader {

std::size_t ChunkWork::result_bytes() const {
  return std::accumulate(places.begin(), places.end(), std::size_t{0},
                         [](std::size_t sum, const auto& place) { return sum + place.size(); });
}

void place_results(ChunkWork& work, const SlotRows& rows, ReadBufferPool& pool) {
  const Chunk& chunk = *work.chunk;
  const std::size_t count = chunk.tasks.size();
  const auto& outputs = work.cut->outputs;
  std::vector<bool> direct;
  std::size_t aside = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    direct.push_back(!work.cut->rest && rows.row_bytes(i) == static_cast<std::uint64_t>(outputs[i].bytes()));
    if (!direct[i]) aside += count * static_cast<std::size_t>(outputs[i].bytes());
  }
  if (aside > 0) work.aside = pool.take(aside);
  if (aside > 0 && !work.aside.memory) throw std::bad_alloc();
  std::span<std::byte> left(work.aside.data(), aside);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (direct[i]) {
      work.places.push_back(rows.rows(*chunk.step->slot, i, chunk.tasks.front().row, count));
      continue;
    }
    work.places.push_back(left.first(count * static_cast<std::size_t>(outputs[i].bytes())));
    left = left.subspan(work.places.back().size());
  }
}

void finish_results(const ChunkWork& work, const SlotRows& rows) {
  const Chunk& chunk = *work.chunk;
  for (std::size_t t = 0; t < chunk.tasks.size(); ++t) {
    SlotRows::Row row;
    const RowTask& task = chunk.tasks[t];
    rows.begin(row, *chunk.step->slot, task.row);
    if (row.narrow_label != nullptr) std::memcpy(&row.wide_label, work.aside.data() + 8 * t, 8);
    rows.finish(row, *chunk.step->slot, task.row, task.record);
  }
}

bool take_results_as_inputs(ChunkWork& work) {
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
