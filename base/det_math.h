#pragma once

namespace carya {

/// exp, log, sin and cos with the same bits on every machine and compiler: plain +, -, x, / with published
/// coefficients, no libm (DESIGN section 4). Error at most 2 ulp over the range stated. Threads: pure.
/// det_exp: |x| <= 700. det_log: x > 0, normal. det_sin, det_cos: |x| <= 1e6.
double det_exp(double x);
double det_log(double x);
double det_sin(double x);
double det_cos(double x);

}  // namespace carya
