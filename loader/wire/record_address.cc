#include "loader/wire/record_address.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "io/files/record_file.h"

namespace carya::loader {
namespace {

constexpr std::uint64_t kFilesLookedAt = 16;

}  // namespace

std::optional<RemoteAddress> record_address(const io::Manifest& manifest, std::uint64_t index) {
  if (manifest.pin_c_str(index) != nullptr) return std::nullopt;  // workers have no credentials
  const std::optional<io::FileVersion> version = manifest.file_version(index);
  std::error_code failed;
  std::string path = io::record_path(manifest, index);
  if (!path.starts_with('/')) path = std::filesystem::current_path(failed).string() + "/" + path;
  if (!version || failed) return std::nullopt;
  const io::RecordAddress record = manifest.record(index);
  return RemoteAddress{.file = {std::move(path), version->bytes, version->mtime_ns},
                       .offset = record.offset,
                       .bytes = record.bytes};
}

std::vector<RemoteFile> source_files(const Dataset& dataset) {
  std::vector<RemoteFile> files;
  const io::MarkedFiles* const marked = dataset.marked_files();
  if (marked != nullptr && marked->has_marks()) return files;  // workers compare size and time alone
  for (const Dataset::Field& field : dataset.fields()) {
    if (field.kind != transforms::SourceField::Kind::kEncoded) continue;
    const std::uint64_t count = field.manifest->count();
    const std::uint64_t looked = std::min(count, kFilesLookedAt);
    for (std::uint64_t i = 0; i < looked; ++i) {
      auto address = record_address(*field.manifest, i * count / looked);
      if (!address) return {};
      if (files.empty() || files.back() != address->file) files.push_back(std::move(address->file));
    }
  }
  return files;
}

}  // namespace carya::loader
