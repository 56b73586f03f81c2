#include "transforms/user/user_op.h"

#include <algorithm>
#include <utility>

namespace carya::transforms {
namespace {

OpTraits traits_of(const UserLibrary& library) {
  return {.kind = OpKind::kUser,
          .random = library.is_random(),
          .assumed_cost = {.fixed_ns = 1000, .per_byte_in_ns = 0.5, .per_byte_out_ns = 0.5},
          .writes_given_memory = false,
          .version = library.revision()};
}

}  // namespace

Result<std::unique_ptr<Op>> UserOp::parse(Params& params) {
  const std::string name = params.string("name");
  const std::string digest = params.string("digest");
  const Json& given = params.raw("parameters");
  if (!given.get<Json::Object>()) params.reject("parameters", "an object");
  const std::string parameters = given.text();
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  ASSIGN(auto library, find_user_library(name, digest));
  return std::make_unique<UserOp>(params.take_canonical(), std::move(library), parameters, std::move(fields));
}

UserOp::UserOp(Json::Object canonical, std::shared_ptr<const UserLibrary> library, std::string parameters,
               std::optional<std::vector<std::string>> fields)
    : Op(library->name(), traits_of(*library), std::move(canonical)),
      library_(std::move(library)),
      parameters_(std::move(parameters)),
      fields_(std::move(fields)) {}

bool UserOp::takes(const std::string& field) const {
  return fields_ ? std::ranges::find(*fields_, field) != fields_->end() : field == kMainField;
}

Status UserOp::infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  ASSIGN(indices, fields_or_main(name(), fields, fields_));
  for (const std::size_t i : indices) {
    FieldState& field = fields[i];
    if (field.form == FieldState::Form::kEncoded)
      return refuse(field, "decoded fields: put decode_image before");
    if (field.form == FieldState::Form::kLabel) return refuse(field, "images and arrays, no label");
    if (field.form == FieldState::Form::kObjects) return refuse(field, "images and arrays, no boxes");
    if (field.form == FieldState::Form::kTensor && field.spec.bytes() < 0)
      return refuse(field, "images and arrays of one shape");
    if (field.spec.shape.size() > CARYA_OP_DIMENSIONS_MAX)
      return refuse(field, "arrays of at most 8 dimensions");
    const DType before = field.spec.dtype;
    ASSIGN(TensorSpec made, library_->plan(parameters_, field.spec));
    field.spec = std::move(made);
    const auto& shape = field.spec.shape;
    // A picture stays one where it still looks like one; what its values mean is known for levels only.
    const bool picture = field.form == FieldState::Form::kImage && shape.size() == 3 &&
                         field.layout == Layout::kHwc && (shape[2] == 1 || shape[2] == 3 || shape[2] == 4) &&
                         field.spec.dtype == before;
    if (!picture) field.form = FieldState::Form::kTensor;
    if (field.spec.dtype != DType::kUint8) field.values = true;
  }
  return {};
}

}  // namespace carya::transforms
