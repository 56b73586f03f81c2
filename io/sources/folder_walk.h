#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/files/listing.h"

namespace carya::io {

/// One directory below the root, read.
struct WalkedDirectory {
  struct File {
    std::uint64_t name_at;  ///< in `names`
    std::uint64_t name_bytes;
    std::uint64_t bytes;
    std::int64_t mtime_ns;
  };
  std::string path;   ///< relative to the root; "" is the root itself
  SourceStamp stamp;  ///< from before it was read
  std::string names;
  std::vector<File> files;  ///< image files in bytewise order of their names; none for the root
  std::uint64_t skipped_count = 0;
  std::vector<std::string> skipped_examples;  ///< at most 8

  std::string_view name(const File& file) const {
    return std::string_view(names).substr(file.name_at, file.name_bytes);
  }
  /// First component of the path: the class.
  std::string_view class_name() const { return std::string_view(path).substr(0, path.find('/')); }
};

inline constexpr std::size_t kSkippedExamplesMax = 8;

/// Whether the name is that of an image which can be decoded (.jpg .jpeg .png, in any case).
bool is_image_name(std::string_view name);

/// Every directory below `root` (an absolute path), in parallel, links followed; the order of the result is
/// by class, then by path, bytewise.
///
/// `beneath`: `root` is a real path, and links that lead out of it are errors (kPermission).
/// Errors:  kNotFound (no such folder, a link to nothing that is named like an image), kPermission,
///          kInvalidArgument (a link that leads back to a folder above it: named), kClosed (progress said
///          stop).
/// Cost:    one stat per image file, by inode order within a directory; ~2 µs a file when warm.
Result<std::vector<WalkedDirectory>> walk_folder(const std::string& root, unsigned threads,
                                                 ListingProgress& progress, bool beneath = false);

}  // namespace carya::io
