#include "loader/data/dataset.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/permutation.h"
#include "io/files/record_file.h"
#include "io/sources/ranges.h"

namespace carya::loader {
namespace {

using Json = nlohmann::json;
using Kind = transforms::SourceField::Kind;

Result<std::shared_ptr<const io::Manifest>> open_files(const Json& source,
                                                       const std::vector<std::string>& paths,
                                                       const io::ListingOptions& listing) {
  std::vector<std::int64_t> labels;
  if (const auto found = source.find("labels"); found != source.end() && !found->is_null())
    labels = found->get<std::vector<std::int64_t>>();
  return io::list_files(paths, labels, listing);
}

/// What the source document wants of each record, in the order of the pipeline's fields.
io::RecordSpec record_spec(const Json& source, const transforms::Pipeline& pipeline) {
  io::RecordSpec spec{.format = io::format_from_name(source.at("type").get<std::string>()).value(),
                      .check_data = source.at("check_data"),
                      .fields = {}};
  for (const transforms::SourceField& field : pipeline.fields()) {
    const std::string& name = field.spec.name;
    io::RecordField wanted{.name = name};
    if (field.kind == Kind::kEncoded) {
      const Json& key = source.at("encoded").at(name);
      if (!key.is_null()) wanted.key = key.get<std::string>();
    } else if (field.kind == Kind::kLabel) {
      wanted.kind = io::RecordField::Kind::kLabel;
      wanted.key = source.at("label").get<std::string>();
    } else {
      wanted.kind = io::RecordField::Kind::kTensor;
      wanted.key = source.at("tensors").at(name).at("key").get<std::string>();
      wanted.dtype = field.spec.dtype;
      wanted.values = 1;
      for (const std::int64_t dimension : field.spec.shape)
        wanted.values *= static_cast<std::uint64_t>(dimension);
    }
    spec.fields.push_back(std::move(wanted));
  }
  return spec;
}

// Numbers that come beside the document, and may come from a socket.
template <typename Number>
Result<std::vector<Number>> numbers_beside(const char* key, const DatasetOptions& options) {
  const auto given = options.arrays.find(key);
  if (given == options.arrays.end() || given->second.row_bytes != sizeof(Number))
    return fail(Code::kInvalidArgument,
                fmt::format("records: {} was not handed over; make the pipeline anew", key));
  std::vector<Number> numbers(given->second.rows);
  if (!numbers.empty()) std::memcpy(numbers.data(), given->second.data, numbers.size() * sizeof(Number));
  return numbers;
}

}  // namespace

Result<std::shared_ptr<const Dataset>> Dataset::open(const transforms::Pipeline& pipeline,
                                                     const DatasetOptions& options) {
  auto dataset = std::make_shared<Dataset>();
  TRY(dataset->open_source(pipeline, options));
  TRY(dataset->apply_views(pipeline.views_json()));
  dataset->make_fingerprint(pipeline);
  if (!pipeline.records_json().empty()) return dataset->choose(pipeline, options);
  return std::shared_ptr<const Dataset>(std::move(dataset));
}

// The memory of a field. Offsets may come from a socket, so that all of them are looked at.
Result<ArrayMemory> Dataset::open_array(const transforms::SourceField& field,
                                        const DatasetOptions& options) const {
  const auto find = [&](const std::string& name) -> Result<ArrayMemory> {
    const auto found = options.arrays.find(name);
    if (found != options.arrays.end()) return found->second;
    return fail(Code::kInvalidArgument, "arrays: field " + name +
                                            " was not handed over; give its memory: "
                                            "Pipeline.from_json(text, arrays={...})");
  };
  ASSIGN(ArrayMemory array, find(field.spec.name));
  const bool counted = field.rows_max >= 0;
  transforms::TensorSpec row = field.spec;
  if (counted) row.shape.erase(row.shape.begin());
  std::uint64_t rows = count_;
  if (counted) {
    ASSIGN(const ArrayMemory offsets, find(offsets_key(field.spec.name)));
    const auto* const ends = reinterpret_cast<const std::int64_t*>(offsets.data);
    const auto most = [&](std::uint64_t i) { return ends[i + 1] - ends[i]; };
    bool good = offsets.row_bytes == sizeof(std::int64_t) && offsets.rows == count_ + 1 && ends[0] == 0;
    for (std::uint64_t i = 0; good && i < count_; ++i)
      good = ends[i + 1] >= ends[i] && most(i) <= field.rows_max;
    if (!good)
      return fail(
          Code::kInvalidArgument,
          fmt::format("arrays: offsets of {}: {} numbers; give {} int64, from 0, in ascending order, at "
                      "most {} apart",
                      field.spec.name, offsets.rows, count_ + 1, field.rows_max));
    rows = static_cast<std::uint64_t>(ends[count_]);
    array.offsets = ends;
    if (rows == 0 && array.rows == 0) array.row_bytes = static_cast<std::uint64_t>(row.bytes());
  }
  if (array.rows != rows || static_cast<std::int64_t>(array.row_bytes) != row.bytes())
    return fail(
        Code::kInvalidArgument,
        fmt::format("arrays: field {} has {} rows of {} B; give the arrays of the pipeline, {} of {} B",
                    field.spec.name, array.rows, array.row_bytes, rows, row.bytes()));
  return array;
}

// The places, names and labels of a `ranges` source, which may come from a socket.
Result<std::vector<std::shared_ptr<const io::Manifest>>> Dataset::open_ranges(
    const transforms::Pipeline& pipeline, const DatasetOptions& options) {
  const Json source = Json::parse(pipeline.source_json());
  io::FoundRanges found{.kind = source.at("kind"),
                        .paths = source.at("paths"),
                        .marks = {},
                        .pins = source.value("pins", std::vector<std::string>()),
                        .fields = source.at("encoded").size(),
                        .count = source.at("count")};
  const Json& stamps = source.at("stamps");
  for (std::size_t i = 0; i + 3 < stamps.size(); i += 4)
    found.marks.push_back({.version = {stamps[i].get<std::uint64_t>(), stamps[i + 1]},
                           .at = stamps[i + 2],
                           .value = stamps[i + 3]});
  const auto memory = [&](const std::string& name,
                          std::size_t alignment) -> Result<std::span<const std::byte>> {
    const auto given = options.arrays.find(name);
    const bool aligned = given != options.arrays.end() &&
                         reinterpret_cast<std::uintptr_t>(given->second.data) % alignment == 0;
    if (aligned) return std::span(given->second.data, given->second.rows * given->second.row_bytes);
    return fail(Code::kInvalidArgument,
                found.kind + ": " + name + " were not handed over; make the pipeline anew");
  };
  ASSIGN(const auto places, memory("places", sizeof(std::uint64_t)));
  ASSIGN(const auto names, memory("names", 1));
  found.places = {reinterpret_cast<const std::uint64_t*>(places.data()),
                  places.size() / sizeof(std::uint64_t)};
  found.names = {reinterpret_cast<const char*>(names.data()), names.size()};
  found.name_bytes = names.size() / found.count;
  if (source.at("label")) {
    ASSIGN(const auto labels, memory("labels", sizeof(std::int64_t)));
    found.labels = {reinterpret_cast<const std::int64_t*>(labels.data()),
                    labels.size() / sizeof(std::int64_t)};
  }
  ASSIGN(io::RangeSource listed, io::list_ranges(found, options.listing));
  marked_ = std::move(listed.files);
  in_ranges_ = true;
  return std::move(listed.manifests);
}

// The source document was checked by Pipeline::parse, so its keys and types are as FORMAT.md says.
Status Dataset::open_source(const transforms::Pipeline& pipeline, const DatasetOptions& options) {
  const Json source = Json::parse(pipeline.source_json());
  const std::string type = source.at("type");
  std::map<std::string, std::shared_ptr<const io::Manifest>> manifests;
  std::shared_ptr<const io::Manifest> labelled;
  if (type == "image_folder") {
    ASSIGN(labelled, io::list_image_folder(source.at("path"), options.listing, &report_));
    manifests["image"] = labelled;
  } else if (type == "files") {
    ASSIGN(labelled, open_files(source, source.at("paths").get<std::vector<std::string>>(), options.listing));
    manifests[source.value("field", "image")] = labelled;
    if (source.contains("extra")) {
      for (const auto& [name, paths] : source.at("extra").items()) {
        ASSIGN(manifests[name], io::list_files(paths.get<std::vector<std::string>>(), {}, options.listing));
      }
    }
  } else if (type == "webdataset") {
    std::vector<io::TarField> wanted;
    std::vector<std::string> names;
    for (const auto& [name, extensions] : source.at("fields").items()) {
      names.push_back(name);
      wanted.push_back({extensions.get<std::vector<std::string>>()});
    }
    ASSIGN(auto listed, io::list_webdataset(source.at("tars").get<std::vector<std::string>>(), wanted,
                                            source.at("label").get<std::vector<std::string>>(),
                                            options.listing, &report_));
    for (std::size_t i = 0; i < names.size(); ++i) manifests[names[i]] = listed[i];
    labelled = listed.front();
  } else if (io::format_from_name(type)) {
    ASSIGN(records_, io::list_records(source.at("paths").get<std::vector<std::string>>(),
                                      record_spec(source, pipeline), options.listing, &report_));
    labelled = records_->records();
  } else if (type == "ranges") {
    ASSIGN(auto listed, open_ranges(pipeline, options));
    const auto names = source.at("encoded").get<std::vector<std::string>>();
    for (std::size_t i = 0; i < names.size(); ++i) manifests[names[i]] = listed[i];
    labelled = listed.front();
  } else {
    count_ = source.at("count").get<std::uint64_t>();
  }
  if (labelled) count_ = labelled->count();
  if (count_ == 0)
    return fail(Code::kInvalidArgument, type + ": the dataset is empty; give it one record or more");

  for (const transforms::SourceField& field : pipeline.fields()) {
    Field opened{field.kind, nullptr, {}};
    if (records_ && field.kind != Kind::kLabel) {
      opened.manifest = records_->manifest(fields_.size());
      const std::vector<std::byte>& column = records_->column(fields_.size());
      if (field.kind == Kind::kTensor) opened.array = {column.data(), column.size() / count_, count_};
      fields_.push_back(std::move(opened));
      continue;
    }
    if (field.kind == Kind::kEncoded) opened.manifest = manifests[field.spec.name];
    if (field.kind == Kind::kLabel) opened.manifest = labelled;
    if (opened.manifest && opened.manifest->count() != count_)
      return fail(Code::kInvalidArgument,
                  fmt::format("files: field {} has {} paths, image has {}; give one per image",
                              field.spec.name, opened.manifest->count(), count_));
    if (field.kind == Kind::kTensor) {
      ASSIGN(opened.array, open_array(field, options));
    }
    const bool lists_labels = type == "image_folder" || type == "webdataset" || records_ != nullptr;
    if (field.kind == Kind::kTensor || (field.kind == Kind::kLabel && !lists_labels))
      has_given_fields_ = true;
    fields_.push_back(std::move(opened));
  }
  return {};
}

Status Dataset::apply_views(const std::string& views_json) {
  for (const Json& view : Json::parse(views_json)) {
    const std::string kind = view.at("view");
    std::vector<std::uint64_t> chosen;
    if (kind == "take") {
      const std::uint64_t wanted = std::min(view.at("count").get<std::uint64_t>(), count_);
      for (std::uint64_t i = 0; i < wanted; ++i) chosen.push_back(source_index(i));
    } else if (kind == "subset") {
      for (const Json& index : view.at("indices")) {
        const auto i = index.get<std::uint64_t>();
        if (i >= count_)
          return fail(Code::kInvalidArgument,
                      fmt::format("subset: indices: got {}; give 0 to {}", i, count_ - 1));
        chosen.push_back(source_index(i));
      }
    } else {
      const Permutation permutation(view.at("seed").get<std::uint64_t>(), 0, count_);
      const double exact = view.at("fraction").get<double>() * static_cast<double>(count_);
      const auto head = std::min(count_, static_cast<std::uint64_t>(std::rint(exact)));
      const bool second = view.at("part").get<int>() == 1;
      for (std::uint64_t p = second ? head : 0; p < (second ? count_ : head); ++p)
        chosen.push_back(permutation(p));
      std::sort(chosen.begin(), chosen.end());
      for (std::uint64_t& index : chosen) index = source_index(index);
    }
    count_ = chosen.size();
    view_ = std::move(chosen);
    if (count_ == 0) return fail(Code::kInvalidArgument, kind + ": no record is left; choose a larger part");
  }
  return {};
}

Result<std::shared_ptr<const Dataset>> Dataset::keep(std::vector<std::uint64_t> records) const {
  if (records.empty())
    return fail(Code::kInvalidArgument, "keep: got no records; give those that streams go through");
  if (std::ranges::adjacent_find(records, std::ranges::greater_equal()) != records.end())
    return fail(Code::kInvalidArgument, "keep: the records do not rise; give each once, in order");
  if (records.back() >= count_)
    return fail(Code::kInvalidArgument,
                fmt::format("keep: got record {}; give 0 to {}", records.back(), count_ - 1));
  auto chosen = std::make_shared<Dataset>(*this);
  chosen->kept_ = std::move(records);
  return chosen;
}

Result<std::shared_ptr<const Dataset>> Dataset::draw(DrawnOrder order) const {
  if (order.records() != kept_count())
    return fail(Code::kInvalidArgument,
                fmt::format("draw: got an order of {} records; there are {}", order.records(), kept_count()));
  auto chosen = std::make_shared<Dataset>(*this);
  chosen->drawn_ = std::move(order);
  return chosen;
}

Result<std::shared_ptr<const Dataset>> Dataset::choose(const transforms::Pipeline& pipeline,
                                                       const DatasetOptions& options) const {
  auto chosen = std::make_shared<const Dataset>(*this);
  if (pipeline.records_json().empty()) return chosen;
  const Json how = Json::parse(pipeline.records_json());
  if (how.contains("kept")) {
    ASSIGN(auto records, numbers_beside<std::uint64_t>(kKeptKey, options));
    ASSIGN(chosen, chosen->keep(std::move(records)));
  }
  if (how.contains("drawn")) {
    const Json& drawn = how.at("drawn");
    ASSIGN(auto ends, numbers_beside<std::int64_t>(kDrawnKey, options));
    ASSIGN(auto order, DrawnOrder::weighted(std::move(ends), drawn.at("positions"), drawn.at("key")));
    ASSIGN(chosen, chosen->draw(std::move(order)));
  }
  if (how.contains("repeated")) {
    const Json& repeated = how.at("repeated");
    ASSIGN(auto order, DrawnOrder::repeated(chosen->kept_count(), repeated.at("times"), repeated.at("within"),
                                            repeated.at("positions")));
    ASSIGN(chosen, chosen->draw(std::move(order)));
  }
  return chosen;
}

void Dataset::make_fingerprint(const transforms::Pipeline& pipeline) {
  Hasher128 hasher;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    hasher.update(pipeline.fields()[i].spec.name);
    if (fields_[i].manifest) {
      const Hash128 hash = fields_[i].manifest->fingerprint();
      hasher.update(hash.high);
      hasher.update(hash.low);
    }
  }
  if (records_) {
    const Hash128 hash = records_->records()->fingerprint();
    hasher.update(hash.high);
    hasher.update(hash.low);
    for (std::size_t i = 0; i < fields_.size(); ++i) hasher.update(std::span(records_->column(i)));
  }
  // An arrays source names its bytes' own hashes; the folders' documents name paths, which are not part of
  // it.
  const Json source = Json::parse(pipeline.source_json());
  if (source.at("type") == "arrays") hasher.update(pipeline.source_json());
  if (source.at("type") == "files" && source.contains("arrays")) hasher.update(source.at("arrays").dump());
  hasher.update(pipeline.views_json());
  fingerprint_ = hasher.digest();
}

