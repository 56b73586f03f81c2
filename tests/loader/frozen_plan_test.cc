#include "loader/plan/frozen_plan.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/loader/job_reading.h"
#include "tests/loader/photo_folder.h"
#include "transforms/plan/plan.h"

namespace carya::loader {
namespace {

using autotune::Sense;
using Order = std::vector<std::size_t>;

const std::string kOps =
    R"({"op":"decode_image"},{"op":"color_jitter","brightness":0.4},{"op":"random_crop","size":[16,16],"pad_if_needed":true,"padding_mode":"edge"})";

std::shared_ptr<const transforms::Pipeline> chain_of(const std::string& ops) {
  auto pipeline =
      transforms::Pipeline::parse(R"({"version":1,"source":{"type":"image_folder","path":"x"},"ops":[)" +
                                  ops + R"(],"batch":{"batch_size":2}})");
  EXPECT_TRUE(pipeline) << pipeline.error().message;
  return *pipeline;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what << " is not in " << text;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

std::string refusal(const transforms::Pipeline& pipeline, const std::string& text) {
  const auto plan = read_plan(pipeline, text);
  if (plan) return "taken";
  EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
  return plan.error().message;
}

void expect_refused(const transforms::Pipeline& pipeline, const std::string& text, const std::string& why) {
  EXPECT_NE(refusal(pipeline, text).find(why), std::string::npos) << refusal(pipeline, text);
}

class PlanFile : public testing::Test {
 protected:
  const std::shared_ptr<const transforms::Pipeline> chain_ = chain_of(kOps);
  const std::string text_ = freeze_plan(*chain_, {Sense::kExact, {0, 2, 1}}).value_or("");
};

TEST_F(PlanFile, GivesTheOrderItWasMadeWith) {
  const auto plan = read_plan(*chain_, text_);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->order, (Order{0, 2, 1}));
  EXPECT_EQ(plan->sense, Sense::kExact);
  // Spaces, lines and notes are a person's.
  const std::string noted = replaced(replaced(text_, ",", ",\n\t "), "{", R"({"date":"today","machine":{},)");
  EXPECT_TRUE(read_plan(*chain_, noted)) << refusal(*chain_, noted);
}

TEST_F(PlanFile, NamesWhatDiffersFromThePipeline) {
  const auto with = [](const std::string& what, const std::string& by) {
    return chain_of(replaced(kOps, what, by));
  };
  expect_refused(*with("[16,16]", "[16,20]"), text_,
                 "operation 3, random_crop: has size = [16, 16] in the plan and [16, 20] here");
  expect_refused(*with(R"({"op":"color_jitter","brightness":0.4})", R"({"op":"invert"})"), text_,
                 "operation 2 is 'color_jitter' in the plan and 'invert' here");
  expect_refused(*chain_of(kOps + R"(,{"op":"invert"})"), text_,
                 "is of 3 operations, and the pipeline has 4");
  expect_refused(*chain_,
                 replaced(text_, R"("op":"random_crop","version":1)", R"("op":"random_crop","version":2)"),
                 "operation 3, random_crop: is of version 2 in the plan and 1 here");
  const std::string elsewhere = replaced(text_, R"("pipeline":")", R"("pipeline":"0)");
  expect_refused(*chain_, replaced(elsewhere, "\"libjpeg-turbo ", "\"libjpeg-turbo 0."),
                 "was made with 'libjpeg-turbo 0.");
  expect_refused(*chain_, elsewhere, "is of pipeline 0");
}

TEST_F(PlanFile, KnowsTheVersionsOfOpsInsideOfOthers) {
  const auto group = chain_of(
      R"({"op":"decode_image"},{"op":"random_apply","ops":[{"op":"invert"}]},{"op":"resize","size":[8,8]})");
  const std::string text = freeze_plan(*group, {Sense::kExact, {0, 1, 2}}).value_or("");
  EXPECT_EQ(refusal(*group, text), "taken");
  expect_refused(*group, replaced(text, R"("version":[1,1])", R"("version":[1,3])"),
                 "is of version [1, 3] in the plan");
}

TEST_F(PlanFile, IsRefusedWhereItsOrderIsNotLegal) {
  const std::string tail =
      R"("order":[{"index":0,"op":"decode_image"},{"index":2,"op":"random_crop"},{"index":1,"op":"color_jitter"}])";
  const auto order = [&](const std::string& entries) {
    return replaced(text_, tail, R"("order":[)" + entries + "]");
  };
  expect_refused(*chain_, replaced(text_, R"("reorder":"exact")", R"("reorder":"off")"),
                 "runs before color_jitter");
  expect_refused(*chain_, replaced(text_, R"("reorder":"exact")", R"("reorder":"best")"),
                 "\"best\" is unknown");
  expect_refused(
      *chain_,
      order(
          R"({"index":2,"op":"random_crop"},{"index":0,"op":"decode_image"},{"index":1,"op":"color_jitter"})"),
      "random_crop runs before decode_image");
  expect_refused(*chain_, order(R"({"index":0,"op":"decode_image"},{"index":0,"op":"decode_image"})"),
                 "runs twice");
  expect_refused(*chain_, order(R"({"index":0,"op":"decode_image"},{"index":1,"op":"color_jitter"})"),
                 "random_crop is missing");
  expect_refused(*chain_, order(R"({"index":0,"op":"random_crop"})"),
                 "\"decode_image\", the operation of that index");
  expect_refused(*chain_, order(R"({"index":3,"op":"random_crop"})"),
                 "index: got 3; give an integer, 0 to 2");
  expect_refused(*chain_, order(R"({"index":-1,"op":"random_crop"})"), "index: got -1");
  expect_refused(*chain_, order("7"), "order: got 7; give an object");
  EXPECT_FALSE(freeze_plan(*chain_, {Sense::kOff, {0, 2, 1}}));
}

TEST_F(PlanFile, IsRefusedWhenItIsBrokenOrOfAnotherVersion) {
  expect_refused(*chain_, replaced(text_, R"("carya_plan":1)", R"("carya_plan":2)"),
                 "is of format 2, and this Carya reads format 1; freeze it again");
  expect_refused(*chain_, replaced(text_, R"("carya_plan":1)", R"("carya_plan":"1")"), "is of format '1'");
  expect_refused(*chain_, "{}", "give a plan file, which");
  expect_refused(*chain_, "", "no JSON at line 1");
  expect_refused(*chain_, "[1,2]", "give a plan file, which");
  expect_refused(*chain_, replaced(text_, R"("order")", R"("ordre")"), "unknown key 'ordre'");
  expect_refused(*chain_, replaced(text_, R"("ops":[)", R"("ops":7,"x":[)"), "unknown key 'x'");
  expect_refused(*chain_, replaced(text_, R"("parameters":{"mode")", R"("parameters":0,"p":{"mode")"),
                 "unknown key 'p'");
  for (std::size_t length = 0; length < text_.size(); ++length)
    EXPECT_NE(refusal(*chain_, text_.substr(0, length)), "taken");
}

TEST(FrozenOrder, IsKeptByAStreamAndChangesNoBit) {
  const PhotoFolder folder(24);
  const Opened opened = open_folder(folder.path(), kBatch4);
  ASSERT_GE(opened.pipeline->ops().size(), 2u);
  Order declared;
  for (std::size_t i = 0; i < opened.pipeline->ops().size(); ++i) declared.push_back(i);
  const auto expected = drain(*start(opened, {}));
  EXPECT_EQ(drain(*start(opened, {.reorder = Sense::kOff, .order = declared})), expected);
  for (Order wrong :
       {Order{0}, Order{0, 0, 1}, Order{99}, Order(declared.rbegin(), declared.rend()), Order(100, 0)}) {
    const auto job = Job::create(opened.pipeline, opened.dataset, {.order = wrong});
    ASSERT_FALSE(job);
    EXPECT_EQ(job.error().code, Code::kInvalidArgument) << job.error().message;
  }
}

}  // namespace
}  // namespace carya::loader
