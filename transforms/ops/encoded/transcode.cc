#include "transforms/ops/encoded/transcode.h"

#include <algorithm>
#include <utility>

namespace carya::transforms {

Result<std::unique_ptr<Op>> Transcode::parse(Params& params) {
  const TranscodeSpec spec{
      .side_max = params.integer("max_side", 1, JpegWriter::kSideMax, TranscodeSpec{}.side_max),
      .quality = static_cast<int>(params.integer("quality", 1, 100, TranscodeSpec{}.quality))};
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<Transcode>(params.take_canonical(), spec, std::move(fields));
}

Transcode::Transcode(Json::Object canonical, const TranscodeSpec& spec,
                     std::optional<std::vector<std::string>> fields)
    : Op("transcode",
         OpTraits{.kind = OpKind::kUser,
                  .assumed_cost = {.fixed_ns = 20'000, .per_byte_in_ns = 12.0, .per_byte_out_ns = 12.0},
                  .writes_given_memory = false},
         std::move(canonical)),
      spec_(spec),
      fields_(std::move(fields)) {}

Status Transcode::infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  if (fields_) {
    ASSIGN(indices, find_fields(name(), fields, *fields_));
  } else {
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (fields[i].form == FieldState::Form::kEncoded) indices.push_back(i);
  }
  if (indices.empty())
    return fail(Code::kInvalidArgument,
                name() + ": no encoded field among " + field_names(fields) +
                    "; put it before decode_image, or take a source of encoded files (image_folder, files, "
                    "webdataset)");
  for (const std::size_t i : indices)
    if (fields[i].form != FieldState::Form::kEncoded)
      return fail(Code::kInvalidArgument, name() + ": " + fields[i].spec.name + " is " +
                                              fields[i].spec.to_string() +
                                              "; give fields that are still encoded");
  return {};
}

const Transcode* as_transcode(const Op& op) {
  return dynamic_cast<const Transcode*>(&op);
}

}  // namespace carya::transforms
