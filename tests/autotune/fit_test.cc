#include "autotune/order/fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace carya::autotune {
namespace {

using Stages = std::vector<MeasuredStage>;

TEST(Fit, AnOpThatWasAStageOfItsOwnCostsWhatWasMeasured) {
  const Stages stages{{{{0, 1000}}, 3000, 500}, {{{1, 400}}, 100, 500}};
  const Fit fit = fit_costs(2, stages);
  EXPECT_NEAR(fit.ops[0].factor, 3, 0.03);
  EXPECT_NEAR(fit.ops[1].factor, 0.25, 0.02);
  EXPECT_EQ(fit.ops[0].alone_samples, 500);
}

TEST(Fit, WhatNobodyMeasuredIsScaledAsTheMachineIs) {
  const Stages stages{{{{0, 1000}}, 2000, 500}, {{{2, 1000}}, 2400, 500}};
  const Fit fit = fit_costs(3, stages);
  EXPECT_NEAR(fit.machine, 2.2, 1e-9);
  EXPECT_EQ(fit.ops[1].factor, fit.machine);
  EXPECT_EQ(fit.ops[1].samples, 0);
}

TEST(Fit, AStageOfSeveralOpsIsSharedAndChargedToNoneAlone) {
  const Stages stages{{{{0, 1000}, {1, 500}, {2, 500}}, 4000, 500}};
  const Fit fit = fit_costs(3, stages);
  for (const OpFit& op : fit.ops) {
    EXPECT_NEAR(op.factor, 2, 0.05);
    EXPECT_EQ(op.samples, 500);
    EXPECT_EQ(op.alone_samples, 0);
  }
}

TEST(Fit, AStageAndPartOfItTellTheRest) {
  // 0 and 1 together took 6 us, 0 alone 5 of them: 1 is much cheaper than it was assumed to be.
  const Stages stages{{{{0, 1000}, {1, 1000}}, 6000, 5000}, {{{0, 1000}}, 5000, 5000}};
  const Fit fit = fit_costs(2, stages);
  EXPECT_NEAR(fit.ops[0].factor, 5, 0.2);
  EXPECT_NEAR(fit.ops[1].factor, 1, 0.3);
}

TEST(Fit, FewSamplesAreBelievedLess) {
  const Stages many{{{{0, 1000}}, 1000, 100'000}, {{{1, 1000}}, 3000, 100'000}};
  Stages few = many;
  few[1].samples = 0.05;
  EXPECT_LT(fit_costs(2, few).ops[1].factor, fit_costs(2, many).ops[1].factor - 0.2);
}

TEST(Fit, OpsOfHardlyAnyCostLeaveTheOtherAlone) {
  const Stages stages{{{{0, 1000}, {1, 10}}, 2000, 64}};
  const Fit fit = fit_costs(2, stages);
  EXPECT_EQ(fit.ops[0].alone_samples, 64);
  EXPECT_EQ(fit.ops[1].alone_samples, 0);
}

TEST(Fit, NumbersThatCannotBeAreLeftOut) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  Stages stages{{{{0, 1000}}, 2000, 100}};
  const double expected = fit_costs(2, stages).ops[0].factor;
  for (const double bad : {nan, inf, -1.0, 0.0}) {
    stages.push_back({{{0, 1000}}, bad, 100});
    stages.push_back({{{0, 1000}}, 9000, bad});
    stages.push_back({{{0, bad}}, 9000, 100});
  }
  stages.push_back({{{7, 1000}}, 9000, 100});
  const Fit fit = fit_costs(2, stages);
  EXPECT_EQ(fit.ops[0].factor, expected);
  EXPECT_EQ(fit.ops[0].samples, 100);
}

TEST(Fit, FactorsStayAbove0WhateverContradictsItself) {
  // 0 took longer alone than with 1.
  const Stages stages{{{{0, 1000}, {1, 1000}}, 1000, 500}, {{{0, 1000}}, 9000, 500}};
  const Fit fit = fit_costs(2, stages);
  for (const OpFit& op : fit.ops) {
    EXPECT_GT(op.factor, 0);
    EXPECT_TRUE(std::isfinite(op.factor));
  }
  EXPECT_GT(fit.ops[0].factor, fit.ops[1].factor);
}

TEST(Fit, NothingMeasuredChangesNothing) {
  const Fit fit = fit_costs(2, {});
  EXPECT_EQ(fit.machine, 1);
  EXPECT_EQ(fit.ops[1].factor, 1);
  const FittedCost cost = scaled({1, 2, 3, 4, 5}, 2);
  EXPECT_EQ(cost.fixed_ns, 2);
  EXPECT_EQ(cost.per_byte_in_ns, 4);
  EXPECT_EQ(cost.per_element_in_ns, 6);
  EXPECT_EQ(cost.per_byte_out_ns, 8);
  EXPECT_EQ(cost.per_element_out_ns, 10);
}

}  // namespace
}  // namespace carya::autotune
