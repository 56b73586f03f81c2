#include "transforms/ops/encoded/decode_raw.h"

#include <fmt/core.h>
#include <utility>

#include "transforms/op/array_row.h"

namespace carya::transforms {

Result<std::unique_ptr<Op>> DecodeRaw::parse(Params& params) {
  TensorSpec row = read_array_row(params, "");
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<DecodeRaw>(params.take_canonical(), std::move(row), std::move(fields));
}

DecodeRaw::DecodeRaw(Json::Object canonical, TensorSpec row, std::optional<std::vector<std::string>> fields)
    : Op("decode_raw",
         OpTraits{.kind = OpKind::kDecode, .assumed_cost = {.fixed_ns = 50, .per_byte_in_ns = 0.1}},
         std::move(canonical)),
      row_(std::move(row)),
      fields_(std::move(fields)) {}

Status DecodeRaw::infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  if (fields_) {
    ASSIGN(indices, find_fields(name(), fields, *fields_));
  } else {
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (fields[i].form == FieldState::Form::kEncoded) indices.push_back(i);
  }
  if (indices.empty())
    return fail(Code::kInvalidArgument,
                name() + ": no encoded field among " + field_names(fields) +
                    "; leave it out, or take a source of encoded records (files, webdataset, lmdb)");
  for (const std::size_t i : indices) {
    if (fields[i].form != FieldState::Form::kEncoded)
      return refuse(fields[i], "fields that are still encoded");
    fields[i].form = FieldState::Form::kTensor;
    fields[i].spec = row_of(fields[i].spec.name);
  }
  find_pictures(fields);
  return {};
}

Status DecodeRaw::check(const std::string& field, std::size_t bytes) const {
  if (static_cast<std::int64_t>(bytes) == row_.bytes()) return {};
  const std::string where = field == kMainField ? name() : name() + ": " + field;
  return fail(Code::kCorrupt,
              fmt::format("{}: {} B, and {} are {} B", where, bytes, row_.to_string(), row_.bytes()));
}

const DecodeRaw* as_decode_raw(const Op& op) {
  return dynamic_cast<const DecodeRaw*>(&op);
}

bool decodes_picture(const Op& op) {
  return op.traits().kind == OpKind::kDecode && as_decode_raw(op) == nullptr;
}

}  // namespace carya::transforms
