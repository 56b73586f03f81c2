#include "transforms/ops/objects/boxes.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <cstring>

namespace carya::transforms {
namespace {

using Part = FieldState::Part;

constexpr std::size_t kBoxBytes = 4 * sizeof(float);
constexpr AssumedCost kObjectCost{.fixed_ns = 200};

// Pairs of indices, each index in one pair only.
std::vector<Objects::Pair> read_pairs(Params& params) {
  constexpr std::string_view kWhat = "a list of [index, index], each index in one pair";
  std::vector<Objects::Pair> pairs;
  const Json given = params.raw("flip_pairs");
  params.set_canonical("flip_pairs", given.is_null() ? Json(Json::Array()) : given);
  if (given.is_null()) return pairs;
  const auto* list = given.get<Json::Array>();
  std::vector<std::int64_t> seen;
  for (std::size_t i = 0; list && i < list->size(); ++i) {
    const auto* pair = (*list)[i].get<Json::Array>();
    const bool two = pair && pair->size() == 2;
    const auto* one = two ? (*pair)[0].get<std::int64_t>() : nullptr;
    const auto* other = two ? (*pair)[1].get<std::int64_t>() : nullptr;
    if (!one || !other || *one < 0 || *other < 0 || *one >= kKeyPointsMax || *other >= kKeyPointsMax) {
      list = nullptr;
      break;
    }
    pairs.push_back({*one, *other});
    seen.push_back(*one);
    seen.push_back(*other);
  }
  std::ranges::sort(seen);
  if (!list || std::ranges::adjacent_find(seen) != seen.end()) params.reject("flip_pairs", kWhat);
  return pairs;
}

bool is_finite(const Box& box) {
  return std::isfinite(box.left) && std::isfinite(box.top) && std::isfinite(box.right) &&
         std::isfinite(box.bottom);
}

// Why a box cannot be one; "": it can.
std::string_view fault_of(const Box& box, std::int64_t height, std::int64_t width) {
  if (!is_finite(box)) return "is not finite";
  if (box.right < box.left || box.bottom < box.top) return "ends before it begins";
  if (box.right < 0 || box.bottom < 0 || box.left > static_cast<float>(width) ||
      box.top > static_cast<float>(height))
    return "lies beside the picture";
  return {};
}

// Whether all key points of an object are numbers.
bool are_finite(std::span<const std::byte> key_points, std::size_t object, std::size_t count) {
  for (std::size_t k = 0; k < 3 * count; ++k) {
    float value = 0;
    std::memcpy(&value, key_points.data() + (object * 3 * count + k) * sizeof value, sizeof value);
    if (!std::isfinite(value)) return false;
  }
  return true;
}

void read_points(std::span<const std::byte> key_points, std::size_t object, std::span<KeyPoint> points) {
  if (points.empty()) return;
  static_assert(sizeof(KeyPoint) == 3 * sizeof(float));
  std::memcpy(points.data(), key_points.data() + object * points.size_bytes(), points.size_bytes());
}

bool is_int64_scalar(const FieldState& field) {
  const bool plain = field.form == FieldState::Form::kTensor || field.form == FieldState::Form::kLabel;
  return plain && field.spec.dtype == DType::kInt64 && field.spec.shape.empty();
}

}  // namespace

std::vector<std::size_t> object_fields(const std::vector<FieldState>& fields) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields[i].form == FieldState::Form::kObjects) found.push_back(i);
  return found;
}

std::size_t object_field(const std::vector<FieldState>& fields, FieldState::Part part) {
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields[i].part == part) return i;
  return FieldState::kNoField;
}

Result<std::unique_ptr<Op>> BoxesOp::parse(Params& params) {
  Options options;
  constexpr std::array kFormats{Format::kXyxy, Format::kXywh, Format::kCxcywh};
  options.format = kFormats[params.choice("format", {"xyxy", "xywh", "cxcywh"})];
  options.relative = params.boolean("relative", false);
  options.objects_max = params.integer_or_null("max_objects", 1, kObjectsMax).value_or(0);
  options.truncate = params.boolean("truncate", false);
  options.drop_invalid = params.choice("invalid", {"raise", "drop"}) == 1;
  const bool named = !params.raw_is_null("field");
  options.boxes = named ? params.string("field") : "boxes";
  if (!named) {
    params.raw("field");
    params.set_canonical("field", Json("boxes"));
  }
  options.rows = params.strings_or_null("rows");
  if (const auto names = params.strings_or_null("key_points")) {
    if (names->size() != 1) params.reject("key_points", "None or the name of one field");
    options.key_points = names->front();
  }
  options.pairs = read_pairs(params);
  if (const auto names = params.strings_or_null("count")) {
    if (names->size() != 1) params.reject("count", "None or the name of one field");
    options.count = names->front();
  }
  TRY(params.finish());
  return std::make_unique<BoxesOp>(params.take_canonical(), std::move(options));
}

