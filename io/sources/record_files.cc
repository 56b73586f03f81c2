#include "io/sources/record_files.h"

#include <algorithm>
#include <atomic>
#include <charconv>

#include "io/files/listing.h"
#include "io/files/manifest_file.h"
#include "io/formats/arrow.h"
#include "io/formats/mds.h"
#include "io/formats/tfrecord.h"
#include "io/index/index_file.h"
#include "io/index/record_index.h"
#include "io/manifest/manifest_builder.h"
#include "io/manifest/manifest_image.h"
#include "io/sources/source_file.h"

namespace carya::io {
namespace {

using Kind = RecordField::Kind;

struct FileIndex {
  SourceStamp stamp;
  std::string pin;
  std::optional<RecordIndex> index;
};

Result<RecordIndex> build_index(const std::string& path, FileWindow& file, const RecordSpec& spec,
                                ListingProgress& progress) {
  switch (spec.format) {
    case RecordFormat::kTfrecord:
      return index_tfrecord(path, file, spec, progress);
    case RecordFormat::kMds:
      return index_mds(path, file, spec, progress);
    case RecordFormat::kArrow:
      return index_arrow(path, file, spec, progress);
  }
  return fail(Code::kUnsupported, path + ": no format; give one");
}

Result<FileIndex> index_of(const std::string& path, const SourcePlace& place, const RecordSpec& spec,
                           const ListingOptions& options, ListingProgress& progress,
                           std::atomic<bool>& all_kept) {
  ASSIGN(const SourceFile file,
         place.open_file(path, std::string(format_name(spec.format)) + " files", progress));
  FileIndex found{.stamp = file.stamp, .pin = file.pin, .index = std::nullopt};
  std::string kept;
  if (!options.cache_dir.empty()) {
    kept = index_path(options.cache_dir, file.identity, spec);
    if (!options.verify) {
      auto loaded = load_index(kept, spec, found.stamp);
      if (loaded) {
        progress.add(loaded->count());
        found.index = std::move(*loaded);
        return found;
      }
    }
  }
  all_kept = false;
  FileWindow window(found.stamp.bytes, file.read);
  ASSIGN(found.index, build_index(path, window, spec, progress));
  progress.add(found.index->count() % 1024);
  // What is kept for a file that is written to just now could hide what is written next.
  if (!kept.empty() && file.settled)
    static_cast<void>(
        replace_file(kept, found.index->store(found.stamp.bytes, found.stamp.mtime_ns), file.readers));
  return found;
}

std::string shown_key(const RecordField& field) {
  return field.key ? *field.key : field.name;
}

}  // namespace

/// Puts the indexes of the files one after the other.
class RecordMerge {
 public:
  RecordMerge(const RecordSpec& spec, const SourcePlace& place) : source_(new RecordSource), place_(place) {
    source_->spec_ = spec;
    source_->columns_.resize(spec.fields.size());
    source_->manifests_.resize(spec.fields.size());
    builders_.resize(spec.fields.size() + 1);
  }

  Result<std::shared_ptr<const RecordSource>> run(const std::vector<std::string>& paths,
                                                  std::vector<FileIndex> files) {
    std::uint64_t records = 0;
    for (const FileIndex& file : files) records += file.index->count();
    if (records == 0)
      return fail(Code::kNotFound, std::string(format_name(spec().format)) + ": no record in " + paths[0] +
                                       (paths.size() > 1 ? " or the others" : "") +
                                       "; give files that hold records");
    TRY(check_found(paths, files));
    TRY(check_columns(records));
    for (ManifestBuilder& builder : builders_) {
      builder.root = place_.path();
      builder.pins = place_.is_store();
      for (std::size_t i = 0; i < paths.size(); ++i) {
        builder.containers.push_back(place_.below(paths[i]));
        builder.add_source(builder.pins ? files[i].pin : paths[i], files[i].stamp);
      }
      builder.reserve(records, 8 * records);
    }
    for (std::size_t i = 0; i < files.size(); ++i) {
      add(*files[i].index, static_cast<std::uint32_t>(i));
      files[i].index.reset();
    }
    for (std::size_t f = 0; f < spec().fields.size(); ++f)
      if (spec().fields[f].kind == Kind::kBytes)
        source_->manifests_[f] = ManifestImage::from(builders_[f].build());
    source_->records_ =
        first_bytes_ ? source_->manifests_[*first_bytes_] : ManifestImage::from(builders_.back().build());
    return std::shared_ptr<const RecordSource>(std::move(source_));
  }

 private:
  const RecordSpec& spec() const { return source_->spec_; }

