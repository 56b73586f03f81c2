#include "io/sources/ranges.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/core.h>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "io/files/listing.h"
#include "io/files/source_folder.h"
#include "io/manifest/manifest_builder.h"
#include "io/manifest/manifest_image.h"
#include "io/sources/source_file.h"

namespace carya::io {
namespace {

constexpr std::size_t kNumbers = 3;  // of a field in `places`

/// A field of a record, as it was found.
struct Place {
  std::uint64_t file, offset, bytes;
};

Place place_of(const FoundRanges& found, std::uint64_t record, std::size_t field) {
  const auto numbers = found.places.subspan((record * found.fields + field) * kNumbers, kNumbers);
  return {numbers[0], numbers[1], numbers[2]};
}

std::string_view name_of(const FoundRanges& found, std::uint64_t record) {
  const char* const name = found.names.data() + record * found.name_bytes;
  return {name, ::strnlen(name, found.name_bytes)};
}

Status check_sizes(const FoundRanges& found) {
  const auto is = [&](std::size_t got, std::uint64_t row) {
    const auto wanted = checked_mul(found.count, row);
    return wanted && got == *wanted;
  };
  if (found.count > 0 && found.fields > 0 && !found.paths.empty() &&
      found.marks.size() == found.paths.size() &&
      (found.pins.empty() || found.pins.size() == found.paths.size()) &&
      is(found.places.size(), kNumbers * found.fields) && found.name_bytes > 0 &&
      is(found.names.size(), found.name_bytes) && (found.labels.empty() || is(found.labels.size(), 1)))
    return {};
  return fail(
      Code::kInvalidArgument,
      fmt::format("{}: {} records of {} fields in {} files: {} numbers, {} B of names, {} labels; give a "
                  "row for each record",
                  found.kind, found.count, found.fields, found.paths.size(), found.places.size(),
                  found.names.size(), found.labels.size()));
}

Status check_record(const FoundRanges& found, std::uint64_t record) {
  if (name_of(found, record).empty())
    return fail(Code::kInvalidArgument,
                fmt::format("{}: record {} has no name; give each one", found.kind, record));
  for (std::size_t f = 0; f < found.fields; ++f) {
    const auto [file, offset, bytes] = place_of(found, record, f);
    if (file >= found.paths.size())
      return fail(Code::kInvalidArgument, fmt::format("{}: record {}: file {}; give 0 to {}", found.kind,
                                                      record, file, found.paths.size() - 1));
    const std::uint64_t end = found.marks[file].version.bytes;
    if (bytes > end || offset > end - bytes)
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: record {}: {} B at {}, and {} has {} B; give ranges inside of their file",
                              found.kind, record, bytes, offset, found.paths[file], end));
  }
  return {};
}

/// The files as manifests have them.
struct Containers {
  std::string root;
  std::vector<std::string> below;
  std::vector<SourceStamp> stamps;
  std::shared_ptr<MarkedFiles> files{};  ///< null: objects
};

Result<Containers> containers_on_disk(const FoundRanges& found, const ListingOptions& options) {
  ASSIGN(const SourceFolder folder, SourceFolder::open(found.paths, options));
  Containers opened{.root = folder.path(), .files = std::make_shared<MarkedFiles>()};
  for (std::size_t i = 0; i < found.paths.size(); ++i) {
    ASSIGN(UniqueFd file, folder.open_file(found.paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status;
    if (::fstat(file.get(), &status) != 0) return fail_errno(found.paths[i], errno);
    if (!S_ISREG(status.st_mode))
      return fail(Code::kInvalidArgument,
                  found.paths[i] + ": no regular file; give " + found.kind + " files");
    opened.below.push_back(folder.below(found.paths[i]));
    opened.stamps.push_back(stamp_of(status));
    TRY(opened.files->add(std::move(file), found.kind, found.paths[i], found.marks[i]));
  }
  return opened;
}

/// Each is asked for once: its reads ask for the version in which the records were found.
Result<Containers> containers_in_store(const FoundRanges& found, const ListingOptions& options) {
  ASSIGN(const SourcePlace place, SourcePlace::open(found.paths, options));
  if (!place.is_store())
    return fail(Code::kInvalidArgument, found.kind + ": versions of objects beside paths; give URLs");
  Containers opened{.root = place.path(), .stamps = std::vector<SourceStamp>(found.paths.size())};
  for (const std::string& url : found.paths) opened.below.push_back(place.below(url));
  ListingProgress progress(options.progress);
  TRY(place.for_each(found.paths.size(), options, progress, [&](std::uint64_t i) -> Status {
    ASSIGN(const SourceFile file, place.look_up(found.paths[i], progress));
    if (file.pin != found.pins[i] || file.stamp.bytes != found.marks[i].version.bytes)
      return fail(Code::kIo, found.kind + ": " + found.paths[i] +
                                 ": it was written to since it was listed; make the pipeline anew");
    opened.stamps[i] = file.stamp;
    progress.add(1);
    return {};
  }));
  return opened;
}

}  // namespace

Result<RangeSource> list_ranges(const FoundRanges& found, const ListingOptions& options) {
  TRY(check_sizes(found));
  for (const std::string& path : found.paths)
    if (path.find('\0') != std::string::npos)
      return fail(Code::kInvalidArgument, found.kind + ": a path with a NUL; give it without");
  for (std::uint64_t i = 0; i < found.count; ++i) TRY(check_record(found, i));
  const bool in_store = !found.pins.empty();
  ASSIGN(const Containers opened,
         in_store ? containers_in_store(found, options) : containers_on_disk(found, options));
  RangeSource source{.manifests = {}, .files = opened.files};
  for (std::size_t f = 0; f < found.fields; ++f) {
    ManifestBuilder builder;
    builder.root = opened.root;
    builder.pins = in_store;
    builder.containers = opened.below;
    for (std::size_t i = 0; i < found.paths.size(); ++i)
      builder.add_source(in_store ? found.pins[i] : found.paths[i], opened.stamps[i]);
    builder.reserve(found.count, found.names.size());
    for (std::uint64_t i = 0; i < found.count; ++i) {
      const Place place = place_of(found, i, f);
      builder.add({.name = name_of(found, i),
                   .bytes = place.bytes,
                   .label = found.labels.empty() ? -1 : found.labels[i],
                   .offset = place.offset,
                   .container = static_cast<std::uint32_t>(place.file)});
    }
    source.manifests.push_back(ManifestImage::from(builder.build()));
  }
  return source;
}

}  // namespace carya::io
