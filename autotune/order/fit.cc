#include "autotune/order/fit.h"

#include <algorithm>
#include <cmath>

namespace carya::autotune {
namespace {

/// A stage of so many samples counts half of what one of very many does.
constexpr double kHalfWeightSamples = 8;
/// What an error of the machine's factor counts beside one of a stage.
constexpr double kPull = 0.001;
/// No op is so much dearer or cheaper than the machine's factor says.
constexpr double kFactorRange = 50;
/// An op is alone when what else was in its stage should have taken at most this share.
constexpr double kAloneShare = 0.02;
constexpr int kSweepsMax = 1000;
constexpr double kConverged = 1e-9;

double weight(const MeasuredStage& stage) {
  return stage.samples / (stage.samples + kHalfWeightSamples);
}

double assumed_ns(const MeasuredStage& stage) {
  double sum = 0;
  for (const StagePart& part : stage.parts) sum += part.assumed_ns;
  return sum;
}

bool is_measured(const MeasuredStage& stage, std::size_t ops) {
  const auto good = [](double number) { return std::isfinite(number) && number > 0; };
  return good(stage.ns) && good(stage.samples) && good(assumed_ns(stage)) &&
         std::ranges::all_of(stage.parts, [&](const StagePart& part) {
           return part.op < ops && std::isfinite(part.assumed_ns) && part.assumed_ns >= 0;
         });
}

void count_samples(const MeasuredStage& stage, Fit& fit) {
  const double whole = assumed_ns(stage);
  for (const StagePart& part : stage.parts) {
    OpFit& op = fit.ops[part.op];
    op.samples += stage.samples;
    if (whole - part.assumed_ns <= kAloneShare * whole) op.alone_samples += stage.samples;
  }
}

/// The factor of one op that fits best while the others stay. `errors`: of each stage, as a share of it.
double best_factor(std::size_t op, const Fit& fit, std::span<const MeasuredStage> stages,
                   std::span<const double> errors) {
  // Minimal in f: sum of w * (error - (f - now) * slope)^2 + pull * (f / machine - 1)^2.
  const double now = fit.ops[op].factor;
  const double pull = kPull / (fit.machine * fit.machine);
  double above = pull * fit.machine;
  double below = pull;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    double slope = 0;
    for (const StagePart& part : stages[s].parts)
      if (part.op == op) slope += part.assumed_ns / stages[s].ns;
    above += weight(stages[s]) * slope * (errors[s] + now * slope);
    below += weight(stages[s]) * slope * slope;
  }
  return std::clamp(above / below, fit.machine / kFactorRange, fit.machine * kFactorRange);
}

void change_factor(std::size_t op, double factor, Fit& fit, std::span<const MeasuredStage> stages,
                   std::span<double> errors) {
  const double more = factor - fit.ops[op].factor;
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (const StagePart& part : stages[s].parts)
      if (part.op == op) errors[s] -= more * part.assumed_ns / stages[s].ns;
  fit.ops[op].factor = factor;
}

}  // namespace

// Coordinate descent: the function is convex, and with the pull strictly so, so that it ends at its minimum.
Fit fit_costs(std::size_t ops, std::span<const MeasuredStage> given) {
  Fit fit;
  fit.ops.resize(ops);
  std::vector<MeasuredStage> stages;
  double measured = 0;
  double assumed = 0;
  for (const MeasuredStage& stage : given) {
    if (!is_measured(stage, ops)) continue;
    measured += weight(stage) * stage.ns;
    assumed += weight(stage) * assumed_ns(stage);
    count_samples(stage, fit);
    stages.push_back(stage);
  }
  if (stages.empty()) return fit;
  fit.machine = measured / assumed;
  for (OpFit& op : fit.ops) op.factor = fit.machine;
  std::vector<double> errors;
  for (const MeasuredStage& stage : stages) errors.push_back(1 - fit.machine * assumed_ns(stage) / stage.ns);
  for (int sweep = 0; sweep < kSweepsMax; ++sweep) {
    double moved = 0;
    for (std::size_t op = 0; op < ops; ++op) {
      if (fit.ops[op].samples == 0) continue;
      const double factor = best_factor(op, fit, stages, errors);
      moved = std::max(moved, std::abs(factor - fit.ops[op].factor) / fit.machine);
      change_factor(op, factor, fit, stages, errors);
    }
    if (moved < kConverged) break;
  }
  return fit;
}

FittedCost scaled(const FittedCost& cost, double factor) {
  return {.fixed_ns = cost.fixed_ns * factor,
          .per_byte_in_ns = cost.per_byte_in_ns * factor,
          .per_element_in_ns = cost.per_element_in_ns * factor,
          .per_byte_out_ns = cost.per_byte_out_ns * factor,
          .per_element_out_ns = cost.per_element_out_ns * factor};
}

}  // namespace carya::autotune