  Status check_found(const std::vector<std::string>& paths, const std::vector<FileIndex>& files) {
    for (std::size_t f = 0; f < spec().fields.size(); ++f) {
      const auto has = [f](const FileIndex& file) { return file.index->found(f); };
      // Where every record is broken in itself, nothing is known of its fields.
      const auto lacks = [f](const FileIndex& file) {
        return std::ranges::any_of(file.index->faults(), [f](const RecordFault& fault) {
          return fault.what == Fault::kMissing && fault.field == f;
        });
      };
      if (std::ranges::any_of(files, has) || !std::ranges::any_of(files, lacks)) continue;
      const auto first =
          std::ranges::find_if(files, [](const FileIndex& file) { return file.index->count() > 0; });
      const std::string& path = paths[static_cast<std::size_t>(first - files.begin())];
      const std::string& there = first->index->description();
      return fail(Code::kNotFound, std::string(format_name(spec().format)) + ": " + spec().fields[f].name +
                                       ": no record has " + shown_key(spec().fields[f]) +
                                       (there.empty() ? "" : "; the first of " + path + " has: " + there));
    }
    return {};
  }

  Status check_columns(std::uint64_t records) {
    std::uint64_t row = 0;
    for (const RecordField& field : spec().fields) row += field.row_bytes();
    if (row == 0 || records <= kColumnBytesMax / row) return {};
    return fail(Code::kExhausted, "tensors: " + std::to_string(row) + " B for each of " +
                                      std::to_string(records) + " records are kept in memory, at most " +
                                      std::to_string(kColumnBytesMax) +
                                      " B; leave large fields out, or store them as encoded images");
  }

  void add(const RecordIndex& index, std::uint32_t container) {
    const auto& fields = spec().fields;
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (fields[f].kind == Kind::kBytes) {
        if (!first_bytes_) first_bytes_ = f;
        add_ranges(builders_[f], index.ranges(f), index.labels(), container);
      }
      auto& column = source_->columns_[f];
      column.insert(column.end(), index.column(f).begin(), index.column(f).end());
    }
    if (!first_bytes_) {
      // A record that is broken has no bytes, as everywhere else.
      std::vector<RecordIndex::Range> places = index.places();
      for (const RecordFault& fault : index.faults()) places[fault.record].bytes = 0;
      add_ranges(builders_.back(), places, index.labels(), container);
    }
    for (RecordFault fault : index.faults()) {
      fault.record += before_;
      source_->faults_.push_back(fault);
    }
    before_ += index.count();
  }

  static void add_ranges(ManifestBuilder& builder, const std::vector<RecordIndex::Range>& ranges,
                         const std::vector<std::int64_t>& labels, std::uint32_t container) {
    char name[24] = {'#'};
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const char* const end = std::to_chars(name + 1, std::end(name), i).ptr;
      builder.add({.name = {name, static_cast<std::size_t>(end - name)},
                   .bytes = ranges[i].bytes,
                   .label = labels.empty() ? -1 : labels[i],
                   .offset = ranges[i].offset,
                   .container = container});
    }
  }

  std::shared_ptr<RecordSource> source_;
  const SourcePlace& place_;
  std::vector<ManifestBuilder> builders_;  // of each field, and of whole records
  std::optional<std::size_t> first_bytes_;
  std::uint64_t before_ = 0;
};

Status RecordSource::check(std::uint64_t record) const {
  if (faults_.empty()) return {};
  const auto found = std::ranges::lower_bound(faults_, record, {}, &RecordFault::record);
  if (found == faults_.end() || found->record != record) return {};
  return fail(Code::kCorrupt, fault_text(spec_, *found));
}

Result<std::shared_ptr<const RecordSource>> list_records(const std::vector<std::string>& paths,
                                                         const RecordSpec& spec,
                                                         const ListingOptions& options,
                                                         ListingReport* report) {
  if (paths.empty())
    return fail(Code::kNotFound,
                std::string(format_name(spec.format)) + ": paths: got none; give one path or more");
  ASSIGN(const SourcePlace place, SourcePlace::open(paths, options));
  ListingProgress progress(options.progress);
  std::vector<FileIndex> files(paths.size());
  std::atomic<bool> all_kept = true;
  TRY(place.for_each(paths.size(), options, progress, [&](std::uint64_t i) -> Status {
    ASSIGN(files[i], index_of(paths[i], place, spec, options, progress, all_kept));
    return {};
  }));
  if (report != nullptr) report->from_cache = all_kept;
  return RecordMerge(spec, place).run(paths, std::move(files));
}

}  // namespace carya::io
