#include "loader/stream/chunk_compute.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "loader/plan/stream_cache.h"

namespace carya::loader {
namespace {

/// The processor itself prefetches longer rows, which it sees being read in order.
constexpr std::size_t kPrefetchBytesMax = 2048;

/// Ask for the next row of a shuffled array while this one is computed. Rows lie anywhere, so the processor cannot
/// guess the next one. Measured: bench/small, Xeon with AVX-512, medians of 4: 553 -> 378 CPU-ns per sample.
void prefetch(std::span<const std::byte> row) {
  constexpr std::size_t kLine = 64;
  const std::size_t bytes = std::min<std::size_t>(row.size(), kPrefetchBytesMax);
  for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row.data() + at);
}

template <typename Run>
Status run_caught(Run run) {
  try {
    return run();
  } catch (const std::exception& thrown) {
    try {
      return fail(Code::kExhausted,
                  "compute: " + std::string(thrown.what()) +
                      "; lower threads, the batch or read_ahead, or raise the memory limit");
    } catch (const std::bad_alloc&) {
      return std::unexpected(out_of_memory());
    }
  }
}

/// The work on one row of a chunk.
struct RowWork {
  const ComputeParts& parts;
  Chunk& chunk;
  ComputeScratch& scratch;
  transforms::SampleId id;
  std::uint64_t source;
  std::optional<std::uint64_t> name;  ///< what the sample is kept as; none: it is not kept
  std::span<const std::span<const std::byte>> inputs;
  std::span<std::byte* const> outputs;

  /// The whole plan, from the record.
  Status from_record() const { return from_record(inputs); }
  Status from_record(std::span<const std::span<const std::byte>> record) const {
    const auto indexes = parts.index.begin(scratch.index, source, id.epoch);
    Status ran = parts.plan.run(scratch.transforms, id, record, outputs, indexes);
    parts.index.end(scratch.index, source);
    return ran;
  }

  /// The ops behind the place where the sample was kept. Errors: those of Plan::run(); kNotFound if it is damaged.
  Status from_kept(std::span<const std::byte> sample) const {
    const KeptPlace& place = *chunk.place;
    scratch.kept.resize(place.behind->inputs().size());
    place.behind->unpack(sample, scratch.kept);
    if (place.keeps_records()) return from_record(scratch.kept);
    return place.behind->run(scratch.transforms, id, scratch.kept, outputs);
  }

  /// Put a sample that came from files into memory too, and into nearer files.
  void spread(const FoundSample& found, std::span<const std::byte> sample) const {
    const KeptPlace& place = *chunk.place;
    if (chunk.fills && place.samples->admits(*name))
      if (std::byte* const memory = place.samples->reserve(*name, sample.size())) {
        std::memcpy(memory, sample.data(), sample.size());
        place.samples->publish(*name, sample.size());
      }
    if (found.tier == 0 || !wanted_by_files()) return;
    if (const std::shared_ptr<std::byte> copy = place.files->room(sample.size())) {
      std::memcpy(copy.get(), sample.data(), sample.size());
      place.files->offer(*name, copy, {copy.get(), sample.size()});
    }
  }

  bool wanted_by_files() const { return chunk.place->fills_more && chunk.place->files->wants(*name); }

  /// Whether a sample that is made now is kept somewhere.
  bool may_keep() const {
    return chunk.place->fills_more &&
           ((chunk.fills && chunk.place->samples->admits(*name)) || chunk.place->files->wants(*name));
  }

