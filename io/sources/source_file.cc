#include "io/sources/source_file.h"
#include "base/escape.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "base/unique_fd.h"
#include "io/files/common_folder.h"
#include "io/files/listing.h"

namespace carya::io {
namespace {

constexpr unsigned kStoreThreads = 16;
// One request takes as long as so many bytes of a fast store, so that a leap over fewer is read through.
constexpr std::uint64_t kLeapMin = 1 << 20;
constexpr std::uint64_t kBlockMin = 64 << 10, kBlockMax = 8 << 20;

/// Asked inside of libcurl, where the caller's function must not be called: the caller's thread calls it meanwhile.
GoesOn goes_on(const ListingProgress& progress) {
  return [&progress] { return !progress.stopped(); };
}

/// Reads of an object from its beginning to its end, with leaps.
class ObjectBlocks {
 public:
  ObjectBlocks(std::shared_ptr<StoreClient> client, StoreObject object, ListingProgress& progress)
      : client_(std::move(client)), object_(std::move(object)), goes_on_(goes_on(progress)) {}

  Status read(std::uint64_t offset, std::span<std::byte> out) {
    while (!out.empty()) {
      if (offset < start_ || offset >= start_ + block_.size()) TRY(fill(offset, out.size()));
      const std::size_t at = offset - start_;
      const std::size_t taken = std::min(out.size(), block_.size() - at);
      std::memcpy(out.data(), block_.data() + at, taken);
      out = out.subspan(taken);
      offset += taken;
    }
    return {};
  }

 private:
  Status fill(std::uint64_t offset, std::uint64_t bytes) {
    const std::uint64_t end = start_ + block_.size();
    const bool near = offset >= end && offset - end <= kLeapMin;
    ahead_ = near ? std::min(2 * ahead_, kBlockMax) : kBlockMin;
    const std::uint64_t wanted = std::min(std::max(bytes, ahead_), object_.bytes - offset);
    block_.resize(wanted);
    start_ = offset;
    const Status read = client_->read(object_, offset, block_, goes_on_);
    if (!read) block_.clear();
    return read;
  }

  const std::shared_ptr<StoreClient> client_;
  const StoreObject object_;
  const GoesOn goes_on_;
  std::vector<std::byte> block_;
  std::uint64_t start_ = 0;  // of the block
  std::uint64_t ahead_ = kBlockMin / 2;
};

/// Whether a server may take it for an object beside the folder that it seems to be in.
bool may_lead_out(std::string_view url) {
  std::string plain(url);
  std::ranges::transform(plain, plain.begin(), [](unsigned char c) { return std::tolower(c); });
  return (plain + "/").contains("/../") || plain.contains("%2e") || plain.contains("%2f");
}

SourceFile file_of(const StoreObject& object, const StoreClient& client) {
  SourceFile file;
  file.stamp.bytes = object.bytes;
  file.stamp.mtime_ns = static_cast<std::int64_t>(hash64(object.pin));
  file.pin = object.pin;
  if (client.access()->asks_as_anybody(object.url)) file.readers = Readers::everybody();
  // Whoever chooses who answers for a URL has indexes of its own.
  file.identity = object.url.url();
  const std::string key = client.access()->is_lent() ? client.access()->terms().key() : "";
  if (!key.empty()) file.identity = std::to_string(file.identity.size()) + ":" + file.identity + key;
  return file;
}

}  // namespace

Result<SourcePlace> SourcePlace::open(const std::vector<std::string>& paths, const ListingOptions& options) {
  SourcePlace place;
  if (std::ranges::none_of(paths, has_scheme)) {
    ASSIGN(place.folder_, SourceFolder::open(paths, options));
    return place;
  }
  for (const std::string& path : paths) {
    if (path.find('\0') != std::string::npos)
      return fail(Code::kInvalidArgument, "a URL with a NUL; give it without");
    if (place_of(path) != place_of(paths[0]))
      return fail(Code::kInvalidArgument,
                  "paths: " + paths[0] + " and " + path +
                      " lie in different places; give paths of one bucket or host, and "
                      "join sources by carya.mix");
  }
  place.client_ = options.stores;
  if (place.client_ == nullptr) {
    ASSIGN(place.client_, StoreClient::shared());
  }
  place.url_ = common_folder(paths);
  if (options.may_read) {
    TRY(options.may_read(place.url_));
    if (const auto out = std::ranges::find_if(paths, may_lead_out); out != paths.end())
      return fail(Code::kPermission,
                  escaped(*out) + ": a URL with a step to the folder above; give it without");
  }
  return place;
}

std::string SourcePlace::below(const std::string& file) const {
  return folder_ ? folder_->below(file) : below_folder(url_, file);
}

Status SourcePlace::for_each(std::uint64_t count, const ListingOptions& options, ListingProgress& progress,
                             const IndexTask& task) const {
  const unsigned threads = listing_threads(options.threads);
  if (!is_store()) return for_each_index(count, threads, progress, task);
  return for_each_index(count, options.threads == 0 ? std::max(threads, kStoreThreads) : threads, progress,
                        task, Caller::kWaits);
}

Result<SourceFile> SourcePlace::look_up(const std::string& url, ListingProgress& progress) const {
  ASSIGN(const StoreObject object, client_->look_up(url, goes_on(progress)));
  return file_of(object, *client_);
}

Result<SourceFile> SourcePlace::open_file(const std::string& file, std::string_view wanted,
                                          ListingProgress& progress) const {
  if (is_store()) {
    ASSIGN(StoreObject object, client_->look_up(file, goes_on(progress)));
    SourceFile found = file_of(object, *client_);
    auto blocks = std::make_shared<ObjectBlocks>(client_, std::move(object), progress);
    found.read = [blocks](std::uint64_t offset, std::span<std::byte> out) {
      return blocks->read(offset, out);
    };
    return found;
  }
  ASSIGN(UniqueFd opened, folder_->open_file(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (::fstat(opened.get(), &status) != 0) return fail_errno(file, errno);
  if (!S_ISREG(status.st_mode))
    return fail(Code::kInvalidArgument, file + ": no regular file; give " + std::string(wanted));
  SourceFile found;
  found.stamp = stamp_of(status);
  found.settled = settled(found.stamp);
  ASSIGN(found.identity, real_path(file));
  found.readers = readers_of(found.identity);
  auto fd = std::make_shared<const UniqueFd>(std::move(opened));
  found.read = [fd, read = reads_of(fd->get(), file)](std::uint64_t offset, std::span<std::byte> out) {
    return read(offset, out);
  };
  return found;
}

}  // namespace carya::io
