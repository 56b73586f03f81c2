#pragma once

#include <cstdint>

#include "transforms/kernels/resize/resize.h"

namespace carya::transforms {

/// The resize of one dimension. Sizes are in 1..INT32_MAX.
struct ResizeFilter {
  std::int64_t in_size = 1;
  std::int64_t out_size = 1;
  Interpolation interpolation =
      Interpolation::kBilinear;  ///< kBilinear, kBicubic, or kLanczos with antialias
  bool antialias = true;
  bool operator==(const ResizeFilter&) const = default;
};

/// Inputs [start, start + count).
struct InputWindow {
  std::int64_t start = 0;
  std::int64_t count = 0;
};

/// The most weights that resize_window() writes.
std::int64_t resize_window_max(const ResizeFilter& filter);

/// The inputs of output i. weights[k] is that of input start + k, and they add up to 1. With antialias the filter is
/// widened to the scale, cut at the borders and normalized again (source: Pillow, Resample.c, precompute_coeffs).
/// Without it there are two or four neighbours at any scale, and a neighbour outside counts for the border (source:
/// torch, UpSample.h, area_pixel_compute_source_index and get_cubic_upsample_coefficients). Exact: sums, products and
/// quotients of doubles in a fixed order; the sines of Lanczos are det_sin.
InputWindow resize_window(const ResizeFilter& filter, std::int64_t i, double* weights);

/// The input that output i of the nearest filter takes. It computes in float32 to give torch's index. Source: torch,
/// UpSample.h, nearest_neighbor_compute_source_index.
std::int64_t nearest_index(std::int64_t i, std::int64_t in_size, std::int64_t out_size);

}  // namespace carya::transforms
