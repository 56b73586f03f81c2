#pragma once

#include <array>

namespace carya::transforms {

/// A rotation by `angle`, a scaling and a shear around a center, followed by a shift.
struct AffineMove {
  double angle = 0.0;                 ///< degrees, clockwise
  std::array<double, 2> translate{};  ///< in pixels, to the right and down
  double scale = 1.0;                 ///< > 0
  std::array<double, 2> shear{};      ///< degrees, along x and along y; within -90..90
  std::array<double, 2> center{};     ///< x and y in pixels, from the upper left corner
};

/// The matrix that gives the origin of each pixel of the moved picture, as WarpSpec::matrix. It uses no libm, so that
/// all machines get the same bits (DESIGN section 4); they are within a few units in the last place of the reference.
/// Source: torchvision's _get_inverse_affine_matrix.
std::array<double, 6> affine_matrix(const AffineMove& move);

/// The same matrix for a rotation by `angle` degrees counter-clockwise around `center`. Source: Pillow's Image.rotate,
/// which also rounds sine and cosine to 15 digits.
std::array<double, 6> rotation_matrix(double angle, std::array<double, 2> center);

}  // namespace carya::transforms