  /// Compute the sample, keep it, and go on from there. Returns whether that was done; if not, the row is to be
  /// computed as if nothing were kept, which also says what is wrong with it.
  bool keep() const {
    KeptPlace& place = *chunk.place;
    std::span<std::byte> sample;
    std::shared_ptr<std::byte> own;  // where memory does not keep it, but files do
    // A record that is kept as it is brings its index along where it is computed.
    const auto indexes = place.keeps_records() ? std::span<transforms::FieldIndex>()
                                               : parts.index.begin(scratch.index, source, id.epoch);
    const Status packed = place.before->pack(
        scratch.transforms, id, inputs,
        [&](std::uint64_t bytes) {
          std::byte* memory = chunk.fills ? place.samples->reserve(*name, bytes) : nullptr;
          if (memory == nullptr && place.files->wants(*name)) memory = (own = place.files->room(bytes)).get();
          if (memory != nullptr) sample = {memory, bytes};
          return memory;
        },
        indexes);
    if (!place.keeps_records()) parts.index.end(scratch.index, source);
    if (!packed || !from_kept(sample)) return false;
    if (own) {
      place.files->offer(*name, own, sample);
      return true;
    }
    place.samples->publish(*name, sample.size());
    if (const KeptSample kept = place.samples->find(*name))
      place.files->offer(*name, kept.memory, kept.bytes);
    return true;
  }
};

/// Run `work`; one in some is timed.
template <typename Work>
auto timed(TimedSamples& times, Work work) {
  if (!times.due()) return work();
  const std::int64_t begun_ns = thread_cpu_ns();
  auto result = work();
  if (result) times.add(thread_cpu_ns() - begun_ns);
  return result;
}

/// Errors: those of Plan::run(); kNotFound if the sample that was kept is damaged.
Status compute_row(const RowWork& row, std::size_t task) {
  const Chunk& chunk = row.chunk;
  if (chunk.has_kept(task)) {
    const KeptSample& kept = chunk.kept[task];
    if (row.wanted_by_files()) chunk.place->files->offer(*row.name, kept.memory, kept.bytes);
    return timed(chunk.place->figures->hits, [&] { return row.from_kept(kept.bytes); });
  }
  if (chunk.has_found(task)) {
    const auto& [sample, bytes] = chunk.found[task];
    TRY(timed(chunk.place->figures->file_hits.at(sample.tier), [&] { return row.from_kept(bytes); }));
    row.spread(sample, bytes);
    return {};
  }
  // A row that comes twice within the chunks ahead, as around the end of an epoch, was looked up before it was kept.
  if (row.name)
    if (const KeptSample sample = chunk.place->samples->find(*row.name);
        sample && !chunk.place->distrusts(*row.name)) {
      Status ran = timed(chunk.place->figures->hits, [&] { return row.from_kept(sample.bytes); });
      if (ran || ran.error().code != Code::kNotFound) return ran;
      chunk.place->distrust(*row.name);
    }
  if (row.name && row.may_keep())
    if (timed(chunk.place->figures->fills, [&] { return row.keep(); })) return {};
  return row.from_record();
}

/// Whether what was read for the chunk, which is over now, is of the data that was listed.
Status check_sources(const Dataset& dataset, const Chunk& chunk) {
  TRY(dataset.check_arrays());
  std::uint32_t checked = UINT32_MAX;
  for (const RowTask& task : chunk.tasks) TRY(dataset.check_marks(task.record, checked));
  return {};
}

/// The chunk has a task whose sample, kept as `name`, is damaged: all of it is to be computed again, and that one from its
/// record.
void miss(Chunk& chunk, std::size_t task, std::uint64_t name) {
  chunk.place->distrust(name);
  if (chunk.has_kept(task)) chunk.kept[task] = {};
  chunk.broken.clear();
  chunk.missed = true;
}

}  // namespace

void compute_chunk(const ComputeParts& parts, Chunk& chunk, ComputeScratch& scratch) {
  const Step& step = *chunk.step;
  const std::size_t fields = parts.plan.inputs().size();
  const bool from_record = !chunk.is_rest();
  SlotRows::Row row;
  const Status sources = check_sources(parts.dataset, chunk);
  for (std::size_t t = 0; t < chunk.tasks.size(); ++t) {
    const RowTask& task = chunk.tasks[t];
    if (parts.prefetches && t + 1 < chunk.tasks.size())
      for (std::size_t f = 0; f < fields; ++f) prefetch(chunk.inputs[(t + 1) * fields + f]);
    parts.rows.begin(row, *step.slot, task.row);
    const transforms::SampleId id{step.epoch, task.record, task.occurrence};
    const std::uint64_t source = parts.dataset.source_index(task.record);
    const auto name = chunk.place ? chunk.place->name_of(task.record, source, task.occurrence) : std::nullopt;
    Status status = run_caught([&]() -> Status {
      TRY(sources);
      TRY(parts.dataset.check_record(task.record));
      const auto inputs = std::span(chunk.inputs).subspan(t * fields, fields);
      const auto outputs = std::span(row.outputs.data(), parts.rows.outputs());
      if (!from_record) return parts.plan.run(scratch.transforms, id, inputs, outputs);
      return compute_row({parts, chunk, scratch, id, source, name, inputs, outputs}, t);
    });
    if (!status && status.error().code == Code::kNotFound && chunk.is_kept(t)) return miss(chunk, t, *name);
    // A damaged record may come from a file that changed. That is the world's doing, and no fault of the record.
    if (!status && status.error().code == Code::kCorrupt)
      if (Status same = run_caught([&] { return parts.dataset.check_as_listed(task.record); }); !same)
        status = std::move(same);
    if (status)
      parts.rows.finish(row, *step.slot, task.row, task.record);
    else
      chunk.broken.emplace_back(t, std::move(status.error()));
  }
}

}  // namespace carya::loader
