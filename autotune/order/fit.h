#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "autotune/order/op_model.h"

namespace carya::autotune {

/// What an op should have taken by its assumed cost, at the sizes that were measured.
struct StagePart {
  std::size_t op = 0;
  double assumed_ns = 0;
};

/// What some ops took together, in the mean of some samples. An op belongs to one stage of a plan.
struct MeasuredStage {
  std::vector<StagePart> parts;
  double ns = 0;
  double samples = 0;
};

/// How an assumed cost has to be scaled.
struct OpFit {
  double factor = 1;
  double samples = 0;  ///< of all stages that it was in
  double alone_samples =
      0;  ///< of those that were its own; 0: the factor only shares out what others took too
};

struct Fit {
  double machine = 1;  ///< for ops that nobody measured: what was measured as a share of what was assumed
  std::vector<OpFit> ops;
};

/// Factors for the assumed costs of `ops` ops, so that the stages cost what was measured. The shape of a cost
/// (its share per byte, per element, fixed) stays what was assumed: a mean is one point of it. Least squares
/// of the relative errors, drawn softly to `machine`, which settles what a stage of several ops leaves open:
/// each of them is scaled, and none is charged for all. Stages with numbers that cannot be are left out.
/// Pure. Factors are finite and above 0.
Fit fit_costs(std::size_t ops, std::span<const MeasuredStage> stages);

FittedCost scaled(const FittedCost& cost, double factor);

}  // namespace carya::autotune
