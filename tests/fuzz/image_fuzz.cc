// An encoded image from anywhere: the fused plan and the plan of one op after the other give the same verdict
// and, when it is good, the same bits; nothing but kCorrupt comes back; no buffer is left.

#include <array>
#include <cstring>

#include "base/error.h"
#include "transforms/pipeline/pipeline.h"
#include "transforms/plan/plan.h"

namespace {

using namespace carya::transforms;  // NOLINT(google-build-using-namespace): a program of one file

constexpr std::string_view kDocuments[] = {
    R"({"version":1,"source":{"type":"files","paths":["x"]},"ops":[{"op":"decode_image"},
        {"op":"random_resized_crop","size":[24,24]},{"op":"random_horizontal_flip"},
        {"op":"normalize","mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225]}],"batch":{"batch_size":1}})",
    R"({"version":1,"source":{"type":"files","paths":["x"]},"ops":[{"op":"decode_image","mode":"L","apply_exif":true},
        {"op":"random_crop","size":[20,28],"pad_if_needed":true}],"batch":{"batch_size":1}})",
    R"({"version":1,"source":{"type":"files","paths":["x"]},"ops":[{"op":"decode_image","apply_exif":true},
        {"op":"resize","size":[32]},{"op":"center_crop","size":[32,32]}],"batch":{"batch_size":1}})",
};

struct Plans {
  std::shared_ptr<const Plan> fused, whole;
  std::size_t bytes = 0;
};

Plans compile(std::string_view document) {
  const auto pipeline = Pipeline::parse(document);
  if (!pipeline) std::fprintf(stderr, "%s\n", pipeline.error().message.c_str());
  CHECK(pipeline);
  PlanOptions options{.image_pixels_max = 1 << 18, .jpeg_scans_max = 20};
  Plans plans;
  auto fused = Plan::compile(*pipeline, options);
  options.fuse = false;
  auto whole = Plan::compile(*pipeline, options);
  CHECK(fused && whole);
  plans.fused = *fused;
  plans.whole = *whole;
  plans.bytes = static_cast<std::size_t>(plans.fused->outputs().at(0).bytes());
  return plans;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::array<Plans, 3> all{compile(kDocuments[0]), compile(kDocuments[1]),
                                        compile(kDocuments[2])};
  static Scratch scratch;
  std::vector<std::byte> file(size + 1);  // one readable byte behind the end
  if (size > 0) std::memcpy(file.data(), data, size);
  const std::array<std::span<const std::byte>, 1> inputs{std::span<const std::byte>(file).first(size)};
  for (const Plans& plans : all) {
    std::vector<std::byte> fused(plans.bytes), whole(plans.bytes);
    std::byte* fused_out[] = {fused.data()};
    std::byte* whole_out[] = {whole.data()};
    const SampleId id{.epoch = 1, .record = size};
    const auto first = plans.fused->run(scratch, id, inputs, fused_out);
    const auto second = plans.whole->run(scratch, id, inputs, whole_out);
    CHECK(first.has_value() == second.has_value());
    if (!first) CHECK(first.error().code == carya::Code::kCorrupt);
    if (!second) CHECK(second.error().code == carya::Code::kCorrupt);
    if (first) CHECK(fused == whole);
  }
  return 0;
}
