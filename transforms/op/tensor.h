#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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

/// An allocator whose vectors grow by bytes that nobody has set: whoever makes a picture writes all of it, and zeros
/// before that cost as much as one of its operations.
struct UnsetBytes : std::allocator<std::byte> {
  template <typename>
  struct rebind {
    using other = UnsetBytes;
  };
  void construct(std::byte*) const noexcept {}
  void construct(std::byte* at, std::byte value) const noexcept { *at = value; }
};

/// A sample's tensor that owns its bytes, which are row-major without gaps. `train[i]` uses it, and streams of plans that
/// run op by op.
struct OwnedTensor {
  TensorSpec spec;
  std::vector<std::byte, UnsetBytes> data;
};

}  // namespace carya::transforms
