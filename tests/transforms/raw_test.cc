// decode_raw: bytes of a record as an array of one type and shape.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transforms/samples_test_lib.h"
#include "transforms/op/op.h"
#include "transforms/plan/source_parts.h"

namespace carya::transforms::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kValues[] = R"({"type":"files","paths":["a"],"labels":[1],"field":"value"})";
const std::string kOne = R"({"batch_size":1})";

std::string raw(const std::string& dtype, const std::string& shape, const std::string& more = "") {
  return R"({"op":"decode_raw","dtype":")" + dtype + R"(","shape":)" + shape + more + "}";
}

/// What a plan makes of bytes alone, fused and op by op, which must be the same.
Bytes made_of(const std::string& ops, const Bytes& bytes, const char* source, std::size_t field = 0) {
  Scratch scratch;
  std::vector<std::vector<Bytes>> made;
  for (const bool fuse : {true, false}) {
    const auto plan = plan_of(document(ops, kOne, source), {.seed = 3, .fuse = fuse});
    std::vector<Bytes> inputs;
    for (const SourceField& one : plan->inputs())
      inputs.push_back(one.kind == SourceField::Kind::kLabel ? label_bytes(5) : bytes);
    Outcome outcome = run_guarded(*plan, scratch, {.record = 2}, inputs);
    EXPECT_FALSE(outcome.error) << outcome.error->message;
    made.push_back(std::move(outcome.tensors));
  }
  EXPECT_EQ(made[0], made[1]) << ops;
  return made[0].at(field);
}

/// What a plan makes of the same bytes as a row of an array.
Bytes made_of_array(const std::string& ops, const std::string& name, const std::string& shape,
                    const Bytes& bytes) {
  Scratch scratch;
  const std::string source = R"({"type":"arrays","count":1,"arrays":{")" + name +
                             R"(":{"dtype":"uint8","shape":)" + shape + R"(,"fingerprint":""}}})";
  const auto plan = plan_of(document(ops, kOne, source), {.seed = 3});
  return run_guarded(*plan, scratch, {.record = 2}, {bytes}).tensors.at(0);
}

