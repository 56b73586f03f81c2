#include "loader/stream/chunk_inputs.h"

#include "base/checked.h"

namespace carya::loader {

using Kind = transforms::SourceField::Kind;

std::uint64_t buffer_room(std::uint64_t bytes) {
  return bytes > kEncodedBytesMax ? 0 : align_up(bytes + kSlackBytes, std::uint64_t{64});
}

std::uint64_t list_inputs(Chunk& chunk, const Dataset& dataset, std::uint64_t job) {
  chunk.inputs.clear();
  chunk.reads.clear();
  chunk.labels.resize(chunk.tasks.size());
  chunk.broken.reserve(chunk.tasks.size());  // so that to list a broken row never fails
  std::uint64_t room = 0;
  for (std::size_t t = 0; t < chunk.tasks.size(); ++t) {
    const std::uint64_t source = dataset.source_index(chunk.tasks[t].record);
    for (const Dataset::Field& field : dataset.fields()) {
      if (field.kind == Kind::kTensor) {
        chunk.inputs.emplace_back(field.array.data + source * field.array.row_bytes, field.array.row_bytes);
        continue;
      }
      const io::RecordAddress address = field.manifest->record(source);
      if (field.kind == Kind::kLabel) {
        chunk.labels[t] = address.label;
        chunk.inputs.push_back(std::as_bytes(std::span(&chunk.labels[t], 1)));
        continue;
      }
      ReadOp op{.chunk = &chunk,
                .task = t,
                .manifest = field.manifest.get(),
                .container = address.container,
                .job = job};
      op.request.path = field.manifest->path_c_str(source);
      op.request.offset = room;  // inside the buffer, until the buffer is there
      op.request.length = address.bytes;
      op.input = chunk.inputs.size();
      chunk.inputs.emplace_back();
      if (buffer_room(address.bytes) == 0) continue;  // computing will say what is wrong with it
      room += buffer_room(address.bytes);
      chunk.reads.push_back(op);
    }
  }
  return room;
}

void place_reads(Chunk& chunk, const Dataset& dataset) {
  for (ReadOp& op : chunk.reads) {
    op.request.token = reinterpret_cast<std::uint64_t>(&op);
    op.request.dest = chunk.buffer.memory.get() + op.request.offset;
    chunk.inputs[op.input] = {op.request.dest, op.request.length};
    const std::uint64_t source = dataset.source_index(chunk.tasks[op.task].record);
    op.request.offset = op.container == UINT32_MAX ? 0 : op.manifest->record(source).offset;
  }
}

}  // namespace carya::loader
