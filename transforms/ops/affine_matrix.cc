#include "transforms/ops/affine_matrix.h"

#include <cmath>

#include "base/det_math.h"

namespace carya::transforms {
namespace {

// pi / 180, rounded.
constexpr double kRadian = 0.017453292519943295;

double rounded_15(double x) {
  return std::rint(x * 1e15) / 1e15;
}

}  // namespace

std::array<double, 6> affine_matrix(const AffineMove& move) {
  const double turn = move.angle * kRadian;
  const double shear_x = move.shear[0] * kRadian;
  const double shear_y = move.shear[1] * kRadian;
  const double tan_x = det_sin(shear_x) / det_cos(shear_x);
  const double cos_y = det_cos(shear_y);
  const double a = det_cos(turn - shear_y) / cos_y;
  const double b = -det_cos(turn - shear_y) * tan_x / cos_y - det_sin(turn);
  const double c = det_sin(turn - shear_y) / cos_y;
  const double d = -det_sin(turn - shear_y) * tan_x / cos_y + det_cos(turn);
  const auto [center_x, center_y] = move.center;
  const double from_x = -center_x - move.translate[0];
  const double from_y = -center_y - move.translate[1];
  std::array<double, 6> m{d / move.scale, -b / move.scale, 0.0, -c / move.scale, a / move.scale, 0.0};
  m[2] = m[0] * from_x + m[1] * from_y + center_x;
  m[5] = m[3] * from_x + m[4] * from_y + center_y;
  return m;
}

std::array<double, 6> rotation_matrix(double angle, std::array<double, 2> center) {
  const double turn = -((angle - 360.0 * std::floor(angle / 360.0)) * kRadian);
  const double cosine = rounded_15(det_cos(turn));
  const double sine = rounded_15(det_sin(turn));
  std::array<double, 6> m{cosine, sine, 0.0, -sine, cosine, 0.0};
  m[2] = m[0] * -center[0] + m[1] * -center[1] + center[0];
  m[5] = m[3] * -center[0] + m[4] * -center[1] + center[1];
  return m;
}

}  // namespace carya::transforms
