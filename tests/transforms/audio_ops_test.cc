// Audio through plans: fused and op by op, whole and in parts.

#include <gtest/gtest.h>

#include <cstring>

#include "base/hash.h"
#include "transforms/pipeline/pipeline.h"
#include "transforms/plan/plan.h"

namespace carya::transforms {
namespace {

// A WAV of 16 bits, mono, 16 kHz: a saw tooth.
std::vector<std::byte> sound(std::uint32_t samples) {
  std::vector<std::byte> file;
  const auto add = [&](const void* bytes, std::size_t count) {
    const auto* const from = static_cast<const std::byte*>(bytes);
    file.insert(file.end(), from, from + count);
  };
  const auto number = [&](std::uint32_t value, std::size_t bytes) { add(&value, bytes); };
  add("RIFF\0\0\0\0WAVEfmt ", 16);
  number(16, 4), number(1, 2), number(1, 2), number(16'000, 4), number(32'000, 4), number(2, 2),
      number(16, 2);
  add("data", 4);
  number(2 * samples, 4);
  for (std::uint32_t i = 0; i < samples; ++i) number(i * 97 % 20'000, 2);
  return file;
}

std::shared_ptr<const Pipeline> pipeline_of(const std::string& ops) {
  auto pipeline =
      Pipeline::parse(R"({"version":1,"source":{"type":"files","paths":["x"],"field":"audio"},"ops":[)" +
                      ops + R"(],"batch":{"batch_size":1}})");
  EXPECT_TRUE(pipeline) << pipeline.error().message;
  return *pipeline;
}

using Tensors = std::vector<std::vector<std::byte>>;

Tensors run(const std::shared_ptr<const Pipeline>& pipeline, const PlanOptions& options,
            const Tensors& inputs, const SampleId& id) {
  const auto plan = Plan::compile(pipeline, options);
  EXPECT_TRUE(plan) << plan.error().message;
  std::vector<std::span<const std::byte>> in(inputs.begin(), inputs.end());
  Tensors outputs;
  std::vector<std::byte*> out;
  for (const TensorSpec& spec : (*plan)->outputs())
    outputs.emplace_back(static_cast<std::size_t>(spec.bytes()));
  for (auto& tensor : outputs) out.push_back(tensor.data());
  Scratch scratch;
  const Status status = (*plan)->run(scratch, id, in, out);
  EXPECT_TRUE(status) << status.error().message;
  return outputs;
}

const std::string kChain =
    R"({"op":"decode_audio","rate":8000},{"op":"crop_audio","samples":9000},{"op":"gain","db":[-6,6]},)"
    R"({"op":"log_mel","kind":"kaldi"},{"op":"spec_augment","time_width":20})";

TEST(AudioOps, PartsBehindEachOtherAreTheWholeWithItsLengths) {
  const auto pipeline = pipeline_of(kChain);
  for (const std::uint32_t samples : {3'000U, 17'000U, 40'000U})
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      const Tensors file{sound(samples)};
      const SampleId id{.epoch = epoch, .record = samples};
      const Tensors whole = run(pipeline, {.seed = 5}, file, id);
      ASSERT_EQ(whole.size(), 2U);
      EXPECT_EQ(run(pipeline, {.seed = 5, .fuse = false}, file, id), whole);
      for (std::size_t cut = 2; cut <= 5; ++cut) {
        const Tensors first = run(pipeline, {.seed = 5, .last = cut}, file, id);
        EXPECT_EQ(run(pipeline, {.seed = 5, .first = cut}, first, id), whole) << cut;
        EXPECT_EQ(run(pipeline, {.seed = 5, .fuse = false, .first = cut}, first, id), whole) << cut;
      }
    }
}

TEST(AudioOps, ArraysThatAreSoundsAreTakenAsWhatWasDecoded) {
  const std::string decode = R"({"op":"decode_audio","rate":8000},{"op":"crop_audio","samples":9000})";
  const std::string rest = kChain.substr(decode.size() + 1);
  const auto of_arrays = [&](const std::string& sound) {
    return Pipeline::parse(R"({"version":1,"source":{"type":"arrays","count":1,"arrays":{)"
                           R"("audio":{"dtype":"float32","shape":[9000],"fingerprint":"","sound":)" +
                           sound +
                           R"(},"audio_length":{"dtype":"int64","shape":[],"fingerprint":""}}},"ops":[)" +
                           rest + R"(],"batch":{"batch_size":1}})");
  };
  const auto behind = of_arrays(R"({"rate":8000,"length":"audio_length"})");
  ASSERT_TRUE(behind) << behind.error().message;
  EXPECT_EQ((*Pipeline::parse((*behind)->to_json()))->to_json(), (*behind)->to_json());
  for (const std::uint32_t samples : {3'000U, 40'000U}) {
    const Tensors file{sound(samples)};
    const SampleId id{.epoch = 1, .record = samples};
    const Tensors whole = run(pipeline_of(kChain), {.seed = 5}, file, id);
    const Tensors decoded = run(pipeline_of(decode), {.seed = 5}, file, id);
    EXPECT_EQ(run(*behind, {.seed = 5}, decoded, id), whole);
    EXPECT_EQ(run(*behind, {.seed = 5, .fuse = false}, decoded, id), whole);
  }
  for (const char* wrong :
       {R"({"rate":-1})", R"({"spectrum":"bins"})", R"({"spectrum":"x"})", R"({"power":3})", R"({"x":1})",
        "3", R"({"rate":8000,"spectrum":"frames","power":1})"}) {
    const auto refused = of_arrays(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  }
}

TEST(AudioOps, NoPartEndsWhereClipsHaveAnyLength) {
  const auto pipeline = pipeline_of(kChain);
  const auto plan = Plan::compile(pipeline, {.last = 1});
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("fixed shape"), std::string::npos) << plan.error().message;
  EXPECT_FALSE(Plan::compile(pipeline, {.last = 1, .packed = true}));
}

TEST(AudioOps, SamplesOfInt16SurviveACut) {
  const auto pipeline = pipeline_of(
      R"({"op":"decode_audio","dtype":"int16"},{"op":"pad_audio","samples":5000},{"op":"crop_audio","samples":4000})");
  const Tensors file{sound(3'500)};
  const Tensors whole = run(pipeline, {}, file, {});
  EXPECT_EQ(run(pipeline, {.first = 2}, run(pipeline, {.last = 2}, file, {}), {}), whole);
}

TEST(AudioOps, DrawsNeverChangeWithoutNotice) {
  const auto pipeline =
      pipeline_of(R"({"op":"decode_audio","dtype":"int16"},{"op":"crop_audio","samples":1})");
  std::vector<int> begins;
  for (std::uint64_t record = 0; record < 4; ++record) {
    const Tensors one = run(pipeline, {.seed = 1}, {sound(200)}, {.record = record});
    std::int16_t value = 0;
    std::memcpy(&value, one[0].data(), 2);
    begins.push_back(value / 97);
  }
  EXPECT_EQ(begins, (std::vector<int>{65, 36, 7, 69}));
}

// Whatever compiler, processor and SIMD target: these.
TEST(AudioOps, SpectraHaveOneSetOfBits) {
  Hasher128 hasher;
  for (const std::string op :
       {R"({"op":"log_mel","kind":"kaldi"})", R"({"op":"log_mel","kind":"whisper"})",
        R"({"op":"log_mel","kind":"torchaudio","n_fft":600})",
        R"({"op":"log_mel","kind":"kaldi","n_mels":23},{"op":"mfcc","n_mfcc":13,"lifter":22})",
        R"({"op":"spectrogram"},{"op":"time_stretch","rate":0.8},{"op":"mel_scale","n_mels":40})"}) {
    const auto pipeline = pipeline_of(
        R"({"op":"decode_audio","rate":16000},{"op":"pad_audio","samples":16000},{"op":"gain","db":-3},)" +
        op);
    hasher.update(run(pipeline, {}, {sound(12'345)}, {})[0]);
  }
  EXPECT_EQ(hasher.digest().hex(), "11e6c093efed9e137508b828a7cc41be");
}

TEST(AudioOps, ALyingLengthIsCut) {
  const auto pipeline = pipeline_of(kChain);
  Tensors first = run(pipeline, {.last = 4}, {sound(17'000)}, {});
  const std::int64_t lie = INT64_MAX;
  std::memcpy(first[1].data(), &lie, sizeof lie);
  const Tensors whole = run(pipeline, {.first = 4}, first, {});
  std::int64_t valid = 0;
  std::memcpy(&valid, whole[1].data(), sizeof valid);
  EXPECT_EQ(valid, 1 + (9'000 - 200) / 80);
}

}  // namespace
}  // namespace carya::transforms
