#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"

namespace carya::shm {

/// One tensor of a slot. Row-major, no gaps; `offset` is from the start of the slot, 64-byte aligned.
struct SlotTensor {
  std::string name;  ///< at most 63 bytes
  DType dtype = DType::kUint8;
  std::vector<std::uint64_t> shape;  ///< at most 8 dimensions; shape[0] is the most rows a batch has
  std::uint64_t offset = 0;          ///< set by SlotLayout
  std::uint64_t bytes() const;
  bool operator==(const SlotTensor&) const = default;
};

/// Where the tensors of a slot lie. Depends on the pipeline only, never on the plan. The slot starts with
/// this table (FORMAT.md), 4096-byte aligned tensors region after it.
class SlotLayout {
 public:
  static constexpr std::uint32_t kTensorsMax = 64;
  /// Errors: kInvalidArgument (too many tensors or dimensions, a name too long or twice, sizes past 2^48).
  static Result<SlotLayout> create(std::vector<SlotTensor> tensors);
  /// Read a table that somebody else wrote: everything is checked against `slot_bytes`. Errors: kCorrupt.
  static Result<SlotLayout> parse(const std::byte* slot, std::uint64_t slot_bytes);
  /// Write the table to the start of a slot of at least slot_bytes().
  void write(std::byte* slot) const;

  const std::vector<SlotTensor>& tensors() const { return tensors_; }
  std::uint64_t slot_bytes() const { return slot_bytes_; }  ///< rounded up to 2 MiB

 private:
  std::vector<SlotTensor> tensors_;
  std::uint64_t slot_bytes_ = 0;
};

}  // namespace carya::shm
