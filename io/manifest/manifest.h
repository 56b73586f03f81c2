#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "io/manifest/manifest_layout.h"

namespace carya::io {

/// Label of a tar's record whose label member does not hold one decimal integer; in the index of a tar, of
/// any member that does not.
inline constexpr std::int64_t kNoNumber = INT64_MIN;

/// What tells one state of a file from another.
struct FileVersion {
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const FileVersion&) const = default;
};

/// Where the bytes of one record are.
struct RecordAddress {
  std::string_view path;    ///< relative to the manifest's root; the tar's path for a member
  std::string_view member;  ///< member name inside a container, else empty
  std::uint32_t container;  ///< index into containers() for a member, else UINT32_MAX
  std::uint64_t offset;     ///< of the payload inside the container, else 0
  std::uint64_t bytes;
  std::int64_t label;  ///< -1 when there is none, kNoNumber when what should hold it does not
};

/// The list of records 0..N-1 of a dataset with sizes, offsets and labels. Immutable; read from disk or
/// built in memory. Threads: const is thread-safe. Layout on disk: io/FORMAT.md; whatever is read from disk
/// is checked first.
class Manifest {
 public:
  virtual ~Manifest() = default;
  virtual std::uint64_t count() const = 0;
  virtual RecordAddress record(
      std::uint64_t index) const = 0;  ///< CHECKs index < count(); O(1), no allocation
  /// NUL-terminated path of record(index) relative to root(), or of the container.
  virtual const char* path_c_str(std::uint64_t index) const = 0;
  virtual const std::string& root()
      const = 0;  ///< directory that paths are relative to; "" for the working directory
  virtual const std::vector<std::string>& containers()
      const = 0;  ///< tar paths relative to root(); empty for plain files
  /// The containers as they were listed, one each; empty when that was not kept.
  virtual std::span<const SourceStamp> container_stamps() const = 0;
  /// The file of record(index), or its container, as it was listed; nothing when that was not kept.
  virtual std::optional<FileVersion> file_version(std::uint64_t index) const = 0;
  virtual const std::vector<std::string>& class_names()
      const = 0;  ///< index = label; empty when labels have no names
  virtual Hash128 fingerprint()
      const = 0;  ///< relative path bytes, sizes, offsets, labels (DESIGN section 4)
};

/// Called now and then during long listings with how many entries were seen; from one thread at a time.
/// Returning false stops the listing with kClosed (Ctrl-C).
using Progress = std::function<bool(std::uint64_t seen)>;

struct ListingOptions {
  std::string cache_dir;      ///< where manifests and tar indexes are kept; "" keeps none
  std::uint32_t threads = 0;  ///< 0: the allowed cores
  bool verify = false;        ///< check every file's size and time, not only the directories' times
  Progress progress;          ///< may be empty
  /// Asked for the real path of the folder that all of a source lies in, before anything is looked at there.
  /// Where it is set, links that lead out of that folder are errors. Empty: everything may be read.
  std::function<Status(const std::string& folder)> may_read{};
};

/// What a listing left out, to be named to the user: how many, and some examples.
struct ListingReport {
  /// Of a folder: files with other extensions. Of tars: those without an end mark, whose last members may be
  /// missing.
  std::uint64_t skipped_count = 0;
  std::vector<std::string> skipped_examples;  ///< at most 8 of their paths
  bool from_cache = false;
};

/// One folder per class under `path`; label = index of the sorted class names; torchvision's order of records
/// (class, folder inside the class, file name, each bytewise). Symbolic links are followed (loops are an
/// error that names the link). Files with other extensions are skipped and reported. Errors: kNotFound (no
/// such folder, no class folder, a class without a file: named), kPermission.
Result<std::shared_ptr<const Manifest>> list_image_folder(const std::string& path,
                                                          const ListingOptions& options,
                                                          ListingReport* report);

/// The files named, in the order given; labels empty or one per path. Paths absolute or relative to the
/// working directory; sizes are read in parallel. Errors: kNotFound names the first missing path.
Result<std::shared_ptr<const Manifest>> list_files(const std::vector<std::string>& paths,
                                                   const std::vector<std::int64_t>& labels,
                                                   const ListingOptions& options);

/// One record per key of the tars (WebDataset: members "key.ext" side by side share a key; key = path up to
/// the first dot of the base name). For each wanted field the first extension of its list that the key has; a
/// key without all fields is an error that names tar and key. `label_extensions` are members holding a
/// decimal integer that becomes the label (may be empty); where one does not, the label is kNoNumber. Result:
/// one manifest per field, the same count and order, labels in each. Indexes are kept in cache_dir (or beside
/// the tars when writable and cache_dir is empty), verified by size and mtime, rebuilt when wrong.
struct TarField {
  std::vector<std::string> extensions;  ///< without the leading dot, lower case: {"jpg", "jpeg", "png"}
};
Result<std::vector<std::shared_ptr<const Manifest>>> list_webdataset(
    const std::vector<std::string>& tars, const std::vector<TarField>& fields,
    const std::vector<std::string>& label_extensions, const ListingOptions& options,
    ListingReport* report = nullptr);

}  // namespace carya::io
