// A sound file from anywhere, decoded whole and as a window, resampled and not: nothing but a verdict comes back, a
// second run agrees with the first, and no buffer is left. The readers' libraries are those of the machine.

#include <array>
#include <cstring>

#include "base/error.h"
#include "transforms/pipeline/pipeline.h"
#include "transforms/plan/plan.h"

namespace {

using namespace carya::transforms;  // NOLINT(google-build-using-namespace): a program of one file

constexpr std::string_view kDocuments[] = {
    R"({"version":1,"source":{"type":"files","paths":["x"],"field":"audio"},"ops":[{"op":"decode_audio"},
        {"op":"crop_audio","samples":2000}],"batch":{"batch_size":1}})",
    R"({"version":1,"source":{"type":"files","paths":["x"],"field":"audio"},"ops":[{"op":"decode_audio","rate":16000},
        {"op":"gain","db":-1.0},{"op":"crop_audio","samples":3000,"random":false},{"op":"log_mel","kind":"kaldi"},
        {"op":"spec_augment"}],"batch":{"batch_size":1}})",
    R"({"version":1,"source":{"type":"files","paths":["x"],"field":"audio"},"ops":[
        {"op":"decode_audio","channels":2,"dtype":"int16"},{"op":"pad_audio","samples":900}],"batch":{"batch_size":1}})",
};

std::shared_ptr<const Plan> compile(std::string_view document) {
  const auto pipeline = Pipeline::parse(document);
  if (!pipeline) std::fprintf(stderr, "%s\n", pipeline.error().message.c_str());
  CHECK(pipeline);
  const auto plan = Plan::compile(*pipeline, {});
  CHECK(plan);
  return *plan;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::array<std::shared_ptr<const Plan>, 3> plans{
      compile(kDocuments[0]), compile(kDocuments[1]), compile(kDocuments[2])};
  static Scratch scratch;
  std::vector<std::byte> file(size + 1);  // one readable byte behind the end
  if (size > 0) std::memcpy(file.data(), data, size);
  const std::array<std::span<const std::byte>, 1> inputs{std::span<const std::byte>(file).first(size)};
  for (const auto& plan : plans) {
    const auto run = [&](Scratch& with, std::vector<std::byte>& audio, std::int64_t& length) {
      audio.resize(static_cast<std::size_t>(plan->outputs().at(0).bytes()));
      std::byte* out[] = {audio.data(), reinterpret_cast<std::byte*>(&length)};
      return plan->run(with, {.epoch = 1, .record = size}, inputs, out);
    };
    std::vector<std::byte> audio, again;
    std::int64_t length = 0, length_again = 0;
    const auto first = run(scratch, audio, length);
    if (!first) CHECK(first.error().code == carya::Code::kCorrupt);
    Scratch fresh;
    const auto second = run(fresh, again, length_again);
    CHECK(first.has_value() == second.has_value());
    if (first) CHECK(audio == again && length == length_again && length >= 0);
  }
  return 0;
}
