#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/index/file_window.h"
#include "io/sources/tar_scanner.h"

namespace carya::io {

/// Whether a file begins as zips do.
bool begins_as_zip(FileWindow& file);

/// The files in a zip, in the order of its directory, which may be zip64's. Each is stored as it is; folders are
/// passed over.
///
/// Errors:  kCorrupt (cut off, numbers that lie outside of the file, members that overlap or are called otherwise
///          in their own header, names that are empty or hold a NUL), kUnsupported (compressed or encrypted
///          members, several disks: the message says what to do), and those of the window.
/// Cost:    the directory, and one read per member: only its own header says where its bytes begin.
/// Source:  PKWARE APPNOTE.TXT 6.3.10
Result<std::vector<TarMember>> zip_members(const std::string& subject, FileWindow& file);

}  // namespace carya::io
