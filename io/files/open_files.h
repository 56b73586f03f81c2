#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "io/manifest/manifest_layout.h"

namespace carya::io {

/// A container file that ranges are read from.
struct OpenFile {
  UniqueFd buffered;
  UniqueFd direct;                 ///< with O_DIRECT where wanted and possible, else empty
  std::uint64_t direct_align = 0;  ///< of offsets for `direct`; 0 without
  SourceStamp stamp{};             ///< of when it was opened

  /// The descriptor to read `offset` with.
  bool use_direct(std::uint64_t offset) const { return direct_align != 0 && offset % direct_align == 0; }
};

/// The root directories and container files of one engine, by handle. Handles of removed ones are used again.
/// Threads: owner only.
class OpenFiles {
 public:
  OpenFiles(std::uint64_t resolve, bool direct) : resolve_(resolve), direct_(direct) {}

  Result<int> add_root(const std::string& directory);
  void remove_root(int root);
  Result<int> add_file(int root, const std::string& path);
  void remove_file(int file);

  /// Descriptor of a root (AT_FDCWD for the working directory); CHECKs the handle.
  int root_fd(int root) const;
  /// CHECKs that the handle is one of a file that was not removed.
  const OpenFile& file(int handle) const;
  /// What a file that was not removed is now.
  Result<SourceStamp> stamp_now(int handle) const;

 private:
  const std::uint64_t resolve_;
  const bool direct_;
  struct Root {
    bool open = false;
    UniqueFd fd;  // empty: the working directory
  };
  std::vector<Root> roots_;  // not open: free, its handle is in free_roots_
  std::vector<int> free_roots_;
  std::vector<OpenFile> files_;  // without a buffered descriptor: free, its handle is in free_
  std::vector<int> free_;
};

}  // namespace carya::io
