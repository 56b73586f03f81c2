// list_webdataset: the indexes of the tars, members side by side grouped by key.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "io/files/listing.h"
#include "io/manifest/manifest.h"
#include "io/manifest/manifest_builder.h"
#include "io/sources/folder_walk.h"
#include "io/sources/source_file.h"
#include "io/sources/tar_index.h"
#include "io/sources/tar_scanner.h"

namespace carya::io {
namespace {

struct SplitName {
  std::string_view key;
  std::string extension;  // lower case; empty when the name has no dot, or begins with one
};

SplitName split_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  // WebDataset passes over hidden files, which macOS packs beside each member ("._0001.jpg").
  if (dot == std::string_view::npos || dot == base) return {name, ""};
  std::string extension(name.substr(dot + 1));
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return {name.substr(0, dot), std::move(extension)};
}

/// Members of one key.
struct Group {
  struct Member {
    std::string extension;
    std::uint64_t index;
  };
  std::string_view key;
  std::vector<Member> members;

  std::optional<std::uint64_t> find(const std::vector<std::string>& extensions) const {
    for (const std::string& wanted : extensions) {
      for (const Member& member : members) {
        if (member.extension == wanted) return member.index;
      }
    }
    return std::nullopt;
  }
  /// The name of the member that was cut off; "" where none was.
  std::string cut_off() const {
    const auto found = std::ranges::find_if(
        members, [](const Member& member) { return member.extension.ends_with(kCutOffExtension); });
    if (found == members.end()) return "";
    const std::string own = found->extension.substr(0, found->extension.size() - kCutOffExtension.size());
    return std::string(key) + (own.empty() ? "" : "." + own.substr(0, own.size() - 1));
  }
};

std::string listed(const std::vector<std::string>& extensions) {
  std::string text;
  for (const std::string& extension : extensions) text += (text.empty() ? "." : " or .") + extension;
  return text;
}

/// Turns groups into records, one per field.
class Grouping {
 public:
  Grouping(const std::vector<TarField>& fields, const std::vector<std::string>& label_extensions,
           std::vector<ManifestBuilder>* builders)
      : fields_(fields), label_extensions_(label_extensions), builders_(*builders) {}

  Status add_tar(const ManifestImage& index, std::uint32_t container, const std::string& tar) {
    Group group;
    for (std::uint64_t i = 0; i < index.count(); ++i) {
      SplitName name = split_name(index.record(i).member);
      if (name.extension.empty()) continue;  // WebDataset passes over these
      if (name.key != group.key) {
        TRY(finish(index, container, tar, group));
        group.key = name.key;
        group.members.clear();
      }
      if (std::ranges::find(group.members, name.extension, &Group::Member::extension) !=
          group.members.end()) {
        return fail(Code::kCorrupt, "tar " + tar + ": key " + std::string(name.key) + " has ." +
                                        name.extension +
                                        " twice; pack each member of a key with an extension of its own");
      }
      group.members.push_back({std::move(name.extension), i});
    }
    return finish(index, container, tar, group);
  }

  /// Errors: kNotFound, where no key at all has a field: not the tars are broken, the extensions are wrong.
  Status check() const {
    for (std::size_t i = 0; i < has_.size(); ++i)
      if (!has_[i] && !lacks_[i].empty()) return fail(Code::kNotFound, lacks_[i]);
    return {};
  }

 private:
  /// Remember the first one, for check().
  void note_lack(std::size_t what, const std::string& tar, std::string_view key,
                 const std::vector<std::string>& extensions, const std::string& cut_off) {
    if (!lacks_[what].empty()) return;
    if (!cut_off.empty()) {
      lacks_[what] = "tar " + tar + ": member " + cut_off + " is cut off or no tar, and no other key has " +
                     listed(extensions) + "; copy or make the tar again";
      return;
    }
    lacks_[what] =
        "tar " + tar + ": key " + std::string(key) + " has no " + listed(extensions) +
        ", and no other key has it; pack the tar with it, or name the extensions that its keys have";
  }

