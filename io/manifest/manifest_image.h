#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/manifest/manifest.h"
#include "io/manifest/manifest_layout.h"

namespace carya::io {

/// A manifest over bytes laid out as io/FORMAT.md says: built in memory, or read from disk.
///
/// Threads: const is thread-safe.
/// Cost:    record(i) is O(1), a few cache lines; 32 to 56 bytes per record besides its name.
class ManifestImage final : public Manifest {
 public:
  /// Checks everything before anything is used: a manifest that lies is refused, never followed.
  /// `bytes` is 8-aligned; `owner` keeps it alive. Errors: kCorrupt, the message says what is wrong.
  static Result<std::shared_ptr<const ManifestImage>> open(std::span<const std::byte> bytes,
                                                           std::shared_ptr<const void> owner);
  /// The same for an image of ManifestBuilder.
  static std::shared_ptr<const ManifestImage> from(std::vector<std::byte> image);

  std::uint64_t count() const override { return bytes_.size(); }
  RecordAddress record(std::uint64_t index) const override;
  const char* path_c_str(std::uint64_t index) const override;
  const std::string& root() const override { return root_; }
  const std::vector<std::string>& containers() const override { return containers_; }
  std::span<const SourceStamp> container_stamps() const override;
  std::optional<FileVersion> file_version(std::uint64_t index) const override;
  const char* pin_c_str(std::uint64_t index) const override;
  std::uint64_t object_bytes(std::uint64_t index) const override;
  const std::vector<std::string>& class_names() const override { return class_names_; }
  Hash128 fingerprint() const override { return {header_.fingerprint_high, header_.fingerprint_low}; }

  std::span<const SourceStamp> source_stamps() const { return stamps_; }
  const std::vector<std::string>& source_paths() const { return source_paths_; }
  const std::vector<std::string>& skipped_examples() const { return skipped_examples_; }
  std::uint64_t skipped_count() const { return header_.skipped_count; }
  bool has_times() const { return !mtime_.empty() || count() == 0; }
  /// CHECKs index < count() and has_times().
  std::int64_t mtime_ns(std::uint64_t index) const;
  /// All of it, to be stored.
  std::span<const std::byte> bytes() const { return image_; }

 private:
  ManifestImage() = default;
  Status check_header();
  Status check_records() const;
  Status take_strings();
  std::string_view name(std::uint64_t index) const;

  // Valid after open(): name_at_ rises strictly from 0 to the end of names_, each name ends with the only NUL
  // in it, containers and labels are in range.
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> image_;
  ManifestHeader header_{};
  ManifestSections sections_{};
  std::span<const std::uint64_t> name_at_;
  std::span<const std::uint64_t> bytes_;
  std::span<const std::int64_t> label_;
  std::span<const std::int64_t> mtime_;
  std::span<const std::uint64_t> offset_;
  std::span<const std::uint32_t> container_;
  std::span<const SourceStamp> stamps_;
  const char* names_ = nullptr;
  bool has_pins_ = false;
  std::string root_;
  std::vector<std::string> class_names_;
  std::vector<std::string> containers_;
  std::vector<std::string> source_paths_;
  std::vector<std::string> skipped_examples_;
};

}  // namespace carya::io
