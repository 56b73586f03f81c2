#include "autotune/order/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "autotune/order/precedence.h"

namespace carya::autotune {
namespace {

using ::testing::HasSubstr;

ChainSpec chain_of(const std::vector<std::string>& names) {
  ChainSpec spec;
  for (const std::string& name : names) spec.ops.push_back({.name = name});
  for (std::size_t a = 0; a < names.size(); ++a)
    for (std::size_t b = a + 1; b < names.size(); ++b) spec.commuting.push_back({a, b, Commutes::kExact});
  return spec;
}

std::string error_of(ChainSpec spec, Code code = Code::kInvalidArgument) {
  const auto chain = Chain::create(std::move(spec));
  if (chain) return "no error";
  EXPECT_EQ(chain.error().code, code);
  return chain.error().message;
}

TEST(Sense, NamesGoBothWays) {
  for (const Sense sense : {Sense::kOff, Sense::kExact, Sense::kRounding, Sense::kRelaxed})
    EXPECT_EQ(*sense_from_name(sense_name(sense)), sense);
  const auto unknown = sense_from_name("fast");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kInvalidArgument);
  EXPECT_THAT(unknown.error().message, HasSubstr("\"fast\""));
  EXPECT_THAT(unknown.error().message, HasSubstr("\"rounding\""));
}

TEST(Sense, AllowsWhatIsAtLeastAsExact) {
  EXPECT_FALSE(allows(Sense::kOff, Commutes::kExact));
  EXPECT_TRUE(allows(Sense::kExact, Commutes::kExact));
  EXPECT_FALSE(allows(Sense::kExact, Commutes::kRounding));
  EXPECT_TRUE(allows(Sense::kRounding, Commutes::kRounding));
  EXPECT_FALSE(allows(Sense::kRounding, Commutes::kRelaxed));
  EXPECT_TRUE(allows(Sense::kRelaxed, Commutes::kRelaxed));
  EXPECT_FALSE(allows(Sense::kRelaxed, Commutes::kNever));
}

TEST(SizeRule, PartsChangeIndependently) {
  const SizeRule resize{.pixels = Change::set(50'176)};
  const SizeRule gray{.channels = Change::set(1)};
  const SizeRule to_float{.element_bytes = Change::set(4)};
  const SizeRule crop{.pixels = Change::scaled(0.5)};
  const SizeRule pad{.pixels = {.scale = 1, .add = 100}};
  EXPECT_TRUE(commute(resize, gray) && commute(gray, to_float) && commute(resize, to_float));
  EXPECT_TRUE(commute(resize, resize) && commute(crop, crop) && commute(pad, pad));
  EXPECT_FALSE(commute(resize, crop) || commute(resize, pad) || commute(crop, pad));
  EXPECT_FALSE(commute(resize, SizeRule{.pixels = Change::set(65'536)}));
  const Size after = to_float(gray(resize({.pixels = 1e6, .channels = 3, .element_bytes = 1})));
  EXPECT_EQ(after.elements(), 50'176);
  EXPECT_EQ(after.bytes(), 4 * 50'176);
}

TEST(Chain, LabelsOpsOfOneName) {
  const auto chain = Chain::create(chain_of({"flip", "crop", "flip"}));
  ASSERT_TRUE(chain);
  EXPECT_EQ(chain->label(0), "flip#0");
  EXPECT_EQ(chain->label(1), "crop");
  EXPECT_EQ(chain->label(2), "flip#1");
}

TEST(Chain, UnknownDependencyIsNamedWithWhatThereIs) {
  ChainSpec spec = chain_of({"decode", "crop", "blur"});
  spec.ops[2].depends_on = {"crpo"};
  EXPECT_EQ(error_of(spec),
            "op blur: depends_on \"crpo\" names no op of the pipeline; there are decode, crop, blur");
}

TEST(Chain, DependencyOnAName2OpsHaveAsksWhich) {
  ChainSpec spec = chain_of({"flip", "flip", "blur"});
  spec.ops[2].depends_on = {"flip"};
  EXPECT_EQ(error_of(spec), "op blur: depends_on \"flip\" names 2 ops; write \"flip#0\" or \"flip#1\"");
  spec.ops[2].depends_on = {"flip#1"};
  EXPECT_TRUE(Chain::create(spec));
}

TEST(Chain, DependencyOnALaterOpContradictsThePipeline) {
  ChainSpec spec = chain_of({"normalize", "crop"});
  spec.ops[0].depends_on = {"crop"};
  EXPECT_EQ(error_of(spec),
            "op normalize: depends_on \"crop\", but the pipeline runs crop after it; declare it "
            "first or remove the dependency");
}

TEST(Chain, CirclesAreNamedWhole) {
  ChainSpec spec = chain_of({"a", "b", "c", "d"});
  spec.ops[0].depends_on = {"c"};
  spec.ops[2].depends_on = {"b"};
  spec.ops[1].depends_on = {"a"};
  spec.ops[3].depends_on = {"a"};
  EXPECT_EQ(error_of(spec),
            "depends_on goes in a circle: a -> c -> b -> a; remove one of these dependencies");
  ChainSpec self = chain_of({"a", "b"});
  self.ops[1].depends_on = {"b"};
  EXPECT_EQ(error_of(self), "depends_on goes in a circle: b -> b; remove one of these dependencies");
}

TEST(Chain, RefusesNumbersThatCannotBe) {
  ChainSpec spec = chain_of({"crop", "blur"});
  spec.ops[1].cost.per_byte_in_ns = -1;
  EXPECT_THAT(error_of(spec), HasSubstr("op blur: per_byte_in_ns is -1"));
  spec = chain_of({"crop", "blur"});
  spec.ops[0].size.pixels.scale = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(error_of(spec), HasSubstr("op crop: pixels scale"));
  spec = chain_of({"crop", ""});
  EXPECT_THAT(error_of(spec), HasSubstr("no name"));
}

TEST(Chain, RefusesKindsThatContradictSizeRules) {
  ChainSpec spec = chain_of({"jitter"});
  spec.ops[0].per_pixel = true;
  spec.ops[0].size.channels = Change::set(1);
  EXPECT_TRUE(Chain::create(spec));
  spec.ops[0].size.pixels = Change::scaled(0.5);
  EXPECT_THAT(error_of(spec), HasSubstr("op jitter is per pixel"));
  spec = chain_of({"rotate"});
  spec.ops[0].geometric = true;
  spec.ops[0].size.pixels = Change::scaled(2);
  EXPECT_TRUE(Chain::create(spec));
  spec.ops[0].size.element_bytes = Change::set(4);
  EXPECT_THAT(error_of(spec), HasSubstr("op rotate is geometric"));
}

TEST(Chain, RefusesPairsAndBarriersOutsideTheChain) {
  ChainSpec spec = chain_of({"a", "b"});
  spec.commuting.push_back({0, 2, Commutes::kExact});
  EXPECT_THAT(error_of(spec), HasSubstr("commuting pair (0, 2)"));
  spec = chain_of({"a", "b"});
  spec.fusing.push_back({1, 1});
  EXPECT_THAT(error_of(spec), HasSubstr("fusing pair (1, 1)"));
  spec = chain_of({"a", "b"});
  spec.barriers = {3};
  EXPECT_THAT(error_of(spec), HasSubstr("barrier 3"));
}

TEST(Chain, HoldsAsManyOpsAsASetHasBits) {
  std::vector<std::string> names(kChainOpsMax);
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = "op" + std::to_string(i);
  const auto chain = Chain::create(chain_of(names));
  ASSERT_TRUE(chain);
  EXPECT_EQ(chain->all(), ~OpSet{0});
  names.push_back("one_more");
  EXPECT_THAT(error_of(chain_of(names), Code::kUnsupported), HasSubstr("a chain of 65 ops; at most 64"));
}

TEST(Precedence, NothingPassesAFixedOpOrABarrier) {
  ChainSpec spec = chain_of({"a", "fixed", "b", "c", "d"});
  spec.ops[1].keep_position = true;
  spec.barriers = {4};
  const auto chain = Chain::create(spec);
  ASSERT_TRUE(chain);
  const Precedence precedence(*chain, Sense::kRelaxed);
  EXPECT_EQ(precedence.before(1), 0b00001u);
  EXPECT_EQ(precedence.before(2), 0b00011u);
  EXPECT_EQ(precedence.before(3), 0b00011u);  // b and c are free
  EXPECT_EQ(precedence.before(4), 0b01111u);
  EXPECT_EQ(precedence.after(0), 0b11110u);
  EXPECT_EQ(precedence.eligible(0b00011), 0b01100u);
  EXPECT_EQ(precedence.maximal(0b01111), 0b01100u);
}

TEST(Precedence, ADependencyHoldsUnderEverySense) {
  ChainSpec spec = chain_of({"crop", "flip", "blur"});
  spec.ops[1].depends_on = {"crop"};
  const auto chain = Chain::create(spec);
  ASSERT_TRUE(chain);
  const Precedence precedence(*chain, Sense::kRelaxed);
  EXPECT_EQ(precedence.before(1), 0b001u);
  EXPECT_EQ(precedence.before(2), 0u);
}

// a and c commute, but b stays between them: no exchange of neighbours brings c before a.
TEST(Precedence, ClosesOverTheOpsBetween) {
  ChainSpec spec;
  spec.ops = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
  spec.commuting = {{0, 2, Commutes::kExact}};
  const auto chain = Chain::create(spec);
  ASSERT_TRUE(chain);
  EXPECT_EQ(Precedence(*chain, Sense::kExact).before(2), 0b011u);
}

TEST(Precedence, DoesNotBelievePairsThatLeaveAnotherSize) {
  ChainSpec spec = chain_of({"crop", "resize"});
  spec.ops[0].size.pixels = Change::scaled(0.5);
  spec.ops[1].size.pixels = Change::set(50'176);
  const auto chain = Chain::create(spec);
  ASSERT_TRUE(chain);
  EXPECT_EQ(Precedence(*chain, Sense::kRelaxed).before(1), 0b01u);
}

}  // namespace
}  // namespace carya::autotune