  Status finish(const ManifestImage& index, std::uint32_t container, const std::string& tar,
                const Group& group) {
    if (group.members.empty()) return {};
    std::int64_t label = -1;
    if (!label_extensions_.empty()) {
      const auto member = group.find(label_extensions_);
      if (!member) note_lack(fields_.size(), tar, group.key, label_extensions_, group.cut_off());
      if (member) has_[fields_.size()] = true;
      label = member ? index.record(*member).label : kNoNumber;  // a broken record, for the stream's policy
    }
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const auto member = group.find(fields_[f].extensions);
      if (member) has_[f] = true;
      if (!member) {  // an empty record is a broken one, whatever it should hold
        note_lack(f, tar, group.key, fields_[f].extensions, group.cut_off());
        const std::string name = std::string(group.key) + " (has no " + listed(fields_[f].extensions) + ")";
        builders_[f].add({.name = name, .label = label, .container = container});
        continue;
      }
      const RecordAddress at = index.record(*member);
      builders_[f].add({.name = at.member,
                        .bytes = at.bytes,
                        .label = label,
                        .offset = at.offset,
                        .container = container});
    }
    return {};
  }

  const std::vector<TarField>& fields_;
  const std::vector<std::string>& label_extensions_;
  std::vector<ManifestBuilder>& builders_;
  // Of each field, and of the label behind them: whether any key has it, and the first that has not.
  std::vector<bool> has_ = std::vector<bool>(fields_.size() + 1, false);
  std::vector<std::string> lacks_ = std::vector<std::string>(fields_.size() + 1);
};

Result<std::vector<TarIndex>> indexes_of(const std::vector<std::string>& tars, const SourcePlace& place,
                                         const ListingOptions& options) {
  ListingProgress progress(options.progress);
  std::vector<TarIndex> indexes(tars.size());
  TRY(place.for_each(tars.size(), options, progress, [&](std::uint64_t i) -> Status {
    ASSIGN(indexes[i], tar_index(tars[i], place, options.cache_dir, progress));
    progress.add(indexes[i].members->count() % 1024);
    return {};
  }));
  return indexes;
}

}  // namespace

Result<std::vector<std::shared_ptr<const Manifest>>> list_webdataset(
    const std::vector<std::string>& tars, const std::vector<TarField>& fields,
    const std::vector<std::string>& label_extensions, const ListingOptions& options, ListingReport* report) {
  if (tars.empty()) return fail(Code::kInvalidArgument, "webdataset: tars: got none; give one path or more");
  if (fields.empty())
    return fail(Code::kInvalidArgument,
                "webdataset: fields: got none; give one or more, as {\"image\": [\"jpg\"]}");
  ASSIGN(const SourcePlace place, SourcePlace::open(tars, options));
  ASSIGN(const auto indexes, indexes_of(tars, place, options));
  std::vector<ManifestBuilder> builders(fields.size());
  for (ManifestBuilder& builder : builders) {
    builder.root = place.path();
    builder.pins = place.is_store();
    for (std::size_t i = 0; i < tars.size(); ++i) {
      builder.containers.push_back(place.below(tars[i]));
      builder.add_source(builder.pins ? indexes[i].pin : tars[i], indexes[i].members->source_stamps()[0]);
    }
  }
  for (std::size_t i = 0; report != nullptr && i < tars.size(); ++i) {
    if (indexes[i].members->skipped_count() == 0) continue;
    ++report->skipped_count;
    if (report->skipped_examples.size() < kSkippedExamplesMax) report->skipped_examples.push_back(tars[i]);
  }
  Grouping grouping(fields, label_extensions, &builders);
  for (std::size_t i = 0; i < tars.size(); ++i) {
    TRY(grouping.add_tar(*indexes[i].members, static_cast<std::uint32_t>(i), tars[i]));
  }
  TRY(grouping.check());
  if (builders[0].count() == 0)
    return fail(Code::kNotFound,
                "webdataset: no member in " + tars[0] + " or the others; give tars that hold files");
  std::vector<std::shared_ptr<const Manifest>> manifests;
  for (ManifestBuilder& builder : builders) manifests.push_back(ManifestImage::from(builder.build()));
  return manifests;
}

}  // namespace carya::io
