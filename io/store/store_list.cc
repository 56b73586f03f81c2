#include "io/store/store_list.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "io/store/store_check.h"
#include "io/store/store_file.h"

namespace carya::io {
namespace {

/// Nothing when it is no store, or cannot be read.
std::optional<StoreInfo> look_at(const std::string& path) {
  Result<StoreFile> file = open_for_look(path);
  if (!file || !has_store_magic(file->header)) return std::nullopt;
  struct stat status;
  if (::fstat(file->fd.get(), &status) != 0) return std::nullopt;
  return StoreInfo{.path = path,
                   .identity = identity_of(file->header),
                   .file_bytes = static_cast<std::uint64_t>(status.st_size),
                   .disk_bytes = static_cast<std::uint64_t>(status.st_blocks) * 512,
                   .header_valid = store_header_valid(file->header)};
}

}  // namespace

std::string store_kind_name(std::uint32_t kind) {
  return kind == kDecodeIndexStore ? "index" : fmt::format("kind{}", kind);
}

std::string store_path(const std::string& folder, const StoreIdentity& identity) {
  return folder + "/" + store_kind_name(identity.kind) + "-" + identity.dataset.hex() + ".store";
}

Result<std::vector<StoreInfo>> list_stores(const std::string& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  std::vector<StoreInfo> stores;
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    if (auto store = look_at(entries->path().string())) stores.push_back(std::move(*store));
  }
  if (error) return fail_errno("list " + folder, error.value());
  std::sort(stores.begin(), stores.end(),
            [](const StoreInfo& a, const StoreInfo& b) { return a.path < b.path; });
  return stores;
}

Result<StoreCheck> verify_store(const std::string& path) {
  ASSIGN(const StoreFile file, open_for_look(path));
  if (!store_header_valid(file.header)) {
    return fail(Code::kCorrupt, "store " + path + ": not a store, or a broken header");
  }
  return check_store_file(file);
}

Status remove_store(const std::string& path) {
  ASSIGN(const StoreFile file, open_for_look(path));
  if (!has_store_magic(file.header)) return fail(Code::kInvalidArgument, "remove " + path + ": not a store");
  if (::unlink(path.c_str()) != 0) return fail_errno("remove " + path, errno);
  return {};
}

}  // namespace carya::io
