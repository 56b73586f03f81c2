#include "transforms/pipeline/source.h"

#include <fmt/core.h>
#include <algorithm>
#include <cctype>

#include "transforms/audio/codec/audio_reader.h"
#include "transforms/op/array_row.h"
#include "transforms/op/params.h"

namespace carya::transforms {
namespace {

constexpr std::size_t kNameBytesMax = 64;
constexpr std::size_t kDimensionsMax = 8;
constexpr std::int64_t kRowBytesMax = std::int64_t{1} << 32;

SourceField encoded(std::string name) {
  return {SourceField::Kind::kEncoded, {std::move(name), DType::kUint8, {-1}}};
}

SourceField label() {
  return {SourceField::Kind::kLabel, {"label", DType::kInt64, {}}};
}

Status check_names(const std::vector<SourceField>& fields) {
  if (fields.empty() || fields.size() > kFieldsMax)
    return fail(Code::kInvalidArgument,
                fmt::format("source: {} fields; give 1 to {}", fields.size(), kFieldsMax));
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string& name = fields[i].spec.name;
    const auto good = [](unsigned char c) {
      return std::isalnum(c) || c == '_' || c == '.' || c == '-' || c == '/';
    };
    if (name.empty() || name.size() > kNameBytesMax || !std::all_of(name.begin(), name.end(), good))
      return fail(Code::kInvalidArgument, "source: field name: got " + Json(name).excerpt() +
                                              "; give 1 to 64 letters, digits, '_', '.', '-' and '/'");
    for (std::size_t k = 0; k < i; ++k)
      if (fields[k].spec.name == name)
        return fail(Code::kInvalidArgument,
                    "source: field \"" + name + "\" is there twice; give distinct names");
  }
  return {};
}

// {name: list of strings}, each list of `count` strings if that is not negative.
Result<Json::Object> read_lists(Params& params, std::string_view key, std::int64_t count) {
  const Json& given = params.raw(key);
  const std::string what =
      "an object of lists of " + (count < 0 ? std::string() : fmt::format("{} ", count)) + "strings";
  if (given.is_null()) {
    params.set_canonical(key, Json(Json::Object()));
    return Json::Object();
  }
  const auto* object = given.get<Json::Object>();
  if (!object) {
    params.reject(key, what);
    return Json::Object();
  }
  for (const auto& [name, list] : *object) {
    const auto* items = list.get<Json::Array>();
    bool good = items && (count < 0 || static_cast<std::int64_t>(items->size()) == count);
    for (std::size_t i = 0; good && i < items->size(); ++i) good = (*items)[i].get<std::string>() != nullptr;
    if (!good)
      return fail(Code::kInvalidArgument, "source: " + std::string(key) + "[\"" +
                                              name.substr(0, kNameBytesMax) + "\"]: got " + list.excerpt() +
                                              (items ? fmt::format(" ({} entries)", items->size()) : "") +
                                              "; give " + what);
  }
  return *object;
}

Result<SourceSpec> parse_image_folder(Params& params) {
  const std::string path = params.string("path");
  TRY(params.finish());
  return SourceSpec{"", "image_folder(" + Json(path).text() + ")", {encoded("image"), label()}};
}

Result<SourceSpec> parse_webdataset(Params& params) {
  const std::vector<std::string> tars = params.strings("tars", std::nullopt);
  ASSIGN(Json::Object fields, read_lists(params, "fields", -1));
  if (params.raw_is_null("fields")) {
    fields = {{"image", Json(Json::Array{Json("jpg"), Json("jpeg"), Json("png")})}};
    params.set_canonical("fields", Json(fields));
  }
  const std::vector<std::string> extensions = params.strings("label", std::vector<std::string>{"cls"});
  TRY(params.finish());
  SourceSpec spec{"", fmt::format("webdataset({} tars)", tars.size()), {}};
  for (const auto& [name, list] : fields) {
    if (list.get<Json::Array>()->empty())
      return fail(Code::kInvalidArgument, "source: fields[\"" + name.substr(0, kNameBytesMax) +
                                              "\"]: got []; give at least one extension");
    spec.fields.push_back(encoded(name));
  }
  if (!extensions.empty()) spec.fields.push_back(label());
  return spec;
}

// Audio that has been decoded: {"rate" (0: each file's own), "spectrum" (null, or what its first axis is), "power",
// "length"}.
Result<SourceField::Sound> parse_sound(const std::string& name, const Json& given, const TensorSpec& spec) {
  const std::string subject = "source: arrays[\"" + name.substr(0, kNameBytesMax) + "\"].sound";
  Params params(subject, given, "");
  SourceField::Sound sound{.rate = params.integer("rate", 0, kAudioRateMax, 0)};
  const std::optional<std::size_t> axis = params.choice_or_null("spectrum", {"bins", "frames"});
  sound.spectrum = axis.has_value();
  sound.time_first = axis == 1U;
  sound.power = params.integer("power", 0, 2, 0);
  if (!params.raw_is_null("length")) sound.length = params.string("length");
  TRY(params.finish());
  const bool floats = spec.dtype == DType::kFloat32 || (!sound.spectrum && spec.dtype == DType::kInt16);
  const std::size_t sides = spec.shape.size();
  if (!floats || sides > 2 || sides < (sound.spectrum ? 2 : 1) ||
      spec.bytes() > kAudioValuesMax * static_cast<std::int64_t>(dtype_bytes(spec.dtype)))
    return fail(Code::kInvalidArgument,
                fmt::format("{}: got {}; give float32 of (samples), (channels, samples), "
                            "(bins, frames) or (frames, bins), at most {} values",
                            subject, spec.to_string(), kAudioValuesMax));
  return sound;
}

// With "rows_max", each record has a number of such rows, at most so many.
Result<SourceField> parse_array(const std::string& name, const Json& given, Json& canonical) {
  Params params("source: arrays[\"" + name.substr(0, kNameBytesMax) + "\"]", given, "");
  SourceField field{SourceField::Kind::kTensor, read_array_row(params, name)};
  params.string("fingerprint");
  if (given.find("rows_max") != nullptr) {
    field.rows_max = params.integer("rows_max", 0, kRowBytesMax);
    if (field.spec.shape.size() == kDimensionsMax)
      params.reject("shape", "at most 7 dimensions beside rows_max");
    field.spec.shape.insert(field.spec.shape.begin(), -1);
  }
  if (given.find("sound") != nullptr) {
    if (field.rows_max >= 0) params.reject("sound", "it without rows_max");
    TRY(params.fault());
    ASSIGN(field.sound, parse_sound(name, params.raw("sound"), field.spec));
  }
  TRY(params.finish());
  canonical = Json(params.take_canonical());
  return field;
}

// {name: {"dtype", "shape", "fingerprint"}}.
Status parse_array_fields(const Json::Object& arrays, SourceSpec& spec, Json::Object& canonical) {
  for (const auto& [name, array] : arrays) {
    canonical.emplace_back(name, Json());
    ASSIGN(SourceField field, parse_array(name, array, canonical.back().second));
    spec.fields.push_back(std::move(field));
  }
  return {};
}

Result<SourceSpec> parse_files(Params& params, const Json& object) {
  const std::vector<std::string> paths = params.strings("paths", std::nullopt);
  const auto count = static_cast<std::int64_t>(paths.size());
  const auto labels = params.integers_or_null("labels", paths.size(), paths.size(), INT64_MIN, INT64_MAX,
                                              fmt::format("None or one label for each of {} paths", count));
  ASSIGN(const Json::Object extra, read_lists(params, "extra", count));
  // Written only where it is given: documents of pictures stay as they were.
  const std::string field =
      object.find("field") != nullptr ? params.string("field") : std::string(kMainField);
  const bool has_arrays = object.find("arrays") != nullptr;  // written only where it is given, too
  const Json none = Json(Json::Object());
  const Json& given = has_arrays ? params.raw("arrays") : none;
  const auto* arrays = given.get<Json::Object>();
  if (!arrays) params.reject("arrays", "an object of {name: {\"dtype\", \"shape\", \"fingerprint\"}}");
  TRY(params.finish());
  SourceSpec spec{"", fmt::format("files({} paths", count), {encoded(field)}};
  for (const auto& [name, list] : extra) {
    spec.fields.push_back(encoded(name));
    spec.text += ", extra " + Json(name).text();
  }
  Json::Object canonical;
  TRY(parse_array_fields(*arrays, spec, canonical));
  for (const auto& [name, array] : canonical) spec.text += ", array " + Json(name).text();
  params.set_canonical("arrays", Json(std::move(canonical)));
  if (labels) {
    spec.fields.push_back(label());
    spec.text += ", labels";
  }
  spec.text += ')';
  return spec;
}

Result<SourceSpec> parse_arrays(Params& params) {
  const std::int64_t count = params.integer("count", 0, kRecordsMax);
  const Json& given = params.raw("arrays");
  const auto* arrays = given.get<Json::Object>();
  if (!arrays) params.reject("arrays", "an object of {name: {\"dtype\", \"shape\", \"fingerprint\"}}");
  TRY(params.finish());
  SourceSpec spec{"", fmt::format("arrays({} rows)", count), {}};
  Json::Object canonical;
  TRY(parse_array_fields(*arrays, spec, canonical));
  params.set_canonical("arrays", Json(std::move(canonical)));
  return spec;
}

// Files of records with named fields.
Result<SourceSpec> parse_records(Params& params, const std::string& type) {
  const std::vector<std::string> paths = params.strings("paths", std::nullopt);
  SourceSpec spec{"", type + "(" + std::to_string(paths.size()) + " files)", {}};
  const Json& encoded_fields = params.raw("encoded");
  const auto* keys = encoded_fields.get<Json::Object>();
  if (!keys) params.reject("encoded", "an object of {field: name in the record, None for the whole record}");
  const Json& tensor_fields = params.raw("tensors");
  const auto* tensors = tensor_fields.get<Json::Object>();
  if (!tensors) params.reject("tensors", "an object of {field: {\"key\", \"dtype\", \"shape\"}}");
  const Json& label_key = params.raw("label");
  if (!label_key.is_null() && !label_key.get<std::string>())
    params.reject("label", "None or the name of an integer in the record");
  params.boolean("check_data", true);
  TRY(params.finish());
  for (const auto& [name, key] : *keys) {
    if (!key.is_null() && !key.get<std::string>())
      return fail(Code::kInvalidArgument, "source: encoded[\"" + name.substr(0, kNameBytesMax) + "\"]: got " +
                                              key.excerpt() + "; give a name, or None for the whole record");
    spec.fields.push_back(encoded(name));
  }
  Json::Object canonical;
  for (const auto& [name, given] : *tensors) {
    Params tensor("source: tensors[\"" + name.substr(0, kNameBytesMax) + "\"]", given, "");
    tensor.string("key");
    TensorSpec row = read_array_row(tensor, name);
    TRY(tensor.finish());
    canonical.emplace_back(name, Json(tensor.take_canonical()));
    spec.fields.push_back({SourceField::Kind::kTensor, std::move(row)});
  }
  params.set_canonical("tensors", Json(std::move(canonical)));
  if (!label_key.is_null()) spec.fields.push_back(label());
  return spec;
}

// Ranges of files that a reader in Python found; their numbers are handed over beside the document.
Result<SourceSpec> parse_ranges(Params& params, const Json& object) {
  const std::string kind = params.string("kind");
  const std::vector<std::string> paths = params.strings("paths", std::nullopt);
  params.integers("stamps", 4 * paths.size(), 4 * paths.size(), INT64_MIN, INT64_MAX,
                  "size, time of change, place and value of the mark of each path");
  if (object.find("pins") && params.strings("pins", std::nullopt).size() != paths.size())
    params.reject("pins", "the version of each path");
  const std::vector<std::string> encoded_fields = params.strings("encoded", std::nullopt);
  const bool labelled = params.boolean("label", false);
  const std::int64_t count = params.integer("count", 1, kRecordsMax);
  const Json& given = params.raw("arrays");
  const auto* arrays = given.get<Json::Object>();
  if (!arrays) params.reject("arrays", "an object of {name: {\"dtype\", \"shape\", \"fingerprint\"}}");
  TRY(params.finish());
  SourceSpec spec{"", fmt::format("{}({} records in {} files)", kind, count, paths.size()), {}};
  for (const std::string& name : encoded_fields) spec.fields.push_back(encoded(name));
  if (labelled) spec.fields.push_back(label());
  SourceSpec beside;  // no fields of the records
  Json::Object canonical;
  TRY(parse_array_fields(*arrays, beside, canonical));
  params.set_canonical("arrays", Json(std::move(canonical)));
  return spec;
}

}  // namespace

