#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/files/marked_files.h"
#include "io/manifest/manifest.h"

namespace carya::io {

/// Records whose places in files somebody else found, as a reader of a format in Python. The views are read during
/// list_ranges() only.
struct FoundRanges {
  std::string kind;                 ///< the format, for messages
  std::vector<std::string> paths;   ///< files on this machine, or objects by their URLs
  std::vector<FileMark> marks;      ///< one for each path; of an object only its size counts
  std::vector<std::string> pins{};  ///< of objects the versions in which they were found; of files none
  std::size_t fields = 1;           ///< of each record
  std::uint64_t count = 0;
  /// For each field of each record the number of its file, where it begins and how many bytes it has. None: a broken
  /// record, as everywhere.
  std::span<const std::uint64_t> places;
  /// For each record its name in rows of so many bytes, zeros behind it: what a person finds it by.
  std::span<const char> names;
  std::size_t name_bytes = 0;
  std::span<const std::int64_t> labels;  ///< one for each record, or none
};

struct RangeSource {
  std::vector<std::shared_ptr<const Manifest>> manifests;  ///< one for each field
  std::shared_ptr<const MarkedFiles> files;                ///< by the manifests' containers; null: objects
};

/// Manifests of such records. All is hostile until it is checked.
///
/// Errors: kInvalidArgument (numbers of files that there are not, ranges that end behind their file, records without a
///         name, sizes that do not fit together), kIo (a file is not the one in which they were found), those of opening
///         a file, kPermission; of objects those of SourcePlace.
/// Cost:   a descriptor for each file as long as the source is used; of objects a request for each.
Result<RangeSource> list_ranges(const FoundRanges& found, const ListingOptions& options);

}  // namespace carya::io
