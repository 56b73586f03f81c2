#include "transforms/op/array_row.h"

#include <fmt/core.h>
#include <algorithm>
#include <optional>

#include "base/checked.h"

namespace carya::transforms {
namespace {

constexpr std::size_t kDimensionsMax = 8;
constexpr std::int64_t kRowBytesMax = std::int64_t{1} << 32;

bool can_be_picture(const FieldState& field) {
  const auto& shape = field.spec.shape;
  const bool is_array = field.form == FieldState::Form::kTensor || field.form == FieldState::Form::kImage;
  return is_array && !field.values && field.rows_max < 0 && field.spec.dtype == DType::kUint8 &&
         shape.size() == 3 && (shape[2] == 1 || shape[2] == 3 || shape[2] == 4);
}

}  // namespace

TensorSpec read_array_row(Params& params, const std::string& name) {
  const std::string type = params.string("dtype");
  std::optional<DType> dtype = dtype_from_name(type);
  if (dtype == DType::kBfloat16) dtype.reset();  // of what is made, not of what is read
  if (!dtype)
    params.reject("dtype", "a numpy name of bool, int, uint or float of 8 to 64 bits, as \"uint8\"");
  std::vector<std::int64_t> shape = params.integers("shape", 0, kDimensionsMax, 1, kRowBytesMax,
                                                    "the shape of one row, at most 8 dimensions");
  std::int64_t bytes = dtype ? static_cast<std::int64_t>(dtype_bytes(*dtype)) : 1;
  for (const std::int64_t dimension : shape) {
    const auto product = checked_mul(bytes, dimension);
    if (!product || *product > kRowBytesMax) {
      params.reject("shape", fmt::format("at most {} B per row", kRowBytesMax));
      break;
    }
    bytes = *product;
  }
  return {name, dtype.value_or(DType::kUint8), std::move(shape)};
}

void find_pictures(std::vector<FieldState>& fields) {
  const auto main = std::ranges::find_if(
      fields, [](const FieldState& field) { return field.spec.name == kMainField && can_be_picture(field); });
  if (main == fields.end()) return;
  const std::vector<std::int64_t> shape = main->spec.shape;
  for (FieldState& field : fields)
    if (can_be_picture(field) && field.spec.shape[0] == shape[0] && field.spec.shape[1] == shape[1])
      field.form = FieldState::Form::kImage;
}

}  // namespace carya::transforms
