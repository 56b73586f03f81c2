#include "loader/read/cached_reads.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "io/files/listing.h"
#include "io/files/source_folder.h"
#include "loader/read/open_sources.h"

namespace carya::loader {
namespace {

constexpr int kClosed = -1, kLeft = -2;

/// Containers that all streams have open.
std::atomic<std::size_t> containers_open{0};

/// Compares size and time with the listing. The inode may differ, since an index may have come with a copy of the tar.
bool is_as_listed(int fd, const io::SourceStamp& listed) {
  struct stat status;
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  return io::stamp_of(status).version() == listed.version();
}

}  // namespace

std::size_t cached_containers_max() {
  return open_containers_max() / 2;
}

std::unique_ptr<CachedReads> CachedReads::create(
    std::span<const std::shared_ptr<const io::Manifest>> manifests, std::uint64_t resolve) {
  auto reads = std::unique_ptr<CachedReads>(new CachedReads(resolve));
  for (const auto& manifest : manifests) {
    const bool known =
        std::ranges::find(reads->places_, manifest.get(), &Place::manifest) != reads->places_.end();
    const auto how = io::cached_reading(manifest->root());
    if (known || how == io::CachedReading::kNever) continue;
    Place place{.manifest = manifest.get(), .how = how, .root = {}, .containers = {}};
    if (resolve == 0) {
      place.root.reset(::open(manifest->root().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    } else if (auto root = io::open_real_folder(manifest->root(), O_PATH)) {
      place.root = std::move(*root);
    }
    if (!place.root) continue;
    // Without stamps of the listing, a container cannot be told from a file that replaced it.
    if (!manifest->container_stamps().empty())
      place.containers = std::make_unique<Container[]>(manifest->containers().size());
    reads->places_.push_back(std::move(place));
  }
  return reads->places_.empty() ? nullptr : std::move(reads);
}

CachedReads::~CachedReads() {
  close();
}

void CachedReads::close() {
  for (const Place& place : places_)
    for (std::size_t i = 0; place.containers && i < place.manifest->containers().size(); ++i)
      if (const int fd = place.containers[i].fd; fd >= 0) {
        ::close(fd);
        --containers_open;
      }
  places_.clear();
}

bool CachedReads::read(const ReadOp& op) const {
  const auto place = std::ranges::find(places_, op.manifest, &Place::manifest);
  if (place == places_.end() || op.request.pin != nullptr) return false;
  const io::ReadRequest& request = op.request;
  if (!op.in_container())
    return io::read_named_cached(place->how, place->root.get(), request.path, resolve_, request.length,
                                 request.dest);
  const int fd = container(*place, op.container);
  return fd >= 0 && io::read_range_cached(place->how, fd, request.offset, request.length, request.dest);
}

/// The descriptor of a container, or less than 0.
int CachedReads::container(const Place& place, std::uint32_t number) const {
  if (!place.containers) return kLeft;
  Container& container = place.containers[number];
  // Acquire, with the exchange in open_container().
  int fd = container.fd.load(std::memory_order_acquire);
  if (fd == kClosed) fd = open_container(place, number);
  if (fd < 0) return fd;
  const std::int64_t now_ns = monotonic_ns();
  // Relaxed: no memory depends on it. Two threads that look at the same time cost one more fstat().
  if (now_ns - container.looked_ns.load(std::memory_order_relaxed) < kLookAtContainerNs) return fd;
  if (!is_as_listed(fd, place.manifest->container_stamps()[number])) {
    // Other threads may be reading from it, so it stays open.
    container.looked_ns.store(0, std::memory_order_relaxed);
    return kLeft;
  }
  container.looked_ns.store(now_ns, std::memory_order_relaxed);
  return fd;
}

int CachedReads::open_container(const Place& place, std::uint32_t number) const {
  // It is counted before it is opened, so that threads together never pass the limit.
  if (containers_open.fetch_add(1) >= cached_containers_max()) {
    --containers_open;
    return kClosed;
  }
  Container& container = place.containers[number];
  UniqueFd fd = io::open_cached(place.root.get(), place.manifest->containers()[number].c_str(), resolve_);
  int before = kClosed;
  if (fd && is_as_listed(fd.get(), place.manifest->container_stamps()[number])) {
    const int opened = fd.get();
    if (container.fd.compare_exchange_strong(before, opened, std::memory_order_acq_rel)) {
      static_cast<void>(fd.release());
      return opened;
    }
  }
  --containers_open;
  return before;  // another thread was faster, or the container cannot be opened now
}

}  // namespace carya::loader
