#include "transforms/ops/geometry.h"

namespace carya::transforms {
namespace {

ImageSize size_of(const FieldState& field) {
  return {field.spec.shape[0], field.spec.shape[1]};
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
                      "; allowed: uint8 HWC images: put it before normalize, to_dtype and to_layout; "
                      "to_dtype(\"float32\") may come before");
    if (!merge(size, size_of(field)))
      return fail(Code::kInvalidArgument, name() + ": " + field.spec.name + " is " +
                                              size_text(size_of(field)) + " and an image before it " +
                                              size_text(size) +
                                              "; allowed: images of one size (width x height)");
    TRY(check_channels(field.spec.shape[2]));
    indices.push_back(i);
  }
  if (indices.empty())
    return fail(Code::kInvalidArgument, name() + ": no image among the fields (" + field_names(fields) +
                                            "); an encoded field needs decode_image before, an array of "
                                            "uint8 (height, width, 1, 3 or 4) the name \"image\"");
  ASSIGN(const ImageSize result, infer_size(size));
  for (const std::size_t i : indices) {
    fields[i].spec.shape[0] = result.height;
    fields[i].spec.shape[1] = result.width;
  }
  return {};
}

}  // namespace carya::transforms
