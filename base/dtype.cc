#include "base/dtype.h"

#include <array>

namespace carya {
namespace {

struct Entry {
  DType dtype;
  std::size_t bytes;
  std::string_view name;
};

constexpr std::array<Entry, 13> kEntries{{{DType::kBool, 1, "bool"},
                                          {DType::kUint8, 1, "uint8"},
                                          {DType::kInt8, 1, "int8"},
                                          {DType::kUint16, 2, "uint16"},
                                          {DType::kInt16, 2, "int16"},
                                          {DType::kUint32, 4, "uint32"},
                                          {DType::kInt32, 4, "int32"},
                                          {DType::kUint64, 8, "uint64"},
                                          {DType::kInt64, 8, "int64"},
                                          {DType::kFloat16, 2, "float16"},
                                          {DType::kFloat32, 4, "float32"},
                                          {DType::kFloat64, 8, "float64"},
                                          {DType::kBfloat16, 2, "bfloat16"}}};

}  // namespace

std::size_t dtype_bytes(DType dtype) {
  for (const Entry& entry : kEntries)
    if (entry.dtype == dtype) return entry.bytes;
  return 0;
}

std::string_view dtype_name(DType dtype) {
  for (const Entry& entry : kEntries)
    if (entry.dtype == dtype) return entry.name;
  return "invalid";
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Entry& entry : kEntries)
    if (entry.name == name) return entry.dtype;
  return std::nullopt;
}

}  // namespace carya
