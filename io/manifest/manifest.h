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

/// The label of a tar's record whose label member is not one decimal integer. In the index of a tar, every member that
/// is not one has it.
inline constexpr std::int64_t kNoNumber = INT64_MIN;

/// The place of one record's bytes.
struct RecordAddress {
  std::string_view path;    ///< path relative to the manifest's root; of a member, the path of its tar
  std::string_view member;  ///< the member's name inside a container; else empty
  std::uint32_t container;  ///< the member's index into containers(); else UINT32_MAX
  std::uint64_t offset;     ///< offset of the member's payload inside the container; else 0
  std::uint64_t bytes;
  std::int64_t label;  ///< -1: there is none; kNoNumber: the label is not a number
};

/// The list of records 0..N-1 of a dataset, with sizes, offsets and labels. Immutable. It is read from disk
/// (io/FORMAT.md) and checked, or built in memory. Threads: const is thread-safe.
class Manifest {
 public:
  virtual ~Manifest() = default;
  virtual std::uint64_t count() const = 0;
  virtual RecordAddress record(
      std::uint64_t index) const = 0;  ///< CHECKs index < count(); O(1), no allocation
  /// The NUL-terminated path, relative to root(), of record(index) or of its container.
  virtual const char* path_c_str(std::uint64_t index) const = 0;
  virtual const std::string& root()
      const = 0;  ///< the directory that paths are relative to; "": the working directory
  virtual const std::vector<std::string>& containers()
      const = 0;  ///< tar paths relative to root(); empty for plain files
  /// The stamps of the containers when they were listed; empty if they were not kept.
  virtual std::span<const SourceStamp> container_stamps() const = 0;
  /// The version of record(index)'s file or container when it was listed; empty if it was not kept.
  virtual std::optional<FileVersion> file_version(std::uint64_t index) const = 0;
  /// Of an object in a store, the version of record(index)'s object or container when it was listed, NUL-terminated;
  /// null for files.
  virtual const char* pin_c_str(std::uint64_t index) const = 0;
  /// The bytes of that object or container when it was listed. CHECKs that there is a pin.
  virtual std::uint64_t object_bytes(std::uint64_t index) const = 0;
  virtual const std::vector<std::string>& class_names()
      const = 0;  ///< a label is an index into it; empty if labels have no names
  virtual Hash128 fingerprint()
      const = 0;  ///< covers the bytes of relative paths, sizes, offsets, labels (DESIGN section 4)
};

/// A listing calls it now and then with the number of entries that were seen, from one thread at a time. False stops
/// the listing with kClosed (Ctrl-C).
using Progress = std::function<bool(std::uint64_t seen)>;

class StoreClient;

struct ListingOptions {
  std::string cache_dir;      ///< the folder of kept manifests and tar indexes; "": none are kept
  std::uint32_t threads = 0;  ///< 0: the allowed cores
  bool verify = false;        ///< check every file's size and time, not only the directories' times
  Progress progress;          ///< may be empty
  /// Allows or refuses the folder that contains all of a source, by its real path, before anything there is looked at.
  /// If it is set, links that lead out of that folder are errors. Empty: everything may be read.
  std::function<Status(const std::string& folder)> may_read{};
  /// Asks the stores of URLs; null: this process's own, by its environment.
  std::shared_ptr<StoreClient> stores{};
};

/// The files that a listing left out, for the user.
struct ListingReport {
  /// The number of files with other extensions in a folder, or of tars without an end mark, whose last members may be
  /// missing.
  std::uint64_t skipped_count = 0;
  std::vector<std::string> skipped_examples;  ///< at most 8 of their paths
  bool from_cache = false;
};

/// List a folder of one folder per class. The label is the index among the sorted class names; records have
/// torchvision's order (class, folder inside the class, file name, each bytewise). Symbolic links are followed; a loop
/// is an error that names the link. Files with other extensions are skipped and reported. Errors: kNotFound (no such
/// folder, no class folder, or a class without a file, which is named), kPermission.
Result<std::shared_ptr<const Manifest>> list_image_folder(const std::string& path,
                                                          const ListingOptions& options,
                                                          ListingReport* report);

/// List the named files in the given order. `labels` is empty or has one label per path. Paths are absolute or relative
/// to the working directory; sizes are read in parallel. Errors: kNotFound, which names the first missing path.
Result<std::shared_ptr<const Manifest>> list_files(const std::vector<std::string>& paths,
                                                   const std::vector<std::int64_t>& labels,
                                                   const ListingOptions& options);

/// List tars with one record per key (WebDataset: members "key.ext" side by side share a key, which is the path up to
/// the first dot of the base name).
///
/// A field is the member with the first extension of its list that the key has; a key without all fields is an error
/// that names tar and key. `label_extensions`, which may be empty, are members with a decimal integer that becomes the
/// label; a member without one gives kNoNumber. The result has one manifest per field, with the same count, order and
/// labels. Indexes are kept in cache_dir, or beside the tars if cache_dir is empty and the folder is writable. Size and
/// mtime verify them; a wrong index is rebuilt.
struct TarField {
  std::vector<std::string> extensions;  ///< without the leading dot, lower case: {"jpg", "jpeg", "png"}
};
Result<std::vector<std::shared_ptr<const Manifest>>> list_webdataset(
    const std::vector<std::string>& tars, const std::vector<TarField>& fields,
    const std::vector<std::string>& label_extensions, const ListingOptions& options,
    ListingReport* report = nullptr);

}  // namespace carya::io
