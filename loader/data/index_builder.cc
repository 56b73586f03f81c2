#include "loader/data/index_builder.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "loader/data/sample.h"
#include "loader/host/host.h"

namespace carya::loader {
namespace {

constexpr std::chrono::milliseconds kProgressEvery{100};

/// What the threads share; the counters order nothing.
struct Work {
  const Dataset& dataset;
  DecodeIndex& index;
  std::uint64_t count = 0;
  std::atomic<std::uint64_t> next{0}, done{0}, complete{0}, made{0}, unsuited{0}, unreadable{0};
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::condition_variable ended;
  std::size_t running = 0;
};

bool is_complete(transforms::IndexMaker& maker, const transforms::FieldIndex& index) {
  const auto facts = maker.facts(index.known);
  return facts && facts->points == facts->points_max &&
         (index.spacing == 0 || (facts->spacing != 0 && facts->spacing <= index.spacing));
}

void complete_record(Work& work, transforms::IndexMaker& maker, DecodeIndex::Scratch& scratch,
                     std::uint64_t source) {
  const auto indexes = work.index.begin(scratch, source, 0);
  for (std::size_t f = 0; f < indexes.size(); ++f) {
    transforms::FieldIndex& index = indexes[f];
    index.made.clear();
    index.use = transforms::IndexUse::kNone;
    if (!work.index.keeps(f)) continue;
    if (is_complete(maker, index)) {
      ++work.complete;
      continue;
    }
    const io::Manifest& manifest = *work.dataset.fields()[f].manifest;
    const auto bytes = read_record(manifest, source);
    if (!bytes)
      ++work.unreadable;
    else if (!maker.complete(std::span(*bytes).first(manifest.record(source).bytes), index))
      ++work.unsuited;
    else
      ++work.made;
  }
  work.index.end(scratch, source);
  if (work.index.urgent()) work.index.flush();
}

void run(Work& work) {
  transforms::IndexMaker maker;
  DecodeIndex::Scratch scratch;
  while (!work.stopping) {
    const std::uint64_t source = work.next++;
    if (source >= work.count) break;
    complete_record(work, maker, scratch, source);
    ++work.done;
  }
  const std::lock_guard lock(work.mutex);
  --work.running;
  work.ended.notify_all();
}

}  // namespace

Result<IndexCompletionReport> complete_index(const Dataset& dataset, const IndexCompletionOptions& options) {
  const std::shared_ptr<DecodeIndex> index = DecodeIndex::open_whole(dataset, options.index);
  if (!index->on()) return fail(Code::kUnsupported, "index: " + index->stats().reason);
  Work work{.dataset = dataset, .index = *index};
  std::uint64_t fields = 0;
  for (std::size_t f = 0; f < dataset.fields().size(); ++f) {
    if (!index->keeps(f)) continue;
    work.count = dataset.fields()[f].manifest->count();
    ++fields;
  }
  const std::uint32_t allowed = std::max(1u, static_cast<std::uint32_t>(read_host_facts().allowed_cores));
  work.running = options.threads > 0 ? options.threads : allowed;
  std::vector<std::thread> threads;
  for (std::size_t i = work.running; i > 0; --i) threads.emplace_back([&work] { run(work); });
  {
    std::unique_lock lock(work.mutex);
    while (!work.ended.wait_for(lock, kProgressEvery, [&] { return work.running == 0; })) {
      lock.unlock();
      if (options.progress && !options.progress(work.done)) work.stopping = true;
      lock.lock();
    }
  }
  for (std::thread& thread : threads) thread.join();
  index->close();
  if (work.stopping) return fail(Code::kClosed, "index: it was broken off; what was made is kept");
  return IndexCompletionReport{.files = work.count * fields,
                               .complete = work.complete,
                               .made = work.made,
                               .unsuited = work.unsuited,
                               .unreadable = work.unreadable,
                               .index = index->stats()};
}

}  // namespace carya::loader