const std::vector<std::string>& Dataset::class_names() const {
  static const std::vector<std::string> kNone;
  for (const Field& field : fields_)
    if (field.manifest) return field.manifest->class_names();
  return kNone;
}

// Only in tars: a list of files has the labels that the user gave, and records and ranges have their own, whatever
// they are.
bool Dataset::broken_label(const io::RecordAddress& address) const {
  return !records_ && !in_ranges_ && address.container != UINT32_MAX && address.label == io::kNoNumber;
}

const io::Manifest* Dataset::addressed() const {
  for (const Field& field : fields_)
    if (field.kind == Kind::kEncoded) return field.manifest.get();
  return records_ ? records_->records().get() : nullptr;
}

bool Dataset::has_labels() const {
  return std::ranges::any_of(fields_, [](const Field& field) { return field.kind == Kind::kLabel; });
}

std::int64_t Dataset::label(std::uint64_t record) const {
  for (const Field& field : fields_)
    if (field.kind == Kind::kLabel) {
      const io::RecordAddress address = field.manifest->record(source_index(record));
      return broken_label(address) ? -1 : address.label;
    }
  return -1;
}

Status Dataset::check_record(std::uint64_t record) const {
  if (records_) TRY(records_->check(source_index(record)));
  for (const Field& field : fields_) {
    if (field.kind == Kind::kLabel && broken_label(field.manifest->record(source_index(record))))
      return fail(Code::kCorrupt,
                  "label: label is not an integer; the label's member of this key holds one, such as 7");
    if (field.kind != Kind::kEncoded) continue;
    const io::RecordAddress at = field.manifest->record(source_index(record));
    if (at.bytes > kEncodedBytesMax)
      return fail(Code::kCorrupt,
                  fmt::format("read: the record has {} B; give at most {} B", at.bytes, kEncodedBytesMax));
    // No member lies where its container begins, so this one is not there; ranges have none that is empty.
    if (at.bytes == 0 && at.container != UINT32_MAX && (at.offset == 0 || in_ranges_))
      return fail(Code::kCorrupt, fmt::format("read: {}: there are no bytes of it", at.member));
  }
  return {};
}

Status Dataset::check_as_listed(std::uint64_t record) const {
  for (const Field& field : fields_)
    if (field.kind == Kind::kEncoded) TRY(io::check_as_listed(*field.manifest, source_index(record)));
  return {};
}

Status Dataset::check_arrays() const {
  for (const Field& field : fields_)
    if (field.array.file) TRY(field.array.file->check());
  return {};
}

Status Dataset::check_marks(std::uint64_t record, std::uint32_t& checked) const {
  if (!marked_) return {};
  for (const Field& field : fields_) {
    if (field.kind != Kind::kEncoded) continue;
    const std::uint32_t file = field.manifest->record(source_index(record)).container;
    if (file == checked) continue;
    TRY(marked_->check(file));
    checked = file;
  }
  return {};
}

io::RecordAddress Dataset::address(std::uint64_t record) const {
  const io::Manifest* manifest = addressed();
  return manifest ? manifest->record(source_index(record)) : io::RecordAddress{};
}

std::string Dataset::path(std::uint64_t record) const {
  const io::Manifest* manifest = addressed();
  return manifest ? io::record_path(*manifest, source_index(record)) : std::string();
}

}  // namespace carya::loader
