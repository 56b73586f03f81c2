#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "io/manifest/manifest_layout.h"

namespace carya::io {

/// Collects records in order and lays them out as io/FORMAT.md says. The same bytes serve in memory and on
/// disk. Threads: owner only.
class ManifestBuilder {
 public:
  struct Record {
    std::string_view name;  ///< path relative to the root, or the member's name; not empty, without NUL
    std::uint64_t bytes = 0;
    std::int64_t label = -1;
    std::int64_t mtime_ns = 0;
    std::uint64_t offset = 0;
    std::uint32_t container = 0;
  };

  void reserve(std::uint64_t records, std::uint64_t names_bytes);
  void add(const Record& record);
  void add_source(std::string path, const SourceStamp& stamp);

  std::string root;
  std::vector<std::string> class_names;
  std::vector<std::string> containers;  ///< records are members when there is one
  std::vector<std::string> skipped_examples;
  std::uint64_t skipped_count = 0;
  bool keep_times = false;  ///< store each record's mtime
  /// The sources are objects of a store, one for each container or record: their paths are the versions.
  bool pins = false;

  std::uint64_t count() const { return bytes_.size(); }
  /// The finished image. The builder is empty afterwards.
  std::vector<std::byte> build();

 private:
  Hash128 fingerprint() const;

  std::string names_;
  std::vector<std::uint64_t> name_at_{0};
  std::vector<std::uint64_t> bytes_;
  std::vector<std::int64_t> label_;
  std::vector<std::int64_t> mtime_;
  std::vector<std::uint64_t> offset_;
  std::vector<std::uint32_t> container_;
  std::vector<SourceStamp> stamps_;
  std::vector<std::string> source_paths_;
  bool any_label_ = false;
};

/// Writes the two hashes into an image whose other bytes are final. `image` holds at least a header.
void seal_manifest(std::span<std::byte> image);

}  // namespace carya::io
