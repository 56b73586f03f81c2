// list_image_folder: a walk the first time, afterwards the manifest of the last walk if no directory has
// changed.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/unique_fd.h"
#include "io/files/manifest_file.h"
#include "io/manifest/manifest.h"
#include "io/manifest/manifest_builder.h"
#include "io/sources/folder_walk.h"

namespace carya::io {
namespace {

constexpr std::uint64_t kVerifyBlock = 4096;  // files per task

/// Whether every directory (and with `verify` every file) is as the manifest says.
Result<bool> still_holds(const ManifestImage& manifest, const ListingOptions& options,
                         ListingProgress& progress) {
  const UniqueFd root(::open(manifest.root().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root || manifest.source_paths().empty()) return false;
  for (std::size_t i = 0; i < manifest.source_paths().size(); ++i) {
    const auto stamp = stamp_of(root.get(), manifest.source_paths()[i].c_str());
    if (!stamp || *stamp != manifest.source_stamps()[i]) return false;
  }
  if (!options.verify) return true;
  if (!manifest.has_times()) return false;
  std::atomic<bool> same = true;
  const std::uint64_t blocks = (manifest.count() + kVerifyBlock - 1) / kVerifyBlock;
  TRY(for_each_index(blocks, listing_threads(options.threads), progress, [&](std::uint64_t block) -> Status {
    const std::uint64_t end = std::min(manifest.count(), (block + 1) * kVerifyBlock);
    for (std::uint64_t i = block * kVerifyBlock; i < end && same.load(std::memory_order_relaxed); ++i) {
      const auto stamp = stamp_of(root.get(), manifest.path_c_str(i));
      if (!stamp || stamp->bytes != manifest.record(i).bytes || stamp->mtime_ns != manifest.mtime_ns(i))
        same = false;
    }
    progress.add(kVerifyBlock);
    return {};
  }));
  return same.load();
}

void fill_report(const ManifestImage& manifest, bool from_cache, ListingReport* report) {
  if (report == nullptr) return;
  report->skipped_count = manifest.skipped_count();
  report->skipped_examples = manifest.skipped_examples();
  report->from_cache = from_cache;
}

std::unexpected<Error> empty_class(const std::string& root, std::string_view name) {
  return fail(Code::kNotFound, root + "/" + std::string(name) +
                                   ": the class has no image file (.jpg .jpeg .png); "
                                   "remove the folder, or put images into it");
}

/// Classes in order and the records of each; every class must have one.
Status add_records(const std::vector<WalkedDirectory>& directories, ManifestBuilder* builder) {
  std::string_view current;
  std::uint64_t before = 0;
  std::string path;
  for (const WalkedDirectory& directory : directories) {
    if (directory.path.empty()) continue;
    if (builder->class_names.empty() || directory.class_name() != current) {
      if (!builder->class_names.empty() && builder->count() == before)
        return empty_class(builder->root, current);
      current = directory.class_name();
      before = builder->count();
      builder->class_names.emplace_back(current);
    }
    const auto label = static_cast<std::int64_t>(builder->class_names.size()) - 1;
    path = directory.path + "/";
    const std::size_t prefix = path.size();
    for (const WalkedDirectory::File& file : directory.files) {
      path.resize(prefix);
      path += directory.name(file);
      if (file.bytes >= kRecordBytesMax)
        return fail(Code::kCorrupt, path + ": impossible size; list it anew: pipeline.open(verify=True)");
      builder->add({.name = path, .bytes = file.bytes, .label = label, .mtime_ns = file.mtime_ns});
    }
  }
  if (builder->class_names.empty()) {
    return fail(Code::kNotFound,
                builder->root +
                    ": no class folder; give a folder that holds one folder per class, or single files "
                    "to carya.files([...])");
  }
  if (builder->count() == before) return empty_class(builder->root, current);
  return {};
}

/// Who may list all of the directories.
Readers readers_of_names(const std::string& root, const std::vector<WalkedDirectory>& directories) {
  Readers all = Readers::everybody();
  for (const WalkedDirectory& directory : directories)
    all = both(all, readers_of(root + "/" + directory.path));
  return all;
}

}  // namespace

Result<std::shared_ptr<const Manifest>> list_image_folder(const std::string& path,
                                                          const ListingOptions& options,
                                                          ListingReport* report) {
  ASSIGN(const std::string root, real_path(path));
  if (options.may_read) TRY(options.may_read(root));
  ListingProgress progress(options.progress);
  const std::string cached =
      options.cache_dir.empty() ? "" : manifest_path(options.cache_dir, "photo-folder", root);
  if (!cached.empty()) {
    // A manifest that is missing, unreadable or wrong is as good as none: the walk replaces it.
    if (const auto loaded = load_manifest(cached); loaded && (*loaded)->root() == root) {
      ASSIGN(const bool holds, still_holds(**loaded, options, progress));
      if (holds) {
        fill_report(**loaded, true, report);
        return std::shared_ptr<const Manifest>(*loaded);
      }
    }
  }
  ASSIGN(const auto directories,
         walk_folder(root, listing_threads(options.threads), progress, static_cast<bool>(options.may_read)));
  ManifestBuilder builder;
  builder.root = root;
  builder.keep_times = true;
  std::uint64_t files = 0, names = 0;
  bool all_settled = true;
  for (const WalkedDirectory& directory : directories) {
    files += directory.files.size();
    names += directory.names.size() + directory.files.size() * (directory.path.size() + 1);
    all_settled = all_settled && settled(directory.stamp);
    builder.add_source(directory.path, directory.stamp);
    builder.skipped_count += directory.skipped_count;
    for (const std::string& example : directory.skipped_examples) {
      if (builder.skipped_examples.size() < kSkippedExamplesMax) builder.skipped_examples.push_back(example);
    }
  }
  builder.reserve(files, names);
  TRY(add_records(directories, &builder));
  const auto manifest = ManifestImage::from(builder.build());
  // A cache that cannot be written costs the next start a walk, nothing else.
  if (!cached.empty() && all_settled)
    static_cast<void>(store_manifest(cached, manifest->bytes(), readers_of_names(root, directories)));
  fill_report(*manifest, false, report);
  return std::shared_ptr<const Manifest>(manifest);
}

}  // namespace carya::io
