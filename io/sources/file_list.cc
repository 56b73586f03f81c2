// list_files: the files named, in the order given.
#include <fcntl.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>

#include "base/unique_fd.h"
#include "io/files/listing.h"
#include "io/files/open_failure.h"
#include "io/files/source_folder.h"
#include "io/manifest/manifest.h"
#include "io/manifest/manifest_builder.h"
#include "io/manifest/manifest_image.h"
#include "io/sources/source_file.h"

namespace carya::io {
namespace {

constexpr std::uint64_t kFilesPerTask = 1024;  // files per task

std::unexpected<Error> no_file(const std::string& path, const struct stat& status) {
  if (S_ISDIR(status.st_mode))
    return fail(Code::kInvalidArgument,
                path + ": a folder, and no file; give the files in it, or carya.image_folder(...)");
  return fail(Code::kInvalidArgument, path + ": no regular file; leave it out of the list");
}

/// Of objects in a store, with their versions.
Result<std::vector<SourceFile>> look_up_all(const std::vector<std::string>& urls, const SourcePlace& place,
                                            const ListingOptions& options) {
  ListingProgress progress(options.progress);
  std::vector<SourceFile> files(urls.size());
  TRY(place.for_each(urls.size(), options, progress, [&](std::uint64_t i) -> Status {
    ASSIGN(files[i], place.look_up(urls[i], progress));
    progress.add(1);
    return {};
  }));
  return files;
}

Result<std::shared_ptr<const Manifest>> list_objects(const std::vector<std::string>& urls,
                                                     const std::vector<std::int64_t>& labels,
                                                     const ListingOptions& options) {
  ASSIGN(const SourcePlace place, SourcePlace::open(urls, options));
  ASSIGN(const auto files, look_up_all(urls, place, options));
  ManifestBuilder builder;
  builder.root = place.path();
  builder.pins = true;
  for (std::size_t i = 0; i < urls.size(); ++i) {
    const std::string name = place.below(urls[i]);
    builder.add_source(files[i].pin, files[i].stamp);
    builder.add({.name = name, .bytes = files[i].stamp.bytes, .label = labels.empty() ? -1 : labels[i]});
  }
  return std::shared_ptr<const Manifest>(ManifestImage::from(builder.build()));
}

Result<std::vector<SourceStamp>> stamps_of(const std::vector<std::string>& paths, const SourceFolder& folder,
                                           const ListingOptions& options) {
  ListingProgress progress(options.progress);
  std::vector<SourceStamp> stamps(paths.size());
  const std::uint64_t blocks = (paths.size() + kFilesPerTask - 1) / kFilesPerTask;
  TRY(for_each_index(blocks, listing_threads(options.threads), progress, [&](std::uint64_t block) -> Status {
    const std::uint64_t end = std::min<std::uint64_t>(paths.size(), (block + 1) * kFilesPerTask);
    for (std::uint64_t i = block * kFilesPerTask; i < end; ++i) {
      struct stat status;
      if (options.may_read) {
        ASSIGN(const UniqueFd file, folder.open_file(paths[i], O_PATH | O_CLOEXEC));
        if (::fstat(file.get(), &status) != 0) return fail_errno(paths[i], errno);
      } else if (::stat(paths[i].c_str(), &status) != 0) {
        return fail_open(paths[i], errno);
      }
      if (!S_ISREG(status.st_mode)) return no_file(paths[i], status);
      stamps[i] = stamp_of(status);
    }
    progress.add(end - block * kFilesPerTask);
    return {};
  }));
  return stamps;
}

}  // namespace

Result<std::shared_ptr<const Manifest>> list_files(const std::vector<std::string>& paths,
                                                   const std::vector<std::int64_t>& labels,
                                                   const ListingOptions& options) {
  if (!labels.empty() && labels.size() != paths.size()) {
    return fail(
        Code::kInvalidArgument,
        fmt::format("files: labels: got {}; give one for each of the {} paths", labels.size(), paths.size()));
  }
  for (const std::string& path : paths) {
    if (path.find('\0') != std::string::npos)
      return fail(Code::kInvalidArgument, path + ": a path with a NUL; give it without");
  }
  if (std::ranges::any_of(paths, has_scheme)) return list_objects(paths, labels, options);
  ASSIGN(const SourceFolder folder, SourceFolder::open(paths, options));
  ASSIGN(const auto stamps, stamps_of(paths, folder, options));
  ManifestBuilder builder;
  builder.root = folder.path();
  builder.keep_times = true;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string name = folder.below(paths[i]);
    builder.add({.name = name,
                 .bytes = stamps[i].bytes,
                 .label = labels.empty() ? -1 : labels[i],
                 .mtime_ns = stamps[i].mtime_ns});
  }
  return std::shared_ptr<const Manifest>(ManifestImage::from(builder.build()));
}

}  // namespace carya::io