BoxesOp::BoxesOp(Json::Object canonical, Options options)
    : ObjectOp("boxes", OpTraits{.kind = OpKind::kObjects, .assumed_cost = kObjectCost},
               std::move(canonical)),
      options_(std::move(options)) {}

Result<std::vector<std::size_t>> BoxesOp::find_rows(const std::vector<FieldState>& fields,
                                                    std::size_t boxes) const {
  const TensorSpec& of = fields[boxes].spec;
  const auto fits = [&](const FieldState& field) {
    const auto& shape = field.spec.shape;
    return field.form == FieldState::Form::kTensor && !shape.empty() && shape[0] == of.shape[0];
  };
  std::vector<std::size_t> found;
  if (options_.rows) {
    ASSIGN(found, find_fields(name(), fields, *options_.rows));
    for (const std::size_t f : found)
      if (!fits(fields[f]) || f == boxes)
        return refuse(fields[f], "arrays with one row for each of " + of.name + ", " + of.to_string());
    return found;
  }
  for (std::size_t f = 0; of.shape[0] < 0 && f < fields.size(); ++f)
    if (f != boxes && fits(fields[f]) && fields[f].spec.name != options_.key_points) found.push_back(f);
  return found;
}

Status BoxesOp::take_count(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  const std::string made = options_.boxes + "_count";
  std::size_t at = fields.size();
  if (options_.count) {
    ASSIGN(const auto found, find_fields(name(), fields, {*options_.count}));
    at = found.front();
    if (!is_int64_scalar(fields[at])) return refuse(fields[at], "one int64 for each record");
  } else {
    if (fields.size() >= kFieldsMax)
      return fail(Code::kInvalidArgument,
                  fmt::format("boxes: {} fields; give at most {}", fields.size(), kFieldsMax - 1));
    for (const FieldState& field : fields)
      if (field.spec.name == made)
        return refuse(field, "other names: it is where the number of objects goes");
    fields.push_back({.spec = {made, DType::kInt64, {}}});
  }
  fields[at].form = FieldState::Form::kObjects;
  fields[at].part = Part::kCount;
  fields[at].boxes_op = this;
  indices.push_back(at);
  return {};
}

Status BoxesOp::take_key_points(std::vector<FieldState>& fields, std::size_t boxes, std::int64_t objects_max,
                                std::vector<std::size_t>& indices) const {
  if (!options_.key_points) return {};
  ASSIGN(const auto found, find_fields(name(), fields, {*options_.key_points}));
  FieldState& field = fields[found.front()];
  auto& shape = field.spec.shape;
  if (field.form != FieldState::Form::kTensor || field.spec.dtype != DType::kFloat32 || shape.size() != 3 ||
      shape[0] != fields[boxes].spec.shape[0] || shape[1] < 1 || shape[1] > kKeyPointsMax || shape[2] != 3)
    return refuse(
        field, fmt::format("float32 of (objects, key points, 3), with at most {} key points", kKeyPointsMax));
  for (const auto& [one, other] : options_.pairs)
    if (std::max(one, other) >= shape[1])
      return refuse(field, fmt::format("flip_pairs of 0 to {}", shape[1] - 1));
  shape[0] = objects_max;
  field.form = FieldState::Form::kObjects;
  field.part = Part::kKeyPoints;
  field.boxes_op = this;
  indices.push_back(found.front());
  return {};
}

Status BoxesOp::infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  if (const auto there = object_fields(fields); !there.empty())
    return refuse(fields[there.front()], "one op boxes in a pipeline");
  if (!options_.key_points && !options_.pairs.empty())
    return fail(Code::kInvalidArgument, "boxes: flip_pairs: given without key_points; give both or none");
  ASSIGN(const auto image, fields_or_main(name(), fields, std::nullopt));
  const FieldState& picture = fields[image.front()];
  if (picture.form == FieldState::Form::kEncoded)
    return refuse(picture, "a picture: put decode_image before");
  if (picture.form != FieldState::Form::kImage || picture.values)
    return refuse(picture, "a picture: put it before normalize, to_dtype and to_layout");
  ASSIGN(const auto found, find_fields(name(), fields, {options_.boxes}));
  const std::size_t boxes = found.front();
  FieldState& field = fields[boxes];
  if (field.form != FieldState::Form::kTensor || field.spec.dtype != DType::kFloat32 ||
      field.spec.shape.size() != 2 || field.spec.shape[1] != 4)
    return refuse(field, "float32 of (objects, 4)");
  const std::int64_t most =
      field.spec.shape[0] < 0 ? std::max<std::int64_t>(1, field.rows_max) : field.spec.shape[0];
  const std::int64_t objects_max = options_.objects_max > 0 ? options_.objects_max : most;
  if (objects_max > kObjectsMax) return refuse(field, fmt::format("max_objects of at most {}", kObjectsMax));
  ASSIGN(const auto rows, find_rows(fields, boxes));
  TRY(take_key_points(fields, boxes, objects_max, indices));
  for (const std::size_t f : rows) {
    if (fields[f].form == FieldState::Form::kObjects) return refuse(fields[f], "rows without the key points");
    fields[f].form = FieldState::Form::kObjects;
    fields[f].part = Part::kRows;
    fields[f].boxes_op = this;
    fields[f].spec.shape[0] = objects_max;
    indices.push_back(f);
  }
  fields[boxes].form = FieldState::Form::kObjects;
  fields[boxes].part = Part::kBoxes;
  fields[boxes].boxes_op = this;
  fields[boxes].spec.shape[0] = objects_max;
  indices.push_back(boxes);
  TRY(take_count(fields, indices));
  std::ranges::sort(indices);
  return {};
}

