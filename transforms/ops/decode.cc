#include "transforms/ops/decode.h"

#include <algorithm>

namespace carya::transforms {

Result<std::unique_ptr<Op>> DecodeImage::parse(Params& params) {
  const ColorMode mode = params.choice("mode", {"RGB", "L"}) == 0 ? ColorMode::kRgb : ColorMode::kL;
  const bool apply_exif = params.boolean("apply_exif", false);
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<DecodeImage>(params.take_canonical(), mode, apply_exif, std::move(fields));
}

DecodeImage::DecodeImage(Json::Object canonical, ColorMode mode, bool apply_exif,
                         std::optional<std::vector<std::string>> fields)
    : Op("decode_image",
         OpTraits{.kind = OpKind::kDecode,
                  .assumed_cost = {.fixed_ns = 5'000, .per_byte_in_ns = 4.0, .per_element_out_ns = 0.45}},
         std::move(canonical)),
      mode_(mode),
      apply_exif_(apply_exif),
      fields_(std::move(fields)) {}

Status DecodeImage::infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  if (fields_) {
    ASSIGN(indices, find_fields(name(), fields, *fields_));
  } else {
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (fields[i].form == FieldState::Form::kEncoded) indices.push_back(i);
  }
  const auto decoded =
      std::ranges::find(fields, FieldState::Form::kImage, [](const FieldState& field) { return field.form; });
  if (indices.empty() && decoded != fields.end())
    return fail(Code::kInvalidArgument,
                name() + ": " + decoded->spec.name +
                    " is a picture already; call .decode_image() once, and not for arrays");
  if (indices.empty())
    return fail(Code::kInvalidArgument,
                name() + ": no encoded field among " + field_names(fields) +
                    "; leave it out, or take a source of encoded files (image_folder, files, webdataset)");
  for (const std::size_t i : indices) {
    FieldState& field = fields[i];
    if (field.form != FieldState::Form::kEncoded)
      return fail(Code::kInvalidArgument, name() + ": " + field.spec.name + " is " + field.spec.to_string() +
                                              "; give fields that are still encoded");
    field.form = FieldState::Form::kImage;
    field.layout = Layout::kHwc;
    field.spec.dtype = DType::kUint8;
    field.spec.shape = {-1, -1, color_channels(mode_)};
  }
  return {};
}

}  // namespace carya::transforms
