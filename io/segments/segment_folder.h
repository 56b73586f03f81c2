#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/hash.h"

namespace carya::io {

/// One place in the folder of a tier, as `carya cache` shows it.
struct PlaceInfo {
  std::string path;            ///< its folder
  std::string about;           ///< the text of about.json; "" if there is none
  std::uint64_t segments = 0;  ///< files
  std::uint64_t bytes = 0;     ///< their lengths, with what is promised
  std::uint64_t disk_bytes = 0;
  std::map<std::uint32_t, std::uint64_t> user_bytes;  ///< of `bytes`, those of each user's files
  double used_s = 0;  ///< when it was last used, seconds since the epoch in the file system's time
};

/// What a walk over all bytes of a place found.
struct PlaceCheck {
  std::uint64_t bytes = 0;    ///< lengths of the files
  std::uint64_t entries = 0;  ///< whole ones
  std::uint64_t entry_bytes = 0;
  std::uint64_t damaged = 0;  ///< headers, rows and payloads whose hash is wrong
  std::uint64_t others = 0;   ///< segments that this user may not read: another one's
};

/// A file of a place.
struct SegmentName {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t disk_bytes = 0;
  std::uint32_t user = 0;  ///< whose it is, as the file system says
  double changed_s = 0;    ///< when it was last written, seconds since the epoch in the file system's time
};

/// Make the folder of a tier, unless it is there, for this user alone: what is kept there is data. Who wants to share it
/// with other users makes it for them. Errors: those of mkdir().
std::error_code make_tier_folder(const std::string& folder);
/// Make the folder of a place, unless it is there, and the tier's before it. It has the mode of the tier's: who may keep
/// samples in the one may in the other. Errors: those of mkdir().
std::error_code make_place_folder(const std::string& place);
/// "samples-<32 hex digits>", the name of a place's folder.
std::string place_name(Hash128 place);
/// The places inside `folder`, by path. A folder that is not there has none. Errors: kPermission, kIo.
Result<std::vector<PlaceInfo>> list_places(const std::string& folder);
/// The segments of a place, by name. Errors: the folder cannot be listed.
Result<std::vector<SegmentName>> list_segments(const std::string& place);
/// Asked before each file with the bytes of those before it; false ends the walk.
using VerifyProgress = std::function<bool(std::uint64_t bytes)>;
/// Read and check every byte of a place. What was ended by `go_on` says what it found so far. Errors: those of the
/// listing.
Result<PlaceCheck> verify_place(const std::string& place, const VerifyProgress& go_on = {});
/// Remove a place: its segments, then its folder. Running jobs go on without. Errors: kInvalidArgument (the folder has
/// another name than a place's); those of unlink().
Status remove_place(const std::string& place);

/// Write about.json, unless it is there. `own_only`: nobody but this user may read it. Errors: those of open(), write()
/// and rename().
Status write_about(const std::string& place, const std::string& text, bool own_only);
/// Set the time of about.json to the present. Returns that time as the file system has it, in seconds; 0 if it cannot.
double touch_about(const std::string& place);

}  // namespace carya::io
