#pragma once

#include <array>

namespace carya::transforms {

/// A turn by `angle`, a stretch by `scale` and a shear, around a center, and then a shift.
struct AffineMove {
  double angle = 0.0;                 ///< degrees, clockwise
  std::array<double, 2> translate{};  ///< pixels to the right and down
  double scale = 1.0;                 ///< > 0
  std::array<double, 2> shear{};      ///< degrees, along x and along y; within -90..90
  std::array<double, 2> center{};     ///< x and y, from the upper left corner
};

/// Where each pixel of the moved picture comes from, as WarpSpec::matrix. No libm: the same bits on every
/// machine (DESIGN section 4), within a few units in the last place of the reference. Source: torchvision's
/// _get_inverse_affine_matrix.
std::array<double, 6> affine_matrix(const AffineMove& move);

/// The same for a turn by `angle` degrees counter-clockwise around `center`.
/// Source: Pillow's Image.rotate, with sine and cosine rounded to 15 digits as there.
std::array<double, 6> rotation_matrix(double angle, std::array<double, 2> center);

}  // namespace carya::transforms
