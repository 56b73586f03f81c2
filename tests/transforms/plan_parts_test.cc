// Parts of a plan, one behind the other, give the bits of the whole: a remote worker may do the first, the
// host the rest.
#include <gtest/gtest.h>

#include "tests/transforms/drawn_chains.h"
#include "tests/transforms/samples_test_lib.h"

namespace carya::transforms::testing {
namespace {

std::shared_ptr<const Plan> part_of(const std::shared_ptr<const Pipeline>& pipeline, const Order& order,
                                    bool fuse, std::size_t first, std::size_t last) {
  const auto plan =
      Plan::compile(pipeline, {.seed = 5, .fuse = fuse, .order = order, .first = first, .last = last});
  if (!plan) {
    EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
  }
  return plan ? *plan : nullptr;
}

// Every cut of the pipeline in this order gives the bits of the whole; how many cuts there are.
int expect_parts(Drawn& drawn, const std::shared_ptr<const Pipeline>& pipeline, const Order& order,
                 const std::vector<Bytes>& record) {
  Scratch host;
  Scratch worker;
  const auto whole = part_of(pipeline, order, true, 0, SIZE_MAX);
  const Outcome expected = run_guarded(*whole, host, {.record = 9}, record);
  int cuts = 0;
  for (std::size_t cut = 0; cut <= order.size(); ++cut) {
    const std::string what = pipeline->to_json() + " cut before op " + std::to_string(cut);
    const auto before = part_of(pipeline, order, drawn.below(4) > 0, 0, cut);
    const auto after = part_of(pipeline, order, drawn.below(4) > 0, cut, SIZE_MAX);
    EXPECT_TRUE(cut > 0 ? (before == nullptr) == (after == nullptr) : !before && after) << what;
    if (!before || !after) continue;
    const Outcome there = run_guarded(*before, worker, {.record = 9}, record);
    EXPECT_EQ(there.error.has_value(), expected.error.has_value()) << what;
    if (there.error || expected.error) continue;
    const Outcome here = run_guarded(*after, host, {.record = 9}, there.tensors);
    EXPECT_FALSE(here.error) << what;
    EXPECT_EQ(here.tensors, expected.tensors) << what;
    ++cuts;
  }
  return cuts;
}

// Every place of the pipeline where a sample can be packed gives the bits of the whole; how many places there are.
int expect_packed(Drawn& drawn, const std::shared_ptr<const Pipeline>& pipeline, const Order& order,
                  const std::vector<Bytes>& record) {
  Scratch scratch;
  const auto whole = part_of(pipeline, order, true, 0, SIZE_MAX);
  const Outcome expected = run_guarded(*whole, scratch, {.record = 9}, record);
  const std::vector<std::span<const std::byte>> inputs(record.begin(), record.end());
  int places = 0;
  for (std::size_t cut = 1; cut <= order.size(); ++cut) {
    const std::string what = pipeline->to_json() + " packed before op " + std::to_string(cut);
    PlanOptions options{.seed = 5, .fuse = drawn.below(4) > 0, .order = order, .last = cut, .packed = true};
    const auto before = Plan::compile(pipeline, options);
    options = {.seed = 5, .fuse = drawn.below(4) > 0, .order = order, .first = cut, .packed = true};
    const auto after = Plan::compile(pipeline, options);
    EXPECT_EQ(before.has_value(), after.has_value()) << what;
    if (!before || !after) continue;
    Bytes packed;
    const Status made = (*before)->pack(scratch, {.record = 9}, inputs, [&](std::uint64_t bytes) {
      EXPECT_TRUE(packed.empty()) << what;
      packed.resize(bytes);
      return packed.data();
    });
    if (!made) {
      EXPECT_TRUE(expected.error) << what << made.error().message;
      continue;
    }
    std::vector<std::span<const std::byte>> rest((*after)->inputs().size());
    (*after)->unpack(packed, rest);
    std::vector<Bytes> kept;
    for (const auto& tensor : rest) kept.emplace_back(tensor.begin(), tensor.end());
    const Outcome here = run_guarded(**after, scratch, {.record = 9}, kept);
    EXPECT_EQ(here.error.has_value(), expected.error.has_value()) << what;
    if (!expected.error) {
      EXPECT_EQ(here.tensors, expected.tensors) << what;
    }
    ++places;
  }
  return places;
}

TEST(PlanParts, OneBehindTheOtherAreTheWhole) {
  const std::vector<NamedBytes> pictures = test_pictures(40, 200'000);
  Drawn drawn(17);
  int cuts = 0;
  for (int round = 0; round < 300 && !HasFailure(); ++round) {
    const auto parsed = Pipeline::parse(document(drawn.chain(1 + drawn.below(5))));
    if (!parsed) continue;  // a crop of a known size that is too small for the next
    const NamedBytes& picture = pictures[drawn.below(pictures.size())];
    cuts += expect_parts(drawn, *parsed, drawn.exchanged(**parsed, Commutes::kExact),
                         {picture.bytes, label_bytes(round)});
  }
  EXPECT_GT(cuts, 300);
}

TEST(PlanParts, PackedPicturesOfAnySizeGiveTheWhole) {
  const std::vector<NamedBytes> pictures = test_pictures(40, 200'000);
  Drawn drawn(23);
  int places = 0, samples = 0;
  for (int round = 0; round < 200 && !HasFailure(); ++round) {
    const auto parsed = Pipeline::parse(document(drawn.chain(1 + drawn.below(5))));
    if (!parsed) continue;  // a crop of a known size that is too small for the next
    const NamedBytes& picture = pictures[drawn.below(pictures.size())];
    places += expect_packed(drawn, *parsed, drawn.exchanged(**parsed, Commutes::kExact),
                            {picture.bytes, label_bytes(round)});
    ++samples;
  }
  EXPECT_GT(places, 2 * samples);  // behind the decode too, where nothing has a fixed size
}

TEST(PlanParts, PackWithoutMemoryIsNoFaultOfTheSample) {
  const auto pipeline = pipeline_of(document(R"({"op":"decode_image"},{"op":"random_crop","size":[20,20]})"));
  const auto before = Plan::compile(pipeline, {.last = 1, .packed = true});
  ASSERT_TRUE(before);
  const Bytes picture = make_jpeg(90, 70), label = label_bytes(1);
  const std::vector<std::span<const std::byte>> inputs{picture, label};
  Scratch scratch;
  const Status made = (*before)->pack(scratch, {}, inputs, [](std::uint64_t) { return nullptr; });
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kExhausted);
}

TEST(PlanParts, KnowViewsAndExtraImages) {
  Drawn drawn(3);
  const std::string views =
      R"({"op":"decode_image"},{"op":"center_crop","size":[60,50]},{"op":"two_views","ops":[)"
      R"({"op":"random_resized_crop","size":[40,40]},{"op":"color_jitter","hue":0.2}]},)"
      R"({"op":"normalize","mean":0.4,"std":0.2,"fields":["view_0"]},)"
      R"({"op":"to_dtype","dtype":"float32","scale":true,"fields":["view_1"]})";
  const std::string mask =
      R"({"op":"decode_image","fields":["image","mask"]},{"op":"random_crop","size":[50,50]},)"
      R"({"op":"resize","size":[33,20],"extra_interpolation":"nearest"},)"
      R"({"op":"random_resized_crop","size":[24,20]},{"op":"normalize","mean":0.4,"std":0.2})";
  const auto twice = pipeline_of(document(views));
  EXPECT_EQ(expect_parts(drawn, twice, {0, 1, 2, 3, 4}, {make_jpeg(90, 70), label_bytes(1)}), 4);
  const auto both = pipeline_of(document(
      mask, R"({"batch_size":2})", R"({"type":"files","paths":["a"],"labels":[1],"extra":{"mask":["b"]}})"));
  EXPECT_EQ(expect_parts(drawn, both, {0, 1, 2, 3, 4},
                         {make_jpeg(90, 70), make_jpeg(90, 70, 1, false, 1, 1, 8), label_bytes(1)}),
            4);
  EXPECT_EQ(expect_packed(drawn, twice, {0, 1, 2, 3, 4}, {make_jpeg(90, 70), label_bytes(1)}), 5);
  EXPECT_EQ(expect_packed(drawn, both, {0, 1, 2, 3, 4},
                          {make_jpeg(90, 70), make_jpeg(90, 70, 1, false, 1, 1, 8), label_bytes(1)}),
            5);
}

// Boxes, key points and labels of a record, as bytes.
std::vector<Bytes> record_with_objects(std::size_t objects) {
  std::vector<float> boxes, points;
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < objects; ++i) {
    const auto at = static_cast<float>(7 * i);
    boxes.insert(boxes.end(), {at, at / 2, at + 30, at + 20});
    points.insert(points.end(), {at, 5, 2, 40, at, 1});
    labels.push_back(static_cast<std::int64_t>(100 + i));
  }
  const auto bytes = [](const auto& values) {
    const auto all = std::as_bytes(std::span(values));
    return Bytes(all.begin(), all.end());
  };
  return {make_jpeg(90, 70), bytes(boxes), bytes(points), bytes(labels)};
}

const std::string kWithObjects =
    R"({"type":"files","paths":["a"],"arrays":{)"
    R"("boxes":{"dtype":"float32","shape":[4],"fingerprint":"","rows_max":9},)"
    R"("points":{"dtype":"float32","shape":[2,3],"fingerprint":"","rows_max":9},)"
    R"("labels":{"dtype":"int64","shape":[],"fingerprint":"","rows_max":9}}})";

TEST(PlanParts, ObjectsGoOnWhereTheyWere) {
  Drawn drawn(5);
  const std::string boxes = R"({"op":"boxes","key_points":["points"],"flip_pairs":[[0,1]]})";
  const std::string fixed = R"({"op":"decode_image"},{"op":"center_crop","size":[60,50]},)" + boxes +
                            R"(,{"op":"random_horizontal_flip"},{"op":"random_crop","size":[40,44]},)"
                            R"({"op":"sanitize_boxes"},{"op":"rotate","angle":20.0})";
  const std::string any = R"({"op":"decode_image"},)" + boxes +
                          R"(,{"op":"random_zoom_out"},{"op":"random_iou_crop"},{"op":"sanitize_boxes"},)"
                          R"({"op":"random_horizontal_flip"},{"op":"resize","size":[30,33]})";
  const Order order{0, 1, 2, 3, 4, 5, 6};
  const auto one = pipeline_of(document(fixed, R"({"batch_size":2})", kWithObjects));
  const auto other = pipeline_of(document(any, R"({"batch_size":2})", kWithObjects));
  for (const std::size_t objects : {0U, 1U, 6U, 8U}) {
    EXPECT_EQ(expect_parts(drawn, one, order, record_with_objects(objects)), 5);
    EXPECT_EQ(expect_packed(drawn, one, order, record_with_objects(objects)), 5);
    EXPECT_EQ(expect_packed(drawn, other, order, record_with_objects(objects)), 6);
  }
}

TEST(PlanParts, ObjectsThatDoNotAddUpAreBadData) {
  const auto plan = plan_of(document(R"({"op":"decode_image"},{"op":"boxes","key_points":["points"]},)"
                                     R"({"op":"resize","size":[30,33]})",
                                     R"({"batch_size":2})", kWithObjects));
  Scratch scratch;
  EXPECT_FALSE(run_guarded(*plan, scratch, {}, record_with_objects(3)).error);
  for (const std::size_t field : {1U, 2U, 3U}) {
    for (const std::size_t lacks : {1U, 4U, 8U}) {
      std::vector<Bytes> record = record_with_objects(3);
      record[field].resize(record[field].size() - lacks);
      const Outcome outcome = run_guarded(*plan, scratch, {}, record);
      ASSERT_TRUE(outcome.error) << field << " " << lacks;
      EXPECT_EQ(outcome.error->code, Code::kCorrupt);
    }
  }
  const Outcome too_many = run_guarded(*plan, scratch, {}, record_with_objects(10));
  ASSERT_TRUE(too_many.error);
  EXPECT_EQ(too_many.error->code, Code::kCorrupt);
}

}  // namespace
}  // namespace carya::transforms::testing
