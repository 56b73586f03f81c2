#pragma once

#include <cstdint>

/// The part of DLPack's unversioned C interface that a CPU tensor needs. Source: DLPack 0.8, dlpack.h (its
/// layout is frozen).
extern "C" {
struct DLDevice {
  std::int32_t device_type;  // 1: CPU
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code;  // 0 int, 1 uint, 2 float, 6 bool
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // null: row-major without gaps
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};
}
