// Where windows are cut, pixel by pixel: the resize behind them has nothing to do.
#include <gtest/gtest.h>
#include <tuple>

#include "base/philox.h"
#include "tests/transforms/samples_test_lib.h"
#include "transforms/ops/geometry.h"

namespace carya::transforms::testing {
namespace {

struct Cut {
  std::size_t height, width;  // of the image
  std::string ratio;          // that no window of all of its area has
  std::size_t top, left, rows, columns;
};

Bytes window_of(const Bytes& image, const Cut& cut) {
  Bytes out;
  for (std::size_t y = cut.top; y < cut.top + cut.rows; ++y)
    for (std::size_t i = cut.left * 3; i < (cut.left + cut.columns) * 3; ++i)
      out.push_back(image[y * cut.width * 3 + i]);
  return out;
}

// Source: torchvision's RandomResizedCrop.get_params(): the middle, as large as the nearest allowed ratio
// lets it be.
TEST(Crops, WhereNoWindowFitsItIsTheMiddleOfTheNearestRatio) {
  for (const Cut& cut : {Cut{10, 40, "[0.5,2.0]", 0, 10, 10, 20}, Cut{40, 10, "[0.5,2.0]", 10, 0, 20, 10},
                         Cut{10, 41, "[1.0,1.0]", 0, 15, 10, 10}, Cut{41, 10, "[1.0,1.0]", 15, 0, 10, 10},
                         Cut{9, 40, "[0.6,1.5]", 0, 13, 9, 14}, Cut{40, 9, "[0.6,1.5]", 12, 0, 15, 9},
                         Cut{1, 30, "[1.0,1.0]", 0, 14, 1, 1}}) {
    const std::string size = "[" + std::to_string(cut.rows) + "," + std::to_string(cut.columns) + "]";
    const std::string shape = "[" + std::to_string(cut.height) + "," + std::to_string(cut.width) + ",3]";
    const auto plan = plan_of(document(
        R"({"op":"random_resized_crop","size":)" + size + R"(,"scale":[1.0,1.0],"ratio":)" + cut.ratio + "}",
        R"({"batch_size":1})",
        R"({"type":"arrays","count":1,"arrays":{"image":{"dtype":"uint8","shape":)" + shape +
            R"(,"fingerprint":""}}})"));
    const Bytes image = counting(cut.height * cut.width * 3);
    Scratch scratch;
    for (std::uint64_t record = 0; record < 8; ++record) {
      const Outcome outcome = run_guarded(*plan, scratch, {.record = record}, {image});
      ASSERT_EQ(outcome.tensors.size(), 1u);
      EXPECT_EQ(outcome.tensors[0], window_of(image, cut)) << cut.height << " x " << cut.width;
    }
  }
}

TEST(Crops, APartAtItsOwnSizeIsTheOneThatIsResized) {
  const std::string ranges = R"("scale":[0.1,0.9],"ratio":[0.5,2.0]})";
  const auto parts =
      pipeline_of(document(R"({"op":"decode_image"},{"op":"random_sized_crop",)" + ranges, "null"));
  const auto resized = pipeline_of(
      document(R"({"op":"decode_image"},{"op":"random_resized_crop","size":[20,30],)" + ranges, "null"));
  for (std::uint64_t record = 0; record < 100; ++record) {
    const ImageSize size{40 + static_cast<std::int64_t>(record), 90};
    StepList steps[2];
    for (int which = 0; which < 2; ++which) {
      SampleRng rng(op_key(1, "a crop", 0), 2, record, 0);
      const auto& op = static_cast<const GeometricOp&>(*(which ? resized : parts)->ops()[1]);
      ASSERT_TRUE(op.resolve(rng, size, steps[which]));
    }
    ASSERT_EQ(steps[0].count, 1U);
    ASSERT_EQ(steps[1].count, 2U);
    const Step& one = steps[0].steps[0];
    const Step& other = steps[1].steps[0];
    EXPECT_EQ(std::tie(one.kind, one.top, one.left, one.height, one.width),
              std::tie(other.kind, other.top, other.left, other.height, other.width));
  }
}

}  // namespace
}  // namespace carya::transforms::testing
