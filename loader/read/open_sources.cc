#include "loader/read/open_sources.h"

#include <sys/resource.h>

#include <algorithm>
#include <new>

#include "base/clock.h"
#include "loader/read/read_turns.h"

namespace carya::loader {
namespace {

/// Compares with a stamp that this job took itself, so the inode counts too. A listing is compared without it, since
/// its index may have come with a copy of the tar.
bool same_file(const io::SourceStamp& a, const io::SourceStamp& b) {
  return a.inode == b.inode && a.version() == b.version();
}

}  // namespace

std::size_t open_containers_max() {
  constexpr std::size_t kLeast = 16, kMost = 4096;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeast;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, kLeast, kMost);
}

bool OpenSources::reserve(ReadOp& op) try {
  Place& place = places_[{op.job, op.manifest}];
  OpenSource* source = &place.root;
  if (op.in_container()) {
    if (place.containers.empty()) place.containers.resize(op.manifest->containers().size());
    source = &place.containers[op.container];
    if (source->in_flight == 0) {
      const std::size_t free = containers_max_ - std::min(busy_, containers_max_);
      if (place.busy > 0 && !may_take_more(place.busy, free)) return false;
      ++place.busy;
      ++busy_;
    }
  }
  ++source->in_flight;
  op.source = source;
  return true;
  // enter() finds no source then, and returns the error.
} catch (const std::bad_alloc&) {
  return true;
}

Status OpenSources::enter(ReadOp& op) {
  if (op.source == nullptr) return std::unexpected(out_of_memory());
  const io::Manifest& manifest = *op.manifest;
  ASSIGN(const int root, open_root(places_.at({op.job, &manifest}), op));
  OpenSource& source = *op.source;
  if (op.in_container())
    TRY(source.handle < 0 ? open_container(source, root, manifest, op.container) : look_at(source));
  (op.in_container() ? op.request.file : op.request.root) = source.handle;
  source.used = ++tick_;
  return {};
}

Result<int> OpenSources::open_root(Place& place, const ReadOp& op) {
  if (place.root.handle < 0) {
    const std::string& root = op.manifest->root();
    ASSIGN(place.root.handle, op.use != nullptr ? engine_.add_store(root, *op.use) : engine_.add_root(root));
  }
  return place.root.handle;
}

/// Reads from now on must find the file that was opened.
Status OpenSources::look_at(OpenSource& source) {
  const std::int64_t now_ns = monotonic_ns();
  if (now_ns - source.looked_ns < kLookAtContainerNs) return {};
  ASSIGN(const io::SourceStamp now, engine_.file_stamp_now(source.handle));
  if (!same_file(source.first, now)) return fail(Code::kIo, "it changed while it was read");
  source.looked_ns = now_ns;
  return {};
}

Status OpenSources::open_container(OpenSource& source, int root, const io::Manifest& manifest,
                                   std::uint32_t container) {
  const std::string& path = manifest.containers()[container];
  containers_.reserve(containers_.size() + 1);
  while (containers_.size() >= containers_max_ && close_one_container()) {
  }
  Result<int> handle = engine_.add_file(root, path);
  // The process may have fewer descriptors left than containers_max_ allows.
  while (!handle && handle.error().code == Code::kExhausted && close_one_container())
    handle = engine_.add_file(root, path);
  if (!handle) return std::unexpected(std::move(handle.error()));
  const io::SourceStamp& stamp = engine_.file_stamp(*handle);
  const auto listed = manifest.container_stamps();
  const bool changed = source.opened_before
                           ? !same_file(source.first, stamp)
                           : !listed.empty() && listed[container].version() != stamp.version();
  if (changed) {
    engine_.remove_file(*handle);
    return fail(Code::kIo, source.opened_before
                               ? "it is another file than the one that this loader began to read"
                               : "it changed since it was listed");
  }
  source.first = stamp;
  source.opened_before = true;
  source.looked_ns = monotonic_ns();
  source.handle = *handle;
  containers_.push_back(&source);
  return {};
}

/// Closes the least recently used container without reads in flight. Returns false if there is none.
bool OpenSources::close_one_container() {
  OpenSource* oldest = nullptr;
  for (OpenSource* source : containers_)
    if (source->in_flight == 0 && (oldest == nullptr || source->used < oldest->used)) oldest = source;
  if (oldest == nullptr) return false;
  close_container(*oldest);
  return true;
}

void OpenSources::close_container(OpenSource& source) {
  engine_.remove_file(std::exchange(source.handle, -1));
  containers_.erase(std::find(containers_.begin(), containers_.end(), &source));
}

void OpenSources::leave(ReadOp& op) {
  if (op.source == nullptr) return;
  const auto found = places_.find({op.job, op.manifest});
  CHECK(found != places_.end() && op.source->in_flight > 0);
  Place& place = found->second;
  OpenSource& source = *std::exchange(op.source, nullptr);
  if (--source.in_flight == 0 && op.in_container()) {
    CHECK(place.busy > 0 && busy_ > 0);
    --place.busy;
    --busy_;
    // The container may have been a job's first, beyond the limit.
    if (source.handle >= 0 && containers_.size() > containers_max_) close_container(source);
  }
  if (place.forgotten && close_place(place)) places_.erase(found);
}

void OpenSources::forget(std::uint64_t job) {
  for (auto at = places_.lower_bound({job, nullptr}); at != places_.end() && at->first.first == job;) {
    at->second.forgotten = true;
    at = close_place(at->second) ? places_.erase(at) : std::next(at);
  }
}

/// Returns false while reads are in flight.
bool OpenSources::close_place(Place& place) {
  const auto busy = [](const OpenSource& source) { return source.in_flight > 0; };
  if (busy(place.root) || std::any_of(place.containers.begin(), place.containers.end(), busy)) return false;
  for (OpenSource& source : place.containers)
    if (source.handle >= 0) close_container(source);
  if (place.root.handle >= 0) engine_.remove_root(place.root.handle);
  return true;
}

}  // namespace carya::loader
