#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace carya::transforms {

/// The name, element type and shape of one tensor of a sample. A dimension of -1 is not known before the bytes are
/// read.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kUint8;
  std::vector<std::int64_t> shape;
  /// Bytes of one sample's tensor, or -1 while a dimension is unknown.
  std::int64_t bytes() const;
  /// "uint8[224, 224, 3]"; an unknown dimension is "?": "uint8[?, ?, 3]".
  std::string to_string() const;
  bool operator==(const TensorSpec&) const = default;
};

/// A sample's tensor that owns its bytes, which are row-major without gaps. Debugging paths use it (`train[i]`);
/// streams do not.
struct OwnedTensor {
  TensorSpec spec;
  std::vector<std::byte> data;
};

}  // namespace carya::transforms