Result<SourceSpec> parse_source(const Json& object) {
  Params params("source", object, "type");
  TRY(params.fault());
  const Json* type = object.find("type");
  const std::string* name = type ? type->get<std::string>() : nullptr;
  Result<SourceSpec> spec =
      fail(Code::kInvalidArgument,
           "source: type" + (type ? ": got " + type->excerpt() : " is missing") +
               "; give image_folder, files, webdataset, tfrecord, mds, arrow, ranges or arrays");
  if (name && *name == "image_folder") spec = parse_image_folder(params);
  if (name && *name == "files") spec = parse_files(params, object);
  if (name && *name == "webdataset") spec = parse_webdataset(params);
  if (name && (*name == "tfrecord" || *name == "mds" || *name == "arrow"))
    spec = parse_records(params, *name);
  if (name && *name == "ranges") spec = parse_ranges(params, object);
  if (name && *name == "arrays") spec = parse_arrays(params);
  if (!spec) return spec;
  TRY(check_names(spec->fields));
  spec->json = Json(params.take_canonical()).text();
  return spec;
}

std::vector<FieldState> initial_states(const std::vector<SourceField>& fields) {
  std::vector<FieldState> states;
  for (const SourceField& field : fields) {
    FieldState state{.spec = field.spec, .rows_max = field.rows_max};
    if (field.kind == SourceField::Kind::kLabel) state.form = FieldState::Form::kLabel;
    if (field.kind == SourceField::Kind::kTensor) state.form = FieldState::Form::kTensor;
    if (field.sound) {
      state.form = field.sound->spectrum ? FieldState::Form::kSpectrum : FieldState::Form::kAudio;
      state.rate = field.sound->rate;
      state.time_first = field.sound->time_first;
      state.power = field.sound->power;
      for (std::size_t i = 0; i < fields.size(); ++i)
        if (fields[i].spec.name == field.sound->length && fields[i].spec.dtype == DType::kInt64 &&
            fields[i].spec.shape.empty())
          state.length_field = i;
    }
    states.push_back(std::move(state));
  }
  find_pictures(states);
  return states;
}

}  // namespace carya::transforms