TEST(Raw, BytesAreTheArray) {
  const auto pipeline = pipeline_of(document(raw("float32", "[2,3]"), kOne, kValues));
  EXPECT_EQ(pipeline->outputs()[0].to_string(), "float32[2, 3]");
  EXPECT_EQ(pipeline->ops()[0]->json(),
            R"({"op":"decode_raw","dtype":"float32","shape":[2,3],"fields":null})");
  EXPECT_EQ(made_of(raw("float32", "[2,3]"), counting(24), kValues), counting(24));
  EXPECT_EQ(made_of(raw("uint16", "[]"), counting(2), kValues), counting(2));
  EXPECT_EQ(made_of(raw("uint8", "[70000]"), counting(70'000), kValues), counting(70'000));
}

TEST(Raw, WhatFollowsHasTheBitsOfAnArray) {
  const Bytes picture = made_row(33 * 47 * 3);
  const std::string shape = "[33,47,3]";
  const char* const images = R"({"type":"files","paths":["a"]})";
  for (const std::string ops :
       {R"({"op":"random_crop","size":[20,20]},{"op":"normalize","mean":0.5,"std":0.25})",
        R"({"op":"random_resized_crop","size":[24,31]},{"op":"color_jitter","brightness":0.4})",
        R"({"op":"resize","size":[12,9]})",
        R"({"op":"to_dtype","dtype":"float32"},{"op":"center_crop","size":[9,9]})"})
    EXPECT_EQ(made_of(raw("uint8", shape) + "," + ops, picture, images),
              made_of_array(ops, "image", shape, picture));
  const std::string values = R"({"op":"to_dtype","dtype":"float32","scale":true,"fields":["value"]})";
  EXPECT_EQ(made_of(raw("uint8", "[7]") + "," + values, counting(7), kValues),
            made_of_array(values, "value", "[7]", counting(7)));
  EXPECT_EQ(
      made_of(raw("uint8", "[20,20,3]") + R"(,{"op":"two_views","ops":[{"op":"random_crop","size":[9,9]}]})",
              made_row(1200), images, 1)
          .size(),
      243U);
}

// A mask lies beside its image, whichever of them is an array first, and follows it.
TEST(Raw, FieldsOfTheSizeOfTheImageAreMovedWithIt) {
  const std::string image = raw("uint8", "[12,16,3]", R"(,"fields":["image"])");
  const std::string mask = raw("uint8", "[12,16,1]", R"(,"fields":["mask"])");
  const std::string move = R"(,{"op":"random_crop","size":[5,6]})";
  const std::string beside = raw("uint8", "[12,15,1]", R"(,"fields":["mask"])");
  Scratch scratch;
  std::vector<std::vector<Bytes>> made;
  for (const std::string& ops : {image + "," + mask + move, mask + "," + image + move})
    for (const bool fuse : {true, false}) {
      const auto plan = plan_of(document(ops, kOne, kWithMask), {.fuse = fuse});
      EXPECT_EQ(plan->outputs()[1].to_string(), "uint8[5, 6, 1]");
      std::vector<Bytes> inputs{counting(576), counting(192)};
      inputs.push_back(label_bytes(1));
      made.push_back(run_guarded(*plan, scratch, {.record = 4}, inputs).tensors);
      EXPECT_EQ(made.back(), made.front());
    }
  const auto pipeline = pipeline_of(document(image + "," + beside + move, kOne, kWithMask));
  EXPECT_EQ(pipeline->outputs()[1].to_string(), "uint8[12, 15, 1]");
}

TEST(Raw, ARecordOfAnotherLengthIsBroken) {
  Scratch scratch;
  const std::string behind = R"(,{"op":"to_dtype","dtype":"float32","fields":["value"]})";
  for (const bool fuse : {true, false})
    for (const std::string& more : {std::string(), behind})
      for (const std::size_t bytes : {0, 11, 13}) {
        const auto plan = plan_of(document(raw("uint8", "[3,4]") + more, kOne, kValues), {.fuse = fuse});
        const auto error = run_guarded(*plan, scratch, {}, {counting(bytes), label_bytes(1)}).error;
        ASSERT_TRUE(error);
        EXPECT_EQ(error->code, Code::kCorrupt);
        EXPECT_EQ(error->message,
                  "decode_raw: value: " + std::to_string(bytes) + " B, and uint8[3, 4] are 12 B");
      }
  // Nor is any of a short picture read.
  const auto plan = plan_of(document(raw("uint8", "[12,16,3]") + R"(,{"op":"center_crop","size":[4,4]})"));
  EXPECT_EQ(run_guarded(*plan, scratch, {}, {counting(575), label_bytes(1)}).error->message,
            "decode_raw: 575 B, and uint8[12, 16, 3] are 576 B");
}

TEST(Raw, APlanMayEndOrBeginBehindIt) {
  const auto pipeline =
      pipeline_of(document(raw("uint8", "[12,16,3]") + R"(,{"op":"random_crop","size":[5,6]})", kOne));
  const auto before = Plan::compile(pipeline, {.last = 1, .packed = true});
  const auto behind = Plan::compile(pipeline, {.first = 1, .packed = true});
  ASSERT_TRUE(before && behind);
  Scratch scratch;
  Bytes packed;
  const Bytes bytes = counting(576), label = label_bytes(1);
  const std::vector<std::span<const std::byte>> inputs{bytes, label};
  ASSERT_TRUE((*before)->pack(scratch, {}, inputs, [&](std::uint64_t room) {
    packed.resize(room);
    return packed.data();
  }));
  ASSERT_TRUE((*behind)->can_unpack(packed));
  std::vector<std::span<const std::byte>> between(2);
  (*behind)->unpack(packed, between);
  const std::vector<Bytes> parts{{between[0].begin(), between[0].end()},
                                 {between[1].begin(), between[1].end()}};
  const auto whole = Plan::compile(pipeline, {});
  EXPECT_EQ(run_guarded(**behind, scratch, {}, parts).tensors,
            run_guarded(**whole, scratch, {}, {bytes, label}).tensors);
  // Coefficients are of JPEGs.
  EXPECT_EQ(part_at_source(pipeline, {}).error().code, Code::kUnsupported);
}

TEST(Raw, ChangesTheFingerprintAndPassesNothing) {
  const auto pipeline =
      pipeline_of(document(raw("uint8", "[12,16,3]") + R"(,{"op":"center_crop","size":[5,6]})", kOne));
  EXPECT_EQ(commutes(*pipeline->ops()[0], *pipeline->ops()[1]), Commutes::kNever);
  const auto print = [](const std::string& ops) {
    return pipeline_of(document(ops, kOne))->fingerprint(OnError::kRaise);
  };
  EXPECT_NE(print(raw("uint8", "[4]")), print(raw("int8", "[4]")));
  EXPECT_NE(print(raw("uint8", "[4]")), print(raw("uint8", "[2,2]")));
}

TEST(Raw, ErrorsSayWhatToGive) {
  EXPECT_THAT(op_error(raw("bfloat16", "[3]")),
              HasSubstr("decode_raw: dtype: got 'bfloat16'; give a numpy name"));
  EXPECT_THAT(op_error(raw("uint8", "[0]")), HasSubstr("shape: got [0]"));
  EXPECT_THAT(op_error(raw("float64", "[65536,65536]")), HasSubstr("at most 4294967296 B per row"));
  EXPECT_THAT(op_error(R"({"op":"decode_raw","dtype":"uint8"})"), HasSubstr("shape is missing"));
  EXPECT_THAT(op_error(kDecode + raw("uint8", "[3]")),
              HasSubstr("decode_raw: no encoded field among image, label"));
  EXPECT_THAT(op_error(raw("uint8", "[3]", R"(,"fields":["label"])")),
              HasSubstr("give fields that are still encoded"));
  EXPECT_THAT(op_error(raw("uint8", "[3]") + R"(,{"op":"decode_image"})"), HasSubstr("no encoded field"));
}

}  // namespace
}  // namespace carya::transforms::testing
