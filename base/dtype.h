#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace carya {

/// Element type of a tensor. The numbers are part of the slot format (shm/FORMAT.md) and never change.
enum class DType : std::uint8_t {
  kBool = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kUint32 = 6,
  kInt32 = 7,
  kUint64 = 8,
  kInt64 = 9,
  kFloat16 = 10,
  kFloat32 = 11,
  kFloat64 = 12,
};

/// Bytes of one element; 0 for a number that is no DType (it may come from shared memory).
std::size_t dtype_bytes(DType dtype);

/// numpy's name: "uint8", "float32", ...; "invalid" for a number that is no DType.
std::string_view dtype_name(DType dtype);

/// The dtype of numpy's name, if there is one.
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace carya
