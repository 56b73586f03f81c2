#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/error.h"
#include "transforms/kernels/image/row_buffer.h"
#include "transforms/kernels/store/store.h"
#include "transforms/ops/point.h"

namespace carya::transforms {

/// Run one point op on one tensor, value by value. Fused stores must give the same bits; chains without a fused store
/// run this.
///
/// Shape:   `shape` is that of `in`, with the channel axis of step.layout_in; `out` has as many values in layout_out.
/// Errors:  none. `in` and `out` have any alignment and do not overlap.
/// Threads: pure.
/// Cost:    ~1 ns per value.
void apply_point_step(const PointStep& step, const std::vector<std::int64_t>& shape, const std::byte* in,
                      std::byte* out);

/// The shape after the step's change of layout.
std::vector<std::int64_t> shape_after(const PointStep& step, const std::vector<std::int64_t>& shape);

/// All point ops of one field, compiled. A chain on a uint8 picture is one pass if it has at most one computation: a
/// normalize, a cast to 0..1, or one op on values behind a plain cast to float32. Flips before the chain are part of
/// that pass.
class PointChain {
 public:
  /// `shape` and `dtype` are those of the chain's input.
  PointChain(std::vector<PointStep> steps, DType dtype, std::vector<std::int64_t> shape);

  bool empty() const { return steps_.empty(); }
  /// The form in one pass, if there is one. All is set except height, width and flips.
  const std::optional<StoreSpec>& store() const { return store_; }
  /// The type for which to_halves() follows, if it does: store() makes float32 values.
  std::optional<DType> halves() const { return halves_; }
  /// Run on a whole tensor of the constructor's dtype and of `shape`, which may differ from the constructor's if
  /// dimensions were unknown. Errors: kExhausted.
  Status run(const std::vector<std::int64_t>& shape, const std::byte* in, std::byte* out,
             RowBuffer (&work)[2]) const;

 private:
  std::vector<PointStep> steps_;
  std::optional<StoreSpec> store_;
  std::optional<DType> halves_;
  std::vector<std::vector<std::int64_t>> shapes_;  // before each step
};

/// Copy to memory that this core will not read soon: past the cache where measurements favour it. Measured: bench/raw.
void copy_out(const std::byte* in, std::size_t bytes, std::byte* out);

/// Whether stores of this many bytes should bypass the cache.
bool worth_streaming(std::int64_t bytes);

}  // namespace carya::transforms
