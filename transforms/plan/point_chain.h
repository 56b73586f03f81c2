#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/error.h"
#include "transforms/kernels/image/row_buffer.h"
#include "transforms/kernels/store/store.h"
#include "transforms/ops/point.h"

namespace carya::transforms {

/// One point op on one tensor, value by value: the reference that the fused stores must equal, and the way of
/// the chains that have no fused store.
///
/// Shape:   `shape` is that of `in`, the channel axis by step.layout_in; `out` has as many values, another
/// layout. Errors:  none. `in` and `out` have any alignment and do not overlap. Threads: pure. Cost:    ~1 ns
/// per value.
void apply_point_step(const PointStep& step, const std::vector<std::int64_t>& shape, const std::byte* in,
                      std::byte* out);

/// The shape after the step's change of layout.
std::vector<std::int64_t> shape_after(const PointStep& step, const std::vector<std::int64_t>& shape);

/// All point ops of one field, compiled. A chain on a uint8 picture with at most one computation (a
/// normalize or a cast to 0..1, or behind a plain cast to float32 one op on values) is one pass, in which the
/// flips that come before it ride along.
class PointChain {
 public:
  /// `shape` and `dtype` of what the chain is given; `image`: it may be called with rows.
  PointChain(std::vector<PointStep> steps, DType dtype, std::vector<std::int64_t> shape);

  bool empty() const { return steps_.empty(); }
  /// The one-pass form, if there is one: everything but height, width and flips is set.
  const std::optional<StoreSpec>& store() const { return store_; }
  /// Run on a whole tensor of the dtype and of `shape` (which may differ from the constructor's when
  /// dimensions were unknown). Errors: kExhausted.
  Status run(const std::vector<std::int64_t>& shape, const std::byte* in, std::byte* out,
             RowBuffer (&work)[2]) const;

 private:
  std::vector<PointStep> steps_;
  std::optional<StoreSpec> store_;
  std::vector<std::vector<std::int64_t>> shapes_;  // before each step
};

/// Copy to memory that this core does not read again soon: past the cache where that measures better.
/// Measured: bench/raw.
void copy_out(const std::byte* in, std::size_t bytes, std::byte* out);

/// Whether stores of so many bytes should bypass the cache.
bool worth_streaming(std::int64_t bytes);

}  // namespace carya::transforms
