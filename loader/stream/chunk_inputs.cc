#include "loader/stream/chunk_inputs.h"

#include <cstring>
#include <new>
#include <utility>

#include "base/checked.h"
#include "base/clock.h"
#include "loader/plan/stream_cache.h"

namespace carya::loader {

using Kind = transforms::SourceField::Kind;

std::uint64_t buffer_room(std::uint64_t bytes) {
  return bytes > kEncodedBytesMax ? 0 : align_up(bytes + kSlackBytes, std::uint64_t{64});
}

std::uint64_t list_inputs(Chunk& chunk, const Dataset& dataset, std::uint64_t job,
                          const StoreSources* stores) {
  chunk.inputs.clear();
  chunk.reads->reads.clear();
  chunk.labels.resize(chunk.tasks.size());
  chunk.broken.reserve(chunk.tasks.size());  // so that listing a broken row never fails
  std::uint64_t room = 0;
  for (std::size_t t = 0; t < chunk.tasks.size(); ++t) {
    const std::uint64_t source = dataset.source_index(chunk.tasks[t].record);
    for (std::size_t f = 0; f < dataset.fields().size(); ++f) {
      const Dataset::Field& field = dataset.fields()[f];
      if (!chunk.needs_inputs(t)) {
        chunk.inputs.emplace_back();
        continue;
      }
      if (field.kind == Kind::kTensor) {
        chunk.inputs.push_back(field.array.of(source));
        continue;
      }
      const io::RecordAddress address = field.manifest->record(source);
      if (field.kind == Kind::kLabel) {
        chunk.labels[t] = address.label;
        chunk.inputs.push_back(std::as_bytes(std::span(&chunk.labels[t], 1)));
        continue;
      }
      ReadOp op{.batch = chunk.reads.get(),
                .task = t,
                .manifest = field.manifest.get(),
                .use = stores != nullptr ? stores->use(f) : nullptr,
                .container = address.container,
                .job = job};
      op.request.path = field.manifest->path_c_str(source);
      op.request.pin = field.manifest->pin_c_str(source);
      if (op.request.pin != nullptr) op.request.object_bytes = field.manifest->object_bytes(source);
      op.request.offset = room;  // an offset in the buffer, until place_reads()
      op.request.length = address.bytes;
      op.input = chunk.inputs.size();
      chunk.inputs.emplace_back();
      if (buffer_room(address.bytes) == 0) continue;  // computing reports what is wrong with it
      room += buffer_room(address.bytes);
      chunk.reads->reads.push_back(op);
    }
  }
  for (const ChunkFetch& fetch : chunk.found)
    if (fetch.sample) room += buffer_room(fetch.sample.bytes());
  return room;
}

void look_up_kept(Chunk& chunk, std::shared_ptr<KeptPlace> place, const Dataset& dataset, bool from_files) {
  chunk.kept.clear();
  chunk.found.clear();
  chunk.fetching.reset();
  chunk.place = std::move(place);
  if (!chunk.place) return;
  const KeptPlace& kept = *chunk.place;
  kept.figures->looked.fetch_add(chunk.tasks.size(), std::memory_order_relaxed);
  bool finds = false;
  for (const RowTask& task : chunk.tasks) {
    const auto name = kept.name_of(task.record, dataset.source_index(task.record), task.occurrence);
    const bool trusted = name && !kept.distrusts(*name);
    chunk.kept.push_back(trusted ? kept.samples->find(*name) : KeptSample());
    chunk.found.emplace_back();
    if (trusted && from_files && !chunk.kept.back()) chunk.found.back().sample = kept.files->find(*name);
    finds = finds || chunk.found.back().sample;
  }
  if (!finds) chunk.found.clear();
}

void begin_fetches(Chunk& chunk, const Dataset& dataset, std::shared_ptr<const void> lent) {
  std::size_t t = 0;
  try {
    for (; t < chunk.found.size(); ++t) {
      const ChunkFetch& fetch = chunk.found[t];
      if (!fetch.sample) {
        chunk.fetching->settle(t, false);
        continue;
      }
      chunk.place->files->fetch(fetch.sample, dataset.source_index(chunk.tasks[t].record), fetch.bytes.data(),
                                lent, chunk.fetching, t);
    }
  } catch (const std::bad_alloc&) {
    for (; t < chunk.found.size(); ++t) chunk.fetching->settle(t, false);
  }
}

bool has_all_found(const Chunk& chunk) {
  for (std::size_t t = 0; t < chunk.found.size(); ++t)
    if (chunk.has_found(t) &&
        (!chunk.fetching->is_there(t) || !chunk.place->behind->can_unpack(chunk.found[t].bytes)))
      return false;
  return true;
}

void place_reads(Chunk& chunk, const Dataset& dataset, std::byte* memory) {
  for (ReadOp& op : chunk.reads->reads) {
    op.request.token = reinterpret_cast<std::uint64_t>(&op);
    op.request.dest = memory + op.request.offset;
    chunk.inputs[op.input] = {op.request.dest, op.request.length};
    const std::uint64_t source = dataset.source_index(chunk.tasks[op.task].record);
    op.request.offset = op.container != UINT32_MAX ? op.manifest->record(source).offset : 0;
  }
  // Samples from files lie behind the records.
  std::uint64_t at = 0;
  for (const ReadOp& op : chunk.reads->reads) at += buffer_room(op.request.length);
  for (ChunkFetch& fetch : chunk.found) {
    if (!fetch.sample) continue;
    fetch.bytes = {memory + at, fetch.sample.bytes()};
    at += buffer_room(fetch.sample.bytes());
  }
}

bool read_cached(Chunk& chunk, const Dataset& dataset, const CachedReads& reads, CachedInputs& inputs) {
  try {
    const std::uint64_t room = list_inputs(chunk, dataset, 0);
    if (inputs.buffer.bytes < room) inputs.buffer = ReadBufferPool::make(room);
    if (room > 0 && !inputs.buffer.memory) return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  place_reads(chunk, dataset, inputs.buffer.data());
  std::int64_t begun_ns = monotonic_ns();
  for (const ReadOp& op : chunk.reads->reads) {
    if (!reads.read(op)) return false;
    // Decoders may look at these bytes, so they are the same each time.
    std::memset(op.request.dest + op.request.length, 0, kSlackBytes);
    const std::int64_t now_ns = monotonic_ns();
    inputs.tally.note(now_ns - begun_ns);
    inputs.tally.bytes += op.request.length;
    begun_ns = now_ns;
  }
  return true;
}

}  // namespace carya::loader
