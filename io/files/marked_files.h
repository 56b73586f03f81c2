#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "io/manifest/manifest_layout.h"

namespace carya::io {

/// What tells that a file is still the one in which records were found.
struct FileMark {
  FileVersion version;  ///< its size and time of change
  std::int64_t at =
      -1;  ///< where its mark lies: 8 bytes that every writer changes before it touches a record; -1: none
  std::uint64_t value = 0;  ///< what they are, little-endian
};

/// The files of a source, which stay open so that they can be compared with their marks behind each read.
///
/// A mark tells what a time of change does not: a writer through memory changes no time until its pages are written
/// back, and two changes within one tick show the same time. Reads that end before check() does are of the marked
/// version, since the writer would have changed the mark first.
///
/// Threads: const is thread-safe. Cost: one fstat, and one pread where there is a mark; a descriptor for each file.
class MarkedFiles {
 public:
  /// `kind` and `path` are for messages. Errors: those of check().
  Status add(UniqueFd file, std::string kind, std::string path, const FileMark& mark);
  /// Errors: kIo (it was written to, cut off, or cannot be read). CHECKs file < count().
  Status check(std::uint32_t file) const;
  std::size_t count() const { return files_.size(); }
  /// Whether some file has a mark beside its size and time, which nobody else compares.
  bool has_marks() const { return has_marks_; }
  /// The mark of a file, which names its version with size and time; 0 where there is none.
  std::uint64_t mark(std::uint32_t file) const { return files_[file].mark.value; }

 private:
  struct File {
    UniqueFd fd;
    std::string subject;
    FileMark mark;
  };
  std::vector<File> files_;
  bool has_marks_ = false;
};

}  // namespace carya::io