Box BoxesOp::to_pixels(const float* v, std::int64_t height, std::int64_t width) const {
  Box box{v[0], v[1], v[2], v[3]};
  if (options_.format == Format::kXywh) box = {v[0], v[1], v[0] + v[2], v[1] + v[3]};
  if (options_.format == Format::kCxcywh)
    box = {v[0] - v[2] * 0.5F, v[1] - v[3] * 0.5F, v[0] + v[2] * 0.5F, v[1] + v[3] * 0.5F};
  if (options_.relative) {
    const auto x = static_cast<float>(width), y = static_cast<float>(height);
    box = {box.left * x, box.top * y, box.right * x, box.bottom * y};
  }
  return box;
}

Status BoxesOp::load(const Source& source, std::int64_t height, std::int64_t width, std::size_t key_points,
                     std::size_t objects_max, Objects& objects) const {
  objects.begin(height, width, key_points, options_.pairs);
  for (std::size_t i = 0; i < source.count; ++i) {
    std::array<float, 4> values{};
    std::memcpy(values.data(), source.boxes.data() + i * kBoxBytes, kBoxBytes);
    const Box box = to_pixels(values.data(), height, width);
    std::string_view fault = fault_of(box, height, width);
    if (fault.empty() && !are_finite(source.key_points, i, key_points))
      fault = "has a key point that is not finite";
    if (!fault.empty()) {
      if (options_.drop_invalid) continue;
      return fail(
          Code::kCorrupt,
          fmt::format("boxes: box {} of {}, ({:g}, {:g}, {:g}, {:g}) in a picture of {}x{}, {}; mend it, "
                      "or give invalid=\"drop\"",
                      i, source.count, box.left, box.top, box.right, box.bottom, width, height, fault));
    }
    if (objects.count() == objects_max) {
      if (options_.truncate) break;
      return fail(
          Code::kCorrupt,
          fmt::format("boxes: {} objects; give max_objects of as many, or truncate=True", source.count));
    }
    read_points(source.key_points, i, objects.add(box, static_cast<std::uint32_t>(i)));
  }
  objects.clip();
  return {};
}

void BoxesOp::load_again(const Source& source, std::int64_t height, std::int64_t width,
                         std::size_t key_points, Objects& objects) const {
  objects.begin(height, width, key_points, options_.pairs);
  for (std::size_t i = 0; i < source.count; ++i) {
    Box box;
    static_assert(sizeof(Box) == kBoxBytes);
    std::memcpy(&box, source.boxes.data() + i * kBoxBytes, kBoxBytes);
    read_points(source.key_points, i, objects.add(box, static_cast<std::uint32_t>(i)));
  }
}

Result<std::unique_ptr<Op>> SanitizeBoxes::parse(Params& params) {
  const double min_size = params.number("min_size", 0.0, 65'535.0, 1.0);
  const double min_area = params.number("min_area", 0.0, 1e9, 1.0);
  TRY(params.finish());
  return std::make_unique<SanitizeBoxes>(params.take_canonical(), min_size, min_area);
}

SanitizeBoxes::SanitizeBoxes(Json::Object canonical, double min_size, double min_area)
    : ObjectOp("sanitize_boxes", OpTraits{.kind = OpKind::kObjects, .assumed_cost = kObjectCost},
               std::move(canonical)),
      min_size_(static_cast<float>(min_size)),
      min_area_(static_cast<float>(min_area)) {}

Status SanitizeBoxes::infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  indices = object_fields(fields);
  if (!indices.empty()) return {};
  return fail(Code::kInvalidArgument,
              "sanitize_boxes: no boxes among " + field_names(fields) + "; put boxes(...) before");
}

void SanitizeBoxes::apply(Objects& objects) const {
  objects.keep_if([this](const Box& box) {
    const float width = box.right - box.left, height = box.bottom - box.top;
    return width >= min_size_ && height >= min_size_ && width * height >= min_area_;
  });
}

}  // namespace carya::transforms
