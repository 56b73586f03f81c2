// Any text as a plan file of one pipeline: never a crash, and what is taken is an order that can run.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "loader/plan/frozen_plan.h"
#include "transforms/plan/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carya;
  static const auto pipeline =
      transforms::Pipeline::parse(
          R"({"version":1,"source":{"type":"image_folder","path":"x"},"ops":[{"op":"decode_image"},)"
          R"({"op":"posterize","bits":5},{"op":"random_apply","ops":[{"op":"invert"}]},{"op":"center_crop","size":[8,8]}],)"
          R"("batch":{"batch_size":2}})")
          .value();
  const auto plan = loader::read_plan(*pipeline, {reinterpret_cast<const char*>(data), size});
  if (!plan) {
    CHECK(plan.error().code == Code::kInvalidArgument && !plan.error().message.empty());
    return 0;
  }
  CHECK(transforms::Plan::compile(pipeline, {.order = plan->order}).has_value());
  const auto again = loader::read_plan(*pipeline, loader::freeze_plan(*pipeline, *plan).value());
  CHECK(again && again->order == plan->order && again->sense == plan->sense);
  return 0;
}
