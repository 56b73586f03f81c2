#pragma once

#include <cstdint>
#include <memory>

#include "transforms/kernels/image/image_view.h"
#include "transforms/simd/patience.h"

namespace carya {
class BandRunner;
}

namespace carya::transforms {

enum class Interpolation : std::uint8_t { kNearest, kBilinear, kBicubic, kLanczos };

/// Whether a filter has negative weights, so that its results may lie outside of its inputs' range.
constexpr bool overshoots(Interpolation interpolation) {
  return interpolation == Interpolation::kBicubic || interpolation == Interpolation::kLanczos;
}

struct ResizeSpec {
  std::int64_t out_height = 0;  ///< > 0
  std::int64_t out_width = 0;   ///< > 0
  Interpolation interpolation = Interpolation::kBilinear;
  /// true: the filter widens with the scale, as in Pillow's resize (bicubic a = -0.5). false: torch's interpolate with
  /// align_corners=False (bicubic a = -0.75; no Lanczos). Nearest has no filter: floor(i * in / out), as in torch.
  bool antialias = true;
  bool flip_horizontal = false;  ///< nearest only: the input is mirrored before
  bool flip_vertical = false;    ///< nearest only
};

/// Separable fixed-point resize. It keeps its tables and bands of rows between pictures.
///
/// Exact:   integer arithmetic, same bits on every SIMD target; within 1 level of Pillow for >= 99.9 % of values, never
///          over 2. A size that does not change is passed through unchanged.
/// Threads: owner only.
/// Cost:    no heap allocation once tables of that size have been made. It works on few rows at a time, so they stay in
///          cache.
/// Source:  Pillow's Resample.c (filters, windows), torch's UpSample.h (antialias=false); kernel_resize_test.cc.
class Resizer {
 public:
  Resizer();
  ~Resizer();
  Resizer(Resizer&&) noexcept;
  Resizer& operator=(Resizer&&) noexcept;

  /// Resize `in` (1, 3 or 4 channels; not empty). `sink` gets row after row of out_width * channels bytes.
  void resize_rows(const ImageView& in, const ResizeSpec& spec, const RowSink& sink);

  /// Ask `patience` (null: nobody) during a resize, which may end early. It must stay valid until another is set.
  void set_patience(Patience* patience);

  /// Resize into `out`, whose size must be that of `spec`.
  void resize(const ImageView& in, const ResizeSpec& spec, const MutableImageView& out);

  /// Resize into `out`, in bands of output rows that `runner` may run at the same time. May throw std::bad_alloc.
  void resize_in_bands(const ImageView& in, const ResizeSpec& spec, const MutableImageView& out,
                       BandRunner& runner);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace carya::transforms
