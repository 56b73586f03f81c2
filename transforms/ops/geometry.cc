#include "transforms/ops/geometry.h"

namespace carya::transforms {
namespace {

ImageSize size_of(const FieldState& field) {
  return {field.spec.shape[0], field.spec.shape[1]};
}

std::string facts_of(const std::vector<FieldState>& fields) {
  std::string out;
  for (const FieldState& field : fields)
    out += (out.empty() ? "" : ", ") + field.spec.name + " " + field.spec.to_string();
  return out;
}

/// What makes an image of the field that was meant as one.
std::string make_an_image(const std::vector<FieldState>& fields) {
  const std::string wanted = "give uint8 of (height, width, channels) with 1, 3 or 4 channels";
  const auto channels = [](std::int64_t n) { return n == 1 || n == 3 || n == 4; };
  for (const FieldState& field : fields) {
    const TensorSpec& spec = field.spec;
    const std::string& name = spec.name;
    if (field.form == FieldState::Form::kEncoded)
      return "put .decode_image(fields=[\"" + name + "\"]) before";
    if (field.form != FieldState::Form::kTensor || spec.shape.size() < 2 || spec.shape.size() > 3) continue;
    if (spec.shape.size() == 2) return wanted + ": " + name + " has none, " + name + "[..., None] has 1";
    if (!channels(spec.shape[2]) && channels(spec.shape[0]))
      return wanted + " last: " + name + ".transpose(0, 2, 3, 1) turns CHW to HWC";
    if (!channels(spec.shape[2])) continue;
    if (spec.dtype != DType::kUint8)
      return wanted + ": " + name + " is " + std::string(dtype_name(spec.dtype)) +
             ", so convert it to 0..255: " + "(" + name + " * 255).astype(\"uint8\") where it is 0..1";
    if (name != kMainField) return "give the array of the images the name \"image\" in carya.arrays({...})";
  }
  return wanted + " under the name \"image\"";
}

/// Whether it is another image than the main one and what views made of that (FieldProgram::extra).
bool is_extra(std::string_view field) {
  return field != kMainField && field != "view_0" && field != "view_1";
}

// One size for all images of a sample: known dimensions must agree, and tell the unknown ones.
bool merge(ImageSize& into, ImageSize other) {
  const auto one = [](std::int64_t& a, std::int64_t b) {
    if (a >= 0 && b >= 0 && a != b) return false;
    if (a < 0) a = b;
    return true;
  };
  return one(into.height, other.height) && one(into.width, other.width);
}

}  // namespace

std::string size_text(ImageSize size) {
  const auto one = [](std::int64_t n) { return n < 0 ? std::string("?") : std::to_string(n); };
  return one(size.width) + "x" + one(size.height);
}

void follow(Objects& objects, std::span<const Step> steps) {
  for (const Step& step : steps) {
    switch (step.kind) {
      case Step::Kind::kWindow:
        objects.window(step.top, step.left, step.height, step.width);
        break;
      case Step::Kind::kResize:
        objects.resize(step.height, step.width);
        break;
      case Step::Kind::kFlip:
        objects.flip(step.flip_horizontal, step.flip_vertical);
        break;
      case Step::Kind::kWarp:
        objects.warp(step.matrix);
        break;
      case Step::Kind::kColor:
        break;
    }
  }
}

Status GeometricOp::resolve_with(SampleRng& rng, ImageSize in, Objects&, StepList& steps) const {
  return resolve(rng, in, steps);
}

Status GeometricOp::infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  ImageSize size;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const FieldState& field = fields[i];
    if (field.form == FieldState::Form::kEncoded && field.spec.name == kMainField)
      return fail(Code::kInvalidArgument, name() + ": image is still encoded; put decode_image before");
    if (field.form != FieldState::Form::kImage) continue;
    const bool looks_right = field.spec.dtype != DType::kInt64 && field.layout == Layout::kHwc;
    if (!looks_right || field.values)
      return fail(Code::kInvalidArgument,
                  name() + ": " + field.spec.name + " is " + field.spec.to_string() +
                      (field.layout == Layout::kChw ? " (CHW)" : " (HWC)") +
                      (looks_right ? " after an op on values" : "") +
                      "; give uint8 HWC images: put it before normalize, to_dtype and to_layout; "
                      "to_dtype(\"float32\") may come before");
    if (!merge(size, size_of(field)))
      return fail(Code::kInvalidArgument, name() + ": " + field.spec.name + " is " +
                                              size_text(size_of(field)) + " and an image before it " +
                                              size_text(size) + "; give images of one size (width x height)");
    TRY(check_channels(is_extra(field.spec.name), field.spec.shape[2]));
    indices.push_back(i);
  }
  if (indices.empty())
    return fail(Code::kInvalidArgument,
                name() + ": no image among the fields (" + facts_of(fields) + "); " + make_an_image(fields));
  TRY(check_fields(fields));
  ASSIGN(const ImageSize result, infer_size(size));
  for (const std::size_t i : indices) {
    fields[i].spec.shape[0] = result.height;
    fields[i].spec.shape[1] = result.width;
  }
  return {};
}

}  // namespace carya::transforms
