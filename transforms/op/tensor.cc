#include "transforms/op/tensor.h"

namespace carya::transforms {

std::int64_t TensorSpec::bytes() const {
  auto bytes = static_cast<std::int64_t>(dtype_bytes(dtype));
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return -1;
    bytes *= dimension;
  }
  return bytes;
}

std::string TensorSpec::to_string() const {
  std::string out(dtype_name(dtype));
  out += '[';
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    out += shape[i] < 0 ? std::string("?") : std::to_string(shape[i]);
  }
  out += ']';
  return out;
}

}  // namespace carya::transforms
