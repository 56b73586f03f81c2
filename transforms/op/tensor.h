#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace carya::transforms {

/// Name, element type and shape of one tensor of a sample. A dimension of -1 is known only when the bytes
/// are.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kUint8;
  std::vector<std::int64_t> shape;
  /// Bytes of one sample's tensor, or -1 while a dimension is unknown.
  std::int64_t bytes() const;
  /// "uint8[-1, -1, 3]" with "?" for unknown dimensions: "uint8[?, ?, 3]".
  std::string to_string() const;
  bool operator==(const TensorSpec&) const = default;
};

/// A sample's tensor that owns its bytes; row-major, without gaps. For debugging paths (`train[i]`), not for
/// streams.
struct OwnedTensor {
  TensorSpec spec;
  std::vector<std::byte> data;
};

}  // namespace carya::transforms
