// Any text at all: parsing never crashes, and what it accepts has a canonical form that parses to itself.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "transforms/pipeline/pipeline.h"
#include "transforms/plan/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carya::transforms;
  const auto pipeline = Pipeline::parse({reinterpret_cast<const char*>(data), size});
  if (!pipeline) {
    CHECK(pipeline.error().code == carya::Code::kInvalidArgument && !pipeline.error().message.empty());
    return 0;
  }
  const auto again = Pipeline::parse((*pipeline)->to_json());
  CHECK(again.has_value());
  CHECK((*again)->to_json() == (*pipeline)->to_json());
  CHECK((*again)->fingerprint(OnError::kRaise) == (*pipeline)->fingerprint(OnError::kRaise));
  const auto plan = Plan::compile(*pipeline, {});
  CHECK(plan.has_value() || plan.error().code == carya::Code::kInvalidArgument);
  return 0;
}
