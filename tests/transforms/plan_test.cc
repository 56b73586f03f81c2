#include "transforms/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/hash.h"
#include "tests/transforms/samples_test_lib.h"
#include "transforms/ops/geometry.h"

namespace carya::transforms::testing {
namespace {

using ::testing::HasSubstr;

std::string arrays(const std::string& dtype, const std::string& shape, const std::string& name = "image") {
  return R"({"type":"arrays","count":9,"arrays":{")" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" +
         shape + R"(,"fingerprint":""}}})";
}

float float_at(const Bytes& bytes, std::size_t index) {
  float value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

TEST(Plan, CopiesRowsOfArraysWithoutOps) {
  for (const int rows : {1, 3, 224, 500}) {
    const auto plan = plan_of(document("", R"({"batch_size":1})",
                                       arrays("uint8", std::string("[") + std::to_string(rows) + ",224,3]")));
    const Bytes row = counting(static_cast<std::size_t>(rows) * 224 * 3);
    Scratch scratch;
    EXPECT_EQ(run_guarded(*plan, scratch, {}, {row}).tensors, std::vector<Bytes>{row});
  }
}

TEST(Plan, NormalizesByTwoRoundings) {
  const auto plan = plan_of(document(R"({"op":"normalize","mean":[0.1,0.2,0.3],"std":[0.5,0.6,0.7]})",
                                     R"({"batch_size":1})", arrays("uint8", "[5,9,3]")));
  const Bytes row = counting(5 * 9 * 3);
  Scratch scratch;
  const Outcome outcome = run_guarded(*plan, scratch, {}, {row});
  ASSERT_EQ(outcome.tensors.size(), 1u);
  const double mean[] = {0.1, 0.2, 0.3};
  const double std[] = {0.5, 0.6, 0.7};
  for (std::size_t i = 0; i < 45; ++i)
    for (std::size_t c = 0; c < 3; ++c) {
      const float a = static_cast<float>(1.0 / (255.0 * std[c]));
      const float b = static_cast<float>(-mean[c] / std[c]);
      const float product = static_cast<float>(std::to_integer<int>(row[i * 3 + c])) * a;
      EXPECT_EQ(float_at(outcome.tensors[0], c * 45 + i), product + b);
      const double reference = (std::to_integer<int>(row[i * 3 + c]) / 255.0 - mean[c]) / std[c];
      EXPECT_NEAR(product + b, reference, 2e-6);
    }
}

TEST(Plan, PointOpsOnAnyArray) {
  struct Case {
    std::string ops, dtype, shape;
    std::size_t bytes;
  };
  const std::vector<Case> cases = {
      {R"({"op":"normalize","mean":0.5,"std":0.25,"layout":"keep"})", "uint8", "[28,28]", 784},
      {R"({"op":"normalize","mean":0.5,"std":0.25,"layout":"keep"})", "float32", "[17]", 68},
      {R"({"op":"normalize","mean":[1,2],"std":2})", "float32", "[4,5,2]", 160},
      {R"({"op":"to_layout","layout":"CHW"})", "int16", "[4,5,2]", 80},
      {R"({"op":"to_layout","layout":"CHW"},{"op":"to_layout","layout":"HWC"})", "uint8", "[4,5,3]", 60},
      {R"({"op":"random_vertical_flip"},{"op":"crop","top":-2,"left":1,"height":9,"width":3})", "uint8",
       "[6,5,4]", 120},
  };
  for (const Case& c : cases) {
    const std::string json = document(c.ops, R"({"batch_size":1})", arrays(c.dtype, c.shape));
    const auto fused = plan_of(json);
    const auto whole = plan_of(json, {.fuse = false});
    Scratch scratch;
    Bytes row = counting(c.bytes);
    if (c.dtype == "float32")
      for (std::size_t i = 0; i < c.bytes; i += 4) {
        const float value = 0.01F * static_cast<float>(i);
        std::memcpy(row.data() + i, &value, 4);
      }
    for (std::uint64_t record = 0; record < 4; ++record)
      EXPECT_EQ(run_guarded(*fused, scratch, {.record = record}, {row}).tensors,
                run_guarded(*whole, scratch, {.record = record}, {row}).tensors)
          << json;
  }
}

TEST(Plan, CastsFloatToUint8WithoutUndefinedValues) {
  const auto plan = plan_of(document(R"({"op":"to_dtype","dtype":"uint8","scale":true})",
                                     R"({"batch_size":1})", arrays("float32", "[7]")));
  const float values[] = {0.0F, 1.0F, 0.5F, -3.0F, 1e30F, __builtin_nanf(""), 0.999F};
  Bytes row(sizeof values);
  std::memcpy(row.data(), values, sizeof values);
  Scratch scratch;
  const Outcome outcome = run_guarded(*plan, scratch, {}, {row});
  const std::vector<int> expected = {0, 255, 127, 0, 255, 0, 255};
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(std::to_integer<int>(outcome.tensors[0][i]), expected[i]) << i;
}

// The float32 picture [3, 4, 2] of these ops on one of 0.1, 0.2, ...
Outcome run_on_floats(const std::string& ops, const std::vector<float>& values) {
  const auto plan = plan_of(document(ops, R"({"batch_size":1})", arrays("float32", "[3,4,2]")));
  Bytes row(values.size() * sizeof(float));
  std::memcpy(row.data(), values.data(), row.size());
  Scratch scratch;
  return run_guarded(*plan, scratch, {}, {row});
}

std::vector<float> tenths() {
  std::vector<float> values;
  for (int i = 0; i < 24; ++i) values.push_back(0.1F * static_cast<float>(i - 7));
  return values;
}

TEST(Plan, SubtractsTheMeanOfEachChannel) {
  const std::vector<float> values = tenths();
  const Outcome outcome = run_on_floats(R"({"op":"subtract_mean","mean":[0.3,-1.7]})", values);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(float_at(outcome.tensors[0], i), values[i] - (i % 2 == 0 ? 0.3F : -1.7F));
  const Outcome planes =
      run_on_floats(R"({"op":"to_layout","layout":"CHW"},{"op":"subtract_mean","mean":[0.3,-1.7]})", values);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(float_at(planes.tensors[0], i % 2 * 12 + i / 2), float_at(outcome.tensors[0], i));
}

TEST(Plan, ScalesEachChannel) {
  std::vector<float> values = tenths();
  values[0] = -0.0F;
  const Outcome outcome = run_on_floats(R"({"op":"scale","factor":[0.3,-1.7]})", values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float wanted = values[i] * (i % 2 == 0 ? 0.3F : -1.7F);
    EXPECT_EQ(float_at(outcome.tensors[0], i), wanted);
    EXPECT_EQ(std::signbit(float_at(outcome.tensors[0], i)), std::signbit(wanted));
  }
}

TEST(Plan, ExtraImagesMoveWithTheImage) {
  const std::string ops =
      R"({"op":"decode_image"},{"op":"random_resized_crop","size":[24,24],"interpolation":"nearest"},)"
      R"({"op":"random_horizontal_flip"},{"op":"random_vertical_flip"})";
  const auto plan = plan_of(document(ops, R"({"batch_size":1})", kWithMask));
  const Bytes image = make_jpeg(120, 80);
  Scratch scratch;
  for (std::uint64_t record = 0; record < 20; ++record) {
    const Outcome outcome = run_guarded(*plan, scratch, {.record = record}, {image, image, label_bytes(1)});
    ASSERT_FALSE(outcome.error);
    EXPECT_EQ(outcome.tensors[0], outcome.tensors[1]);
  }
  const Outcome mixed = run_guarded(*plan, scratch, {}, {image, make_jpeg(120, 81), label_bytes(1)});
  ASSERT_TRUE(mixed.error);
  EXPECT_EQ(mixed.error->code, Code::kCorrupt);
  EXPECT_THAT(mixed.error->message, HasSubstr("mask is 120x81 and the image before it 120x80"));
}

TEST(Plan, ExtraInterpolationIsForExtraImagesAlone) {
  const auto render = [](const std::string& extra) {
    const std::string ops = R"({"op":"decode_image"},{"op":"resize","size":[33,20])" + extra + "}";
    Scratch scratch;
    const Bytes image = make_jpeg(120, 80);
    return run_guarded(*plan_of(document(ops, R"({"batch_size":1})", kWithMask)), scratch, {},
                       {image, image, label_bytes(1)})
        .tensors;
  };
  const auto same = render("");
  const auto other = render(R"(,"extra_interpolation":"nearest")");
  EXPECT_EQ(same[0], other[0]);
  EXPECT_EQ(same[0], same[1]);
  EXPECT_NE(other[0], other[1]);
}

TEST(Plan, SampleGivesTheSameBitsAndShowsUnknownShapes) {
  const std::string ops =
      R"({"op":"decode_image"},{"op":"random_resized_crop","size":[24,24]},{"op":"normalize","mean":0,"std":1})";
  const auto plan = plan_of(document(ops));
  const Bytes image = make_jpeg(50, 60);
  const Bytes label = label_bytes(3);
  Scratch scratch;
  const SampleId id{.epoch = 3, .record = 8};
  const auto sample = plan->sample(id, std::vector<std::span<const std::byte>>{image, label});
  ASSERT_TRUE(sample);
  const Outcome run = run_guarded(*plan, scratch, id, {image, label});
  EXPECT_TRUE(std::ranges::equal((*sample)[0].data, run.tensors[0]));
  EXPECT_TRUE(std::ranges::equal((*sample)[1].data, run.tensors[1]));
  const auto open_ended = plan_of(document(R"({"op":"decode_image"})", "null"));
  const auto whole = open_ended->sample(id, std::vector<std::span<const std::byte>>{image, label});
  ASSERT_TRUE(whole);
  EXPECT_EQ((*whole)[0].spec.to_string(), "uint8[60, 50, 3]");
}

TEST(Plan, BrokenSamplesSayStageAndReason) {
  const auto plan = plan_of(document(R"({"op":"decode_image"},{"op":"random_crop","size":[50,50]})"));
  Scratch scratch;
  const Bytes webp = [] {
    const char text[] = "RIFF1234WEBPVP8 ";
    Bytes bytes(sizeof text - 1);
    std::memcpy(bytes.data(), text, bytes.size());
    return bytes;
  }();
  const Outcome foreign = run_guarded(*plan, scratch, {}, {webp, label_bytes(0)});
  ASSERT_TRUE(foreign.error);
  EXPECT_THAT(foreign.error->message,
              HasSubstr("decode_image: not a JPEG or PNG (starts with 52 49 46 46: WebP)"));
  const Outcome small = run_guarded(*plan, scratch, {}, {make_jpeg(49, 80), label_bytes(0)});
  ASSERT_TRUE(small.error);
  EXPECT_EQ(small.error->code, Code::kCorrupt);
  EXPECT_THAT(small.error->message, HasSubstr("random_crop: size: got 50x50 for an image of 49x80"));
  EXPECT_FALSE(run_guarded(*plan, scratch, {}, {make_jpeg(51, 80), label_bytes(0)}).error);
}

TEST(Plan, ProfileCountsStagesAndForgetsWhatWasCollected) {
  const auto plan = plan_of(document(
      R"({"op":"decode_image"},{"op":"random_resized_crop","size":[24,24]},{"op":"random_horizontal_flip"})"));
  const auto other = plan_of(document(R"({"op":"decode_image"},{"op":"center_crop","size":[24,24]})"));
  Scratch scratch;
  const Bytes image = make_jpeg(50, 60);
  for (int i = 0; i < 40; ++i) {
    ASSERT_FALSE(run_guarded(*plan, scratch, {}, {image, label_bytes(0)}).error);
    ASSERT_FALSE(run_guarded(*other, scratch, {}, {image, label_bytes(0)}).error);
  }
  std::vector<OpProfile> total;
  plan->collect_profile(scratch, total);
  plan->collect_profile(scratch, total);
  ASSERT_EQ(total.size(), 2u);
  EXPECT_EQ(total[0].name, "decode_image+random_resized_crop[window]");
  EXPECT_EQ(total[1].name, "random_resized_crop[resize]+random_horizontal_flip");
  EXPECT_EQ(total[0].samples, 40u);
  EXPECT_EQ(total[0].timed_samples, 2u);
  EXPECT_GT(total[0].cpu_ns, 0u);
  EXPECT_EQ(total[0].bytes_in, 2 * image.size());
  EXPECT_EQ(total[1].bytes_out, 2u * 24 * 24 * 3);
}

TEST(Plan, ProfileTellsTheOpsOnPicturesApart) {
  const auto names = [](const std::string& ops) {
    const auto plan = plan_of(document(ops));
    Scratch scratch;
    std::vector<OpProfile> total;
    plan->collect_profile(scratch, total);
    std::vector<std::string> out;
    for (const OpProfile& stage : total) out.push_back(stage.name);
    return out;
  };
  using Names = std::vector<std::string>;
  const std::string crop = R"({"op":"random_resized_crop","size":[24,24]})";
  const std::string flip = R"({"op":"random_horizontal_flip"})";
  const std::string normalize = R"({"op":"normalize","mean":0.4,"std":0.2})";
  EXPECT_EQ(names(R"({"op":"decode_image"},{"op":"center_crop","size":[9,9]})"),
            (Names{"decode_image+center_crop", "store"}));
  EXPECT_EQ(names(R"({"op":"decode_image"},)" + crop + R"(,{"op":"equalize"},)" + flip + "," + normalize),
            (Names{"decode_image+random_resized_crop[window]", "random_resized_crop[resize]", "equalize",
                   "random_horizontal_flip+normalize"}));
  EXPECT_EQ(names(R"({"op":"decode_image"},)" + flip + R"(,{"op":"invert"},{"op":"equalize"},)" + crop),
            (Names{"decode_image", "random_horizontal_flip+invert", "equalize", "random_resized_crop"}));
  EXPECT_EQ(names(R"({"op":"decode_image"},{"op":"resize","size":[40,40]},{"op":"resize","size":[9,9]})"),
            (Names{"decode_image", "resize", "resize"}));
}

TEST(Plan, ProfileSaysWhichOpsAStageIsAndHowLargeThePicturesWere) {
  const auto pipeline = pipeline_of(document(
      R"({"op":"decode_image"},{"op":"invert"},{"op":"random_horizontal_flip"},{"op":"equalize"},)"
      R"({"op":"center_crop","size":[24,20]},{"op":"random_apply","ops":[{"op":"grayscale","num_output_channels":3}],"p":1.0},)"
      R"({"op":"normalize","mean":0.4,"std":0.2})"));
  const auto plan = Plan::compile(pipeline, {.order = {0, 4, 1, 2, 3, 5, 6}});
  ASSERT_TRUE(plan) << plan.error().message;
  Scratch scratch;
  ASSERT_FALSE(run_guarded(**plan, scratch, {}, {make_jpeg(50, 60), label_bytes(0)}).error);
  ASSERT_FALSE(run_guarded(**plan, scratch, {}, {make_jpeg(70, 80), label_bytes(0)}).error);  // not timed
  std::vector<OpProfile> total;
  (*plan)->collect_profile(scratch, total);
  std::vector<std::vector<std::uint32_t>> ops;
  for (const OpProfile& stage : total) ops.push_back(stage.ops);
  EXPECT_EQ(ops, (std::vector<std::vector<std::uint32_t>>{{0, 4}, {1}, {2, 3}, {5}, {6}}));
  EXPECT_EQ(total[0].pictures, 1U);
  EXPECT_EQ(total[0].height, 60U);
  EXPECT_EQ(total[0].width, 50U);
}

TEST(Plan, ProfileCountsBytesAndTimeOfEachOpOnPictures) {
  const auto plan = plan_of(document(
      R"({"op":"decode_image"},{"op":"resize","size":[30,20]},{"op":"grayscale"},{"op":"normalize","mean":0.4,"std":0.2})"));
  Scratch scratch;
  const Bytes image = make_jpeg(50, 60);
  ASSERT_FALSE(run_guarded(*plan, scratch, {}, {image, label_bytes(0)}).error);
  std::vector<OpProfile> total;
  plan->collect_profile(scratch, total);
  ASSERT_EQ(total.size(), 4U);
  const std::uint64_t bytes[] = {image.size(), 50 * 60 * 3, 30 * 20 * 3, 30 * 20, 30 * 20 * 4};
  for (std::size_t i = 0; i < total.size(); ++i) {
    EXPECT_EQ(total[i].bytes_in, bytes[i]) << total[i].name;
    EXPECT_EQ(total[i].bytes_out, bytes[i + 1]) << total[i].name;
    EXPECT_GT(total[i].cpu_ns, 0U) << total[i].name;
    EXPECT_LT(total[i].cpu_ns, 1'000'000'000U) << total[i].name;  // no time before the last one's end
  }
}

// What goes through it together, in bands, is told apart all the same.
TEST(Plan, ProfileCountsBytesAndTimeOfEachColorOpOnALargePicture) {
  for (const bool last : {true, false}) {
    const auto plan = plan_of(document(
        std::string(
            R"({"op":"decode_image"},{"op":"resize","size":[700,600]},{"op":"invert"},{"op":"grayscale"})") +
        (last ? "" : R"(,{"op":"autocontrast"})")));
    Scratch scratch;
    const Bytes image = make_jpeg(50, 60);
    ASSERT_FALSE(run_guarded(*plan, scratch, {}, {image, label_bytes(0)}).error);
    std::vector<OpProfile> total;
    plan->collect_profile(scratch, total);
    ASSERT_EQ(total.size(), last ? 5U : 6U);
    const std::uint64_t pixels = 700 * 600;
    const std::uint64_t bytes[] = {image.size(), 50 * 60 * 3, pixels * 3, pixels * 3, pixels, pixels, pixels};
    for (std::size_t i = 0; i < total.size(); ++i) {
      EXPECT_EQ(total[i].bytes_in, bytes[i]) << total[i].name;
      EXPECT_EQ(total[i].bytes_out, bytes[i + 1]) << total[i].name;
      EXPECT_GT(total[i].cpu_ns, 0U) << total[i].name;
      EXPECT_LT(total[i].cpu_ns, 1'000'000'000U) << total[i].name;
    }
  }
}

// Draws are part of the stream: another digest here is another stream, which needs new op versions.
TEST(Draws, AreStable) {
  const std::vector<std::string> ops = {
      R"({"op":"random_resized_crop","size":[24,24]})",
      R"({"op":"random_crop","size":[20,30],"padding":[2,2,2,2],"pad_if_needed":true})",
      R"({"op":"random_horizontal_flip"})", R"({"op":"random_vertical_flip","p":0.25})"};
  Hasher128 hasher;
  for (const std::string& op : ops) {
    const auto pipeline = pipeline_of(document(R"({"op":"decode_image"},)" + op, "null"));
    const auto& geometric = static_cast<const GeometricOp&>(*pipeline->ops()[1]);
    for (std::uint64_t record = 0; record < 500; ++record) {
      SampleRng rng(op_key(42, geometric.name(), 0), 1, record, record % 3);
      StepList steps;
      const ImageSize size{40 + static_cast<std::int64_t>(record),
                           500 - static_cast<std::int64_t>(record) / 2};
      ASSERT_TRUE(geometric.resolve(rng, size, steps));
      hasher.update(static_cast<std::uint64_t>(steps.count));
      for (std::size_t i = 0; i < steps.count; ++i) {
        const Step& s = steps.steps[i];
        for (const std::int64_t n : {s.top, s.left, s.height, s.width, std::int64_t{s.flip_horizontal}})
          hasher.update(static_cast<std::uint64_t>(n));
      }
    }
  }
  EXPECT_EQ(hasher.digest().hex(), "5df1c9d77d56a3c3c231304e5f7345bc");
}

TEST(Draws, DependOnSeedEpochRecordAndOccurrence) {
  const std::string ops = R"({"op":"decode_image"},{"op":"random_crop","size":[9,9]})";
  const Bytes image = make_jpeg(200, 200);
  Scratch scratch;
  const auto render = [&](std::uint64_t seed, const SampleId& id) {
    return run_guarded(*plan_of(document(ops), {.seed = seed}), scratch, id, {image, label_bytes(0)})
        .tensors[0];
  };
  const Bytes base = render(1, {1, 1, 0});
  EXPECT_EQ(base, render(1, {1, 1, 0}));
  EXPECT_NE(base, render(2, {1, 1, 0}));
  EXPECT_NE(base, render(1, {2, 1, 0}));
  EXPECT_NE(base, render(1, {1, 2, 0}));
  EXPECT_NE(base, render(1, {1, 1, 1}));
}

}  // namespace
}  // namespace carya::transforms::testing
