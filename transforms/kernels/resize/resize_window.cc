#include "transforms/kernels/resize/resize_window.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/det_math.h"
#include "base/error.h"

namespace carya::transforms {
namespace {

double cubic(double x, double a) {
  x = std::fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}

double triangle(double x) {
  x = std::fabs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

// sinc(x) sinc(x / 3) within 3 of the center. With t = pi x / 3, sin(3 t) = sin(t) (3 - 4 sin(t)^2): one sine for both.
double lanczos(double x) {
  x = std::fabs(x);
  if (x >= 3.0) return 0.0;
  if (x == 0.0) return 1.0;
  const double t = std::numbers::pi * x / 3.0;
  const double sine = det_sin(t);
  const double square = sine * sine;
  return square * (3.0 - 4.0 * square) / (3.0 * t * t);
}

double scale_of(const ResizeFilter& filter) {
  return static_cast<double>(filter.in_size) / static_cast<double>(filter.out_size);
}

bool is_bicubic(const ResizeFilter& filter) {
  return filter.interpolation == Interpolation::kBicubic;
}

// How far the filter reaches to each side at scale 1.
double support_of(const ResizeFilter& filter) {
  if (filter.interpolation == Interpolation::kLanczos) return 3.0;
  return is_bicubic(filter) ? 2.0 : 1.0;
}

double antialias_weight(const ResizeFilter& filter, double x) {
  if (filter.interpolation == Interpolation::kLanczos) return lanczos(x);
  return is_bicubic(filter) ? cubic(x, -0.5) : triangle(x);
}

InputWindow pillow_window(const ResizeFilter& filter, std::int64_t i, double* weights) {
  const double scale = scale_of(filter);
  const double inverse = 1.0 / std::max(1.0, scale);
  const double support = support_of(filter) * std::max(1.0, scale);
  const double center = (static_cast<double>(i) + 0.5) * scale;
  const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(center - support + 0.5));
  const auto last = std::min(filter.in_size, static_cast<std::int64_t>(center + support + 0.5));
  double sum = 0.0;
  for (std::int64_t k = 0; k < last - first; ++k) {
    const double x = (static_cast<double>(first + k) - center + 0.5) * inverse;
    weights[k] = antialias_weight(filter, x);
    sum += weights[k];
  }
  const double normal = sum != 0.0 ? 1.0 / sum : 1.0;
  for (std::int64_t k = 0; k < last - first; ++k) weights[k] *= normal;
  return {first, last - first};
}

InputWindow torch_window(const ResizeFilter& filter, std::int64_t i, double* weights) {
  CHECK(filter.interpolation != Interpolation::kLanczos);
  double at = scale_of(filter) * (static_cast<double>(i) + 0.5) - 0.5;
  const bool bicubic = is_bicubic(filter);
  if (!bicubic) at = std::max(at, 0.0);
  const double floor_at = std::floor(at);
  const double t = at - floor_at;
  const std::int64_t taps = bicubic ? 4 : 2;
  const std::int64_t base = static_cast<std::int64_t>(floor_at) - (bicubic ? 1 : 0);
  const auto inside = [&](std::int64_t x) { return std::clamp<std::int64_t>(x, 0, filter.in_size - 1); };
  const InputWindow window{inside(base), inside(base + taps - 1) - inside(base) + 1};
  for (std::int64_t k = 0; k < window.count; ++k) weights[k] = 0.0;
  for (std::int64_t k = 0; k < taps; ++k) {
    const double x = static_cast<double>(k - (bicubic ? 1 : 0)) - t;
    weights[inside(base + k) - window.start] += bicubic ? cubic(x, -0.75) : triangle(x);
  }
  return window;
}

}  // namespace

std::int64_t resize_window_max(const ResizeFilter& filter) {
  const double widened = filter.antialias ? std::max(1.0, scale_of(filter)) : 1.0;
  return static_cast<std::int64_t>(2.0 * support_of(filter) * widened) + 3;
}

InputWindow resize_window(const ResizeFilter& filter, std::int64_t i, double* weights) {
  return filter.antialias ? pillow_window(filter, i, weights) : torch_window(filter, i, weights);
}

std::int64_t nearest_index(std::int64_t i, std::int64_t in_size, std::int64_t out_size) {
  const float scale = static_cast<float>(in_size) / static_cast<float>(out_size);
  const auto at = static_cast<std::int64_t>(static_cast<float>(i) * scale);  // its floor: it is not negative
  return at < in_size - 1 ? at : in_size - 1;
}

}  // namespace carya::transforms
