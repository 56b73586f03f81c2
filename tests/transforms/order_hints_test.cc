#include "transforms/op/order_hints.h"

#include <gtest/gtest.h>

#include "tests/transforms/samples_test_lib.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::transforms::testing {
namespace {

std::string flip_that(const std::string& hints) {
  return R"({"op":"random_horizontal_flip",)" + hints + "}";
}

TEST(OrderHints, AreReadShownAndWrittenWhereTheySaySomething) {
  const auto pipeline =
      pipeline_of(document(kDecode + R"({"op":"invert","keep_position":false,"depends_on":[]},)" +
                               R"({"op":"barrier"},{"op":"equalize","keep_position":true},)" +
                               flip_that(R"("depends_on":["invert","decode_image"])"),
                           "null"));
  ASSERT_EQ(pipeline->ops().size(), 4U);
  EXPECT_TRUE(pipeline->order_hints()[2].keep_position);
  EXPECT_FALSE(pipeline->order_hints()[1].keep_position);
  EXPECT_EQ(pipeline->order_hints()[3].depends_on, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(pipeline->barriers(), std::vector<std::size_t>{2});
  std::vector<std::string> lines;
  for (const PipelineLine& line : pipeline->lines()) lines.push_back(line.text);
  EXPECT_EQ(lines[2], "invert()");
  EXPECT_EQ(lines[3], "barrier()");
  EXPECT_EQ(lines[4], "equalize(keep_position=True)");
  EXPECT_EQ(lines[5], R"(random_horizontal_flip(p=0.5, depends_on=["invert", "decode_image"]))");
  const std::string& text = pipeline->to_json();
  EXPECT_NE(text.find(R"({"op":"invert","fields":null},{"op":"barrier"},)"
                      R"({"op":"equalize","fields":null,"keep_position":true},)"
                      R"({"op":"random_horizontal_flip","p":0.5,"depends_on":["invert","decode_image"]}])"),
            std::string::npos)
      << text;
  EXPECT_EQ(pipeline_of(text)->to_json(), text);
}

TEST(OrderHints, ChangeNoFingerprint) {
  const auto plain = pipeline_of(document(kDecode + flip_that(R"("p":0.5)"), "null"));
  const auto hinted = pipeline_of(document(
      kDecode + R"({"op":"barrier"},)" + flip_that(R"("keep_position":true,"depends_on":["decode_image"])"),
      "null"));
  EXPECT_EQ(plain->fingerprint(OnError::kRaise), hinted->fingerprint(OnError::kRaise));
  EXPECT_NE(plain->to_json(), hinted->to_json());
}

TEST(OrderHints, NamesAreThoseOfOpsBefore) {
  const std::string two = kDecode + R"({"op":"invert"},{"op":"invert"},)";
  const auto dependencies = [](const std::string& ops, std::size_t op) {
    return pipeline_of(document(ops, "null"))->order_hints()[op].depends_on;
  };
  EXPECT_EQ(dependencies(two + flip_that(R"("depends_on":["invert#1"])"), 3), std::vector<std::size_t>{2});
  EXPECT_EQ(dependencies(two + flip_that(R"("depends_on":["invert#0"])"), 3), std::vector<std::size_t>{1});
  // A later op of the name changes nothing.
  EXPECT_EQ(dependencies(kDecode + R"({"op":"invert"},)" + flip_that(R"("depends_on":["invert"])") +
                             R"(,{"op":"invert","depends_on":["invert"]})",
                         2),
            std::vector<std::size_t>{1});
  EXPECT_EQ(op_error(two + flip_that(R"("depends_on":["invert"])")),
            R"(random_horizontal_flip: depends_on "invert" names 2 ops; write "invert#0" or "invert#1")");
}

TEST(OrderHints, WhatCannotBeIsAnErrorThatSaysWhatToDo) {
  EXPECT_EQ(
      op_error(kDecode + R"({"op":"invert"},)" + flip_that(R"("depends_on":["crop"])")),
      R"(random_horizontal_flip: depends_on "crop" names no op before it; there are decode_image, invert)");
  EXPECT_EQ(op_error(R"({"op":"decode_image","depends_on":["x"]})"),
            R"(decode_image: depends_on "x" names no op before it; there are none)");
  EXPECT_EQ(
      op_error(kDecode + flip_that(R"("depends_on":["random_horizontal_flip"])")),
      R"(random_horizontal_flip: depends_on "random_horizontal_flip" names itself; remove the dependency)");
  EXPECT_EQ(
      op_error(kDecode + flip_that(R"("depends_on":["invert"])") + R"(,{"op":"invert"})"),
      R"(random_horizontal_flip: depends_on "invert", but the pipeline runs invert after it; declare it )"
      "first or remove the dependency");
  EXPECT_EQ(op_error(kDecode + flip_that(R"("depends_on":["invert"])") +
                     R"(,{"op":"equalize","depends_on":["random_horizontal_flip"]},)"
                     R"({"op":"invert","depends_on":["decode_image","equalize"]})"),
            "depends_on goes in a circle: random_horizontal_flip -> invert -> equalize -> "
            "random_horizontal_flip; remove one of these dependencies");
  EXPECT_EQ(op_error(kDecode + flip_that(R"("keep_position":1)")),
            "random_horizontal_flip: keep_position: got 1; give True or False");
  EXPECT_EQ(op_error(kDecode + flip_that(R"("depends_on":"decode_image")")),
            R"(random_horizontal_flip: depends_on: got 'decode_image'; give a list of strings)");
  EXPECT_EQ(
      op_error(kDecode + flip_that(R"("depends_on":["decode_image","decode_image"])")),
      R"(random_horizontal_flip: depends_on: got ['decode_image', 'decode_image']; give a list of names )"
      "of ops, none twice");
  EXPECT_EQ(op_error(kDecode + R"({"op":"barrier","p":1})"), "barrier: unknown key 'p': got 1; give op");
  EXPECT_EQ(
      op_error(kDecode + R"({"op":"random_apply","ops":[{"op":"invert","keep_position":true}]})"),
      R"(random_apply: ops has {'op': 'invert', 'keep_position': True}; ops inside of others run as they )"
      "are listed: give keep_position and depends_on to random_apply");
}

TEST(OrderHints, HostileDependenciesAreLookedUpSoon) {
  // Every op names every other one: all ways through them are more than can be walked.
  std::string names;
  for (int i = 0; i < 62; ++i) names += (i == 0 ? "" : ",") + ("\"invert#" + std::to_string(i) + "\"");
  std::string ops = R"({"op":"decode_image"})";
  for (int i = 0; i < 62; ++i) ops += R"(,{"op":"invert","depends_on":[)" + names + "]}";
  EXPECT_NE(op_error(ops).find("depends_on"), std::string::npos);
}

}  // namespace
}  // namespace carya::transforms::testing
