#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "transforms/op/op.h"
#include "transforms/op/params.h"

namespace carya::transforms {

/// Takes the bytes of an encoded field for an array of one type and shape, its values little-endian and row by row.
/// Source: numpy.frombuffer(data, dtype).reshape(shape). A plan has no work with it beside the check of the length.
class DecodeRaw final : public Op {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  DecodeRaw(Json::Object canonical, TensorSpec row, std::optional<std::vector<std::string>> fields);
  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const override;

  /// The array of a field of this name.
  TensorSpec row_of(const std::string& field) const { return {field, row_.dtype, row_.shape}; }
  /// Errors: kCorrupt unless a record's field has the bytes of the array.
  Status check(const std::string& field, std::size_t bytes) const;

 private:
  TensorSpec row_;  // without a name
  std::optional<std::vector<std::string>> fields_;
};

/// The op as what it is; null: it is another.
const DecodeRaw* as_decode_raw(const Op& op);
/// Whether the op is decode_image, the only other one of its kind.
bool decodes_picture(const Op& op);

}  // namespace carya::transforms
