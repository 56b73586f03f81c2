#include "loader/read/open_sources.h"

#include <algorithm>

#include "base/clock.h"

namespace carya::loader {
namespace {

/// Not ctime: a link to the file or another owner does not move its bytes.
bool same_bytes(const io::SourceStamp& a, const io::SourceStamp& b) {
  return a.bytes == b.bytes && a.mtime_ns == b.mtime_ns;
}

/// Not for a listing, whose index may have come along with a copy of the tar.
bool same_file(const io::SourceStamp& a, const io::SourceStamp& b) {
  return a.inode == b.inode && same_bytes(a, b);
}

}  // namespace

Status OpenSources::enter(ReadOp& op) {
  const io::Manifest& manifest = *op.manifest;
  Place& place = places_[{op.job, &manifest}];
  ASSIGN(const int root, open_root(place, manifest));
  OpenSource* source = &place.root;
  if (op.container != UINT32_MAX) {
    if (place.containers.empty()) place.containers.resize(manifest.containers().size());
    source = &place.containers[op.container];
    TRY(source->handle < 0 ? open_container(*source, root, manifest, op.container) : look_at(*source));
  }
  (op.container != UINT32_MAX ? op.request.file : op.request.root) = source->handle;
  source->used = ++tick_;
  ++source->in_flight;
  op.source = source;
  return {};
}

Result<int> OpenSources::open_root(Place& place, const io::Manifest& manifest) {
  if (place.root.handle < 0) {
    ASSIGN(place.root.handle, engine_.add_root(manifest.root()));
  }
  return place.root.handle;
}

/// What reads from now on find must be what was opened.
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
  while (containers_.size() >= kOpenContainersMax && close_one_container()) {
  }
  Result<int> handle = engine_.add_file(root, path);
  // The process may have fewer descriptors than we would like to use.
  while (!handle && handle.error().code == Code::kExhausted && close_one_container())
    handle = engine_.add_file(root, path);
  if (!handle) return std::unexpected(std::move(handle.error()));
  const io::SourceStamp& stamp = engine_.file_stamp(*handle);
  const auto listed = manifest.container_stamps();
  const bool changed = source.opened_before ? !same_file(source.first, stamp)
                                            : !listed.empty() && !same_bytes(listed[container], stamp);
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

/// The least recently used one without reads in flight; false when there is none.
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
  --std::exchange(op.source, nullptr)->in_flight;
  const auto found = places_.find({op.job, op.manifest});
  if (found != places_.end() && found->second.forgotten && close_place(found->second)) places_.erase(found);
}

void OpenSources::forget(std::uint64_t job) {
  for (auto at = places_.lower_bound({job, nullptr}); at != places_.end() && at->first.first == job;) {
    at->second.forgotten = true;
    at = close_place(at->second) ? places_.erase(at) : std::next(at);
  }
}

/// False while reads are in flight.
bool OpenSources::close_place(Place& place) {
  const auto busy = [](const OpenSource& source) { return source.in_flight > 0; };
  if (busy(place.root) || std::any_of(place.containers.begin(), place.containers.end(), busy)) return false;
  for (OpenSource& source : place.containers)
    if (source.handle >= 0) close_container(source);
  if (place.root.handle >= 0) engine_.remove_root(place.root.handle);
  return true;
}

}  // namespace carya::loader
