#pragma once

namespace carya {

/// exp, log, sin and cos with the same bits on every machine and compiler. They use only +, -, x, / and published
/// coefficients, no libm (DESIGN section 4). The error is at most 2 ulp in the range. Threads: pure. Range: det_exp:
/// |x| <= 700. det_log: x > 0, normal. det_sin, det_cos: |x| <= 1e6. CHECKs the range.
double det_exp(double x);
double det_log(double x);
double det_sin(double x);
double det_cos(double x);

}  // namespace carya
