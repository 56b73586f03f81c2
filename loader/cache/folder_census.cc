#include "loader/cache/folder_census.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <unordered_set>
#include <utility>

#include "base/mutex.h"
#include "io/segments/segment_folder.h"
#include "io/segments/segment_reader.h"
#include "loader/cache/own_thread.h"

namespace carya::loader {
namespace {

using Identities = std::unordered_set<Hash128, HashOfHash>;

}  // namespace

struct FolderCensus::State {
  const std::string folder;
  const std::vector<Hash128> places;
  const Identities identities;

  mutable Mutex mutex;
  mutable Condition ended;
  bool over GUARDED_BY(mutex) = false;
  std::vector<double> shares GUARDED_BY(mutex);  // of the first places

  State(std::string where, std::vector<Hash128> which, const std::vector<Hash128>& whose)
      : folder(std::move(where)), places(std::move(which)), identities(whose.begin(), whose.end()) {}

  /// What cannot be read has none of them.
  double share_of(Hash128 place) const {
    const std::string path = folder + "/" + io::place_name(place);
    const auto segments = io::list_segments(path);
    if (!segments || identities.empty()) return 0;
    Identities found;
    for (const io::SegmentName& segment : *segments) {
      const auto reader = io::SegmentReader::open(path + "/" + segment.name, place);
      std::vector<io::SegmentRow> rows;
      if (!reader || !(*reader)->look(rows)) continue;
      for (const io::SegmentRow& row : rows)
        if (identities.contains(row.identity())) found.insert(row.identity());
    }
    return static_cast<double>(found.size()) / static_cast<double>(identities.size());
  }

  void count() {
    std::vector<double> counted;
    try {
      for (const Hash128 place : places) counted.push_back(share_of(place));
    } catch (const std::exception&) {  // no memory: then nothing is known of them
    }
    const MutexLock lock(mutex);
    shares = std::move(counted);
    over = true;
    ended.notify_all();
  }
};

std::shared_ptr<FolderCensus> FolderCensus::begin(std::string folder, std::vector<Hash128> places,
                                                  std::vector<Hash128> identities) {
  auto state = std::make_shared<State>(std::move(folder), std::move(places), identities);
  std::shared_ptr<FolderCensus> census(new FolderCensus(state));
  const bool started = start_detached([state] {
    begin_thread("carya-census", kReaderNice);
    state->count();
  });
  if (!started) {
    const MutexLock lock(state->mutex);
    state->over = true;
  }
  return census;
}

std::optional<double> FolderCensus::share(Hash128 place) const {
  const MutexLock lock(state_->mutex);
  if (!state_->over) return std::nullopt;
  for (std::size_t i = 0; i < state_->shares.size(); ++i)
    if (state_->places[i] == place) return state_->shares[i];
  return 0;
}

void FolderCensus::wait(std::int64_t most_ns) const {
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(most_ns);
  MutexLock lock(state_->mutex);
  while (!state_->over && state_->ended.wait_until(lock, until)) {
  }
}

}  // namespace carya::loader
