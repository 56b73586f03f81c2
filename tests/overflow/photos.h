#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "loader/plan/stream_planner.h"
#include "loader/wire/chunk_message.h"
#include "tests/loader/job_reading.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {

using Rows = std::vector<std::uint64_t>;

inline constexpr const char* kOps =
    R"([{"op":"decode_image"},{"op":"random_resized_crop","size":[16,16]},{"op":"random_horizontal_flip"},)"
    R"({"op":"normalize","mean":0.4,"std":0.2}])";
inline constexpr std::uint64_t kAllOps = 4;

inline Opened open_photos(const PhotoFolder& folder) {
  const auto pipeline = transforms::Pipeline::parse(
      R"({"version":1,"source":{"type":"image_folder","path":")" + folder.path().string() +
      R"("},"views":[],"shuffle":{"seed":5},"ops":)" + kOps + R"(,"batch":)" + kBatch4 + "}");
  EXPECT_TRUE(pipeline) << pipeline.error().message;
  const auto dataset = Dataset::open(**pipeline, {});
  EXPECT_TRUE(dataset) << dataset.error().message;
  return {*pipeline, *dataset};
}

/// The first `ops` of the pipeline, for workers.
inline RemotePlan remote_plan(const transforms::Pipeline& pipeline, std::uint64_t ops) {
  return {.id = 1,
          .pipeline = pipeline.to_json(),
          .fingerprint = pipeline.fingerprint(transforms::OnError::kRaise),
          .seed = pipeline.seed(),
          .order = {0, 1, 2, 3},
          .cut = ops};
}

/// What is left to the host; null: nothing.
inline std::shared_ptr<PlanInUse> rest_of(const transforms::Pipeline& pipeline, std::uint64_t ops) {
  if (ops == kAllOps) return nullptr;
  const auto shared = transforms::Pipeline::parse(pipeline.to_json());
  const auto rest = transforms::Plan::compile(*shared, {.seed = pipeline.seed(), .first = ops});
  EXPECT_TRUE(rest) << rest.error().message;
  return std::make_shared<PlanInUse>(PlanInUse{.plan = *rest, .profile = {}});
}

inline Rows alone(const Opened& opened, JobOptions options = {}) {
  return drain(*start(opened, options));
}

}  // namespace carya::loader
