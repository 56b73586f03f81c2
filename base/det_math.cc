#include "base/det_math.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/error.h"

// Source of every coefficient: Sun's fdlibm 5.3 (Freely Distributable LIBM), e_exp, e_log, k_sin, k_cos,
// e_rem_pio2. Only +, -, x, / and rint, each rounded once, in the order written: all targets build with
// -ffp-contract=off.

namespace carya {
namespace {

constexpr double kLn2High = 6.93147180369123816490e-01;  // 32 bits, so k * kLn2High is exact
constexpr double kLn2Low = 1.90821492927058770002e-10;
constexpr double kInvLn2 = 1.44269504088896338700e+00;
constexpr double kTwoOverPi = 6.36619772367581382433e-01;
// pi / 2 in three parts of 33 bits (each exact times a number below 2^20) and a rest.
constexpr double kHalfPi1 = 1.57079632673412561417e+00;
constexpr double kHalfPi2 = 6.07710050630396597660e-11;
constexpr double kHalfPi3 = 2.02226624871116645580e-21;
constexpr double kHalfPi4 = 8.47842766036889956997e-32;

/// 2^exponent for -1022..1023.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// x - quadrant * pi / 2 as high + low, |high| <= pi / 4 (a little more at the seam).
struct Reduced {
  double high;
  double low;
  unsigned quadrant;  // modulo 4
};

/// a - b as a rounded difference and its exact error. Source: Knuth, TAOCP 2, 4.2.2 (two-sum).
struct Difference {
  double value;
  double error;
};
Difference exact_difference(double a, double b) {
  const double value = a - b;
  const double b_seen = a - value;
  return {value, (a - (value + b_seen)) + (b_seen - b)};
}

Reduced reduce(double x) {
  CHECK(x >= -1e6 && x <= 1e6);
  const double n = std::rint(x * kTwoOverPi);
  const double rest = x - n * kHalfPi1;  // exact: both are multiples of the same power of two, and close
  const Difference second = exact_difference(rest, n * kHalfPi2);
  const Difference third = exact_difference(second.value, n * kHalfPi3);
  const double tail = (second.error + third.error) - n * kHalfPi4;
  const double high = third.value + tail;
  return {high, (third.value - high) + tail, static_cast<unsigned>(static_cast<std::int64_t>(n)) & 3};
}

double sin_kernel(double x, double low) {
  const double z = x * x;
  const double cube = z * x;
  const double r = 8.33333333332248946124e-03 +
                   z * (-1.98412698298579493134e-04 +
                        z * (2.75573137070700676789e-06 +
                             z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)));
  return x - ((z * (0.5 * low - cube * r) - low) - cube * -1.66666666666666324348e-01);
}

double cos_kernel(double x, double low) {
  const double z = x * x;
  const double r = z * (4.16666666666666019037e-02 +
                        z * (-1.38888888888741095749e-03 +
                             z * (2.48015872894767294178e-05 +
                                  z * (-2.75573143513906633035e-07 +
                                       z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  const double half_square = 0.5 * z;
  const double head = 1.0 - half_square;
  return head + (((1.0 - head) - half_square) + (z * r - x * low));
}

/// sin(x + quadrants * pi / 2).
double sin_of(const Reduced& x, unsigned quadrants) {
  switch ((x.quadrant + quadrants) & 3) {
    case 0:
      return sin_kernel(x.high, x.low);
    case 1:
      return cos_kernel(x.high, x.low);
    case 2:
      return -sin_kernel(x.high, x.low);
    default:
      return -cos_kernel(x.high, x.low);
  }
}

}  // namespace

double det_exp(double x) {
  CHECK(x >= -700.0 && x <= 700.0);
  const double k = std::rint(x * kInvLn2);
  const double high = x - k * kLn2High;
  const double low = k * kLn2Low;
  const double r = high - low;
  const double z = r * r;
  const double c = r - z * (1.66666666666666019037e-01 +
                            z * (-2.77777777770155933842e-03 +
                                 z * (6.61375632143793436117e-05 +
                                      z * (-1.65339022054652515390e-06 + z * 4.13813679705723846039e-08))));
  const double y = 1.0 - ((low - (r * c) / (2.0 - c)) - high);
  return y * power_of_two(static_cast<int>(k));
}

double det_log(double x) {
  CHECK(x >= 0x1p-1022 && x <= 0x1.fffffffffffffp1023);
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000);
  if (m > 1.41421356237309504880) {  // keep m in (sqrt(1/2), sqrt(2)], so that f is small
    m *= 0.5;
    ++exponent;
  }
  const double k = exponent;
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double r =
      z * (6.666666666666735130e-01 +
           z * (3.999999999940941908e-01 +
                z * (2.857142874366239149e-01 +
                     z * (2.222219843214978396e-01 +
                          z * (1.818357216161805012e-01 +
                               z * (1.531383769920937332e-01 + z * 1.479819860511658591e-01))))));
  const double half_square = 0.5 * f * f;
  return k * kLn2High - ((half_square - (s * (half_square + r) + k * kLn2Low)) - f);
}

double det_sin(double x) {
  return sin_of(reduce(x), 0);
}
double det_cos(double x) {
  return sin_of(reduce(x), 1);
}

}  // namespace carya
