#pragma once

#include <cstdint>
#include <memory>

#include "transforms/kernels/image/image_view.h"

namespace carya::transforms {

enum class Interpolation : std::uint8_t { kNearest, kBilinear, kBicubic };

struct ResizeSpec {
  std::int64_t out_height = 0;  ///< > 0
  std::int64_t out_width = 0;   ///< > 0
  Interpolation interpolation = Interpolation::kBilinear;
  /// true: the filter widens with the scale, as Pillow's resize (bicubic a = -0.5).
  /// false: torch's interpolate, align_corners=False (bicubic a = -0.75). Nearest has no filter: floor(i * in
  /// / out), as torch.
  bool antialias = true;
};

/// Separable fixed-point resize with its tables and bands of rows, kept between pictures.
///
/// Exact:   integer arithmetic, same bits on every SIMD target; within 1 level of Pillow for >= 99.9 % of
/// values, never over 2.
///          A size that does not change is passed through unchanged.
/// Threads: owner only.
/// Cost:    no heap allocation once tables of that size have been seen; only the current rows are in work, so
/// it stays in cache. Source:  Pillow's Resample.c (filters, windows), torch's UpSample.h (antialias=false);
/// kernel_resize_test.cc.
class Resizer {
 public:
  Resizer();
  ~Resizer();
  Resizer(Resizer&&) noexcept;
  Resizer& operator=(Resizer&&) noexcept;

  /// Resize `in` (1, 3 or 4 channels; not empty) and give row after row of out_width * channels bytes to
  /// `sink`.
  void resize_rows(const ImageView& in, const ResizeSpec& spec, const RowSink& sink);

  /// The same into `out`, whose size must be that of `spec`.
  void resize(const ImageView& in, const ResizeSpec& spec, const MutableImageView& out);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace carya::transforms
