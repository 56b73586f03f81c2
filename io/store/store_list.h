#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "io/store/record_store.h"

namespace carya::io {

/// One store file in a folder.
struct StoreInfo {
  std::string path;
  StoreIdentity identity;        ///< what its header says; meaningless when !header_valid
  std::uint64_t file_bytes = 0;  ///< length
  std::uint64_t disk_bytes = 0;  ///< blocks in use
  bool header_valid = false;     ///< false: opening it would replace it
};

/// "<folder>/<kind name>-<dataset fingerprint>.store", the place of a store in a cache folder.
std::string store_path(const std::string& folder, const StoreIdentity& identity);

/// Name of a kind: "index", or "kind<number>" for one this version does not know.
std::string store_kind_name(std::uint32_t kind);

/// The stores directly inside `folder`, by path; files that do not begin with a store's magic are left out.
/// Errors: kNotFound, kPermission, kIo (the folder itself).
Result<std::vector<StoreInfo>> list_stores(const std::string& folder);

/// Read and check a whole store file without opening it as a store.
/// Errors: kNotFound, kPermission, kIo; kCorrupt (not a store, or a broken header).
Result<StoreCheck> verify_store(const std::string& path);

/// Delete a store file. Refuses (kInvalidArgument) a file that does not begin with a store's magic.
/// Processes that have it open keep what they know and begin a new file at their next flush.
Status remove_store(const std::string& path);

}  // namespace carya::io
