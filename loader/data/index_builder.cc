#include "loader/data/index_builder.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "io/files/listing.h"
#include "loader/data/sample.h"
#include "loader/host/host.h"

namespace carya::loader {
namespace {

constexpr std::int64_t kProgressNs = 100'000'000;

/// What the threads share; the counters order nothing.
struct Work {
  const Dataset& dataset;
  DecodeIndex& index;
  std::atomic<std::uint64_t> complete{0}, made{0}, unsuited{0}, unreadable{0};
};

/// What one thread works with.
struct Worker {
  transforms::IndexMaker maker;
  DecodeIndex::Scratch scratch;
};

bool is_complete(transforms::IndexMaker& maker, const transforms::FieldIndex& index) {
  const auto facts = maker.facts(index.known);
  return facts && facts->points == facts->points_max &&
         (index.spacing == 0 || (facts->spacing != 0 && facts->spacing <= index.spacing));
}

void complete_record(Work& work, Worker& worker, std::uint64_t source) {
  const auto indexes = work.index.begin(worker.scratch, source, 0);
  for (std::size_t f = 0; f < indexes.size(); ++f) {
    transforms::FieldIndex& index = indexes[f];
    index.made.clear();
    index.use = transforms::IndexUse::kNone;
    if (!work.index.keeps(f)) continue;
    if (is_complete(worker.maker, index)) {
      ++work.complete;
      continue;
    }
    const io::Manifest& manifest = *work.dataset.fields()[f].manifest;
    const auto bytes = read_record(manifest, source);
    if (!bytes)
      ++work.unreadable;
    else if (!worker.maker.complete(std::span(*bytes).first(manifest.record(source).bytes), index))
      ++work.unsuited;
    else
      ++work.made;
  }
  work.index.end(worker.scratch, source);
  if (work.index.urgent()) work.index.flush();
}

}  // namespace

Result<IndexCompletionReport> complete_index(const Dataset& dataset, const IndexCompletionOptions& options) {
  const std::shared_ptr<DecodeIndex> index = DecodeIndex::open_whole(dataset, options.index);
  if (!index->on()) return fail(Code::kUnsupported, "index: " + index->stats().reason);
  Work work{.dataset = dataset, .index = *index};
  std::uint64_t count = 0, fields = 0;
  for (std::size_t f = 0; f < dataset.fields().size(); ++f) {
    if (!index->keeps(f)) continue;
    count = dataset.fields()[f].manifest->count();
    ++fields;
  }
  const std::uint32_t allowed = std::max(1u, static_cast<std::uint32_t>(read_host_info().allowed_cores));
  io::ListingProgress progress(options.progress, kProgressNs);
  const Status done =
      io::for_each_index_by(count, options.threads > 0 ? options.threads : allowed, progress, [&] {
        const auto worker = std::make_shared<Worker>();
        return [&work, &progress, worker](std::uint64_t source) -> Status {
          complete_record(work, *worker, source);
          progress.add(1);
          return {};
        };
      });
  index->close();
  if (!done) return fail(Code::kClosed, "index: it was broken off; what was made is kept");
  return IndexCompletionReport{.files = count * fields,
                               .complete = work.complete,
                               .made = work.made,
                               .unsuited = work.unsuited,
                               .unreadable = work.unreadable,
                               .index = index->stats()};
}

}  // namespace carya::loader
