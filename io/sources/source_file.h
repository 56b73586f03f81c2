#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/files/listing.h"
#include "io/files/source_folder.h"
#include "io/http/store_client.h"
#include "io/index/file_window.h"
#include "io/manifest/manifest.h"
#include "io/rights/readers.h"

namespace carya::io {

/// A file on this machine, or an object in a store, as a listing reads it.
struct SourceFile {
  /// Of an object its size, and as mtime_ns a hash of its version: an index that is kept with them is made anew when
  /// the object is another.
  SourceStamp stamp;
  std::string pin;       ///< of an object: its version (Answer::pin()); of a file ""
  std::string identity;  ///< the real path, or the URL: what a kept index is called by
  Readers readers{};     ///< who else may read it: readers_of(), or StoreAccess::asks_as_anybody()
  bool settled = true;   ///< whether a change from now on would show in the stamp
  /// Owns what it reads from. Of an object: near reads are read ahead in growing blocks, as long as the progress goes on,
  /// which outlives it.
  FileWindow::ReadAt read;
};

/// The place that the files of one source have in common: a folder, or a bucket or host. Threads: const is thread-safe.
class SourcePlace {
 public:
  /// Errors: those of SourceFolder::open() and StoreClient; kInvalidArgument (files and URLs, or several buckets or
  /// hosts, in one source), kUnsupported (URLs where the options allow none).
  static Result<SourcePlace> open(const std::vector<std::string>& paths, const ListingOptions& options);

  /// That the manifest's paths are relative to.
  const std::string& path() const { return folder_ ? folder_->path() : url_; }
  /// One of the files, as seen from there.
  std::string below(const std::string& file) const;
  bool is_store() const { return !folder_; }
  /// for_each_index() over its files: a store is waited for, by more threads than there are cores.
  Status for_each(std::uint64_t count, const ListingOptions& options, ListingProgress& progress,
                  const IndexTask& task) const;

  /// `wanted`: what to give in place of a folder or pipe ("tars"). Errors: as open(2); those of StoreClient::look_up();
  /// kPermission (outside), kInvalidArgument (no regular file), kClosed (the progress was stopped while a store was
  /// waited for).
  Result<SourceFile> open_file(const std::string& file, std::string_view wanted,
                               ListingProgress& progress) const;
  /// The same without reading: `read` is empty. Of stores only.
  Result<SourceFile> look_up(const std::string& url, ListingProgress& progress) const;

 private:
  std::optional<SourceFolder> folder_;  // nothing: a store
  std::string url_;
  std::shared_ptr<StoreClient> client_;
};

}  // namespace carya::io
