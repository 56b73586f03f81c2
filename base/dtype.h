#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace carya {

/// The element type of a tensor. The numbers are part of the slot format (shm/FORMAT.md) and never change.
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
  kBfloat16 = 13,
};

/// The bytes of one element; 0 if `dtype` has another number, which may come from shared memory.
std::size_t dtype_bytes(DType dtype);

/// numpy's name of the type: "uint8", "float32", ... ("bfloat16" is ml_dtypes'); "invalid" if `dtype` has another number.
std::string_view dtype_name(DType dtype);

/// The type with this numpy name, if there is one.
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace carya
