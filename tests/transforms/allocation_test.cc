#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/transforms/samples_test_lib.h"

// Every way to the heap of this program is counted: operator new here, and malloc and its kin where nothing
// else (a sanitizer) has taken their place.
namespace {
std::atomic<std::uint64_t> allocations{0};
}  // namespace

#if defined(__GLIBC__) && !defined(CARYA_SANITIZED)
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
__attribute__((visibility("default"))) void* malloc(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
__attribute__((visibility("default"))) void* calloc(std::size_t count, std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
__attribute__((visibility("default"))) void* realloc(void* old, std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(old, bytes);
}
__attribute__((visibility("default"))) void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
}
#endif

namespace carya::transforms::testing {
namespace {

// Allocations of 100 runs over these inputs, after one round that grows the scratch.
std::uint64_t steady_allocations(const Plan& plan, const std::vector<std::vector<Bytes>>& samples) {
  Scratch scratch;
  std::vector<Bytes> memory;
  std::vector<std::byte*> outputs;
  for (const TensorSpec& spec : plan.outputs()) memory.emplace_back(static_cast<std::size_t>(spec.bytes()));
  for (Bytes& bytes : memory) outputs.push_back(bytes.data());
  std::vector<std::vector<std::span<const std::byte>>> inputs;
  for (const auto& sample : samples) inputs.emplace_back(sample.begin(), sample.end());
  std::uint64_t before = 0;
  // Round 0 grows. The records are the same in every round: larger random windows may come, and may grow,
  // only there.
  for (int round = 0; round < 3; ++round) {
    if (round == 1) before = allocations.load();
    for (std::uint64_t record = 0; record < 100; ++record) {
      const Status status = plan.run(scratch, {.record = record}, inputs[record % inputs.size()], outputs);
      CHECK(status.has_value());
    }
  }
  return allocations.load() - before;
}

TEST(Allocation, IsCounted) {
  [[maybe_unused]] const std::uint64_t before = allocations.load();
  void* volatile memory = std::malloc(1000);  // volatile: or the pair is optimized away
  std::free(memory);
#if defined(__GLIBC__) && !defined(CARYA_SANITIZED)
  EXPECT_GT(allocations.load(), before);
#else
  GTEST_SKIP() << "the heap belongs to a sanitizer";
#endif
}

TEST(Allocation, NoneForPicturesInSteadyState) {
  const auto plan = plan_of(document(
      R"({"op":"decode_image","apply_exif":true},{"op":"random_resized_crop","size":[64,64]},)"
      R"({"op":"random_horizontal_flip"},{"op":"normalize","mean":[0.4,0.4,0.4],"std":[0.2,0.2,0.2]})"));
  std::vector<std::vector<Bytes>> samples;
  samples.push_back({make_jpeg(300, 200), label_bytes(1)});
  samples.push_back({make_jpeg(200, 310, 3, true, 1), label_bytes(2)});
  samples.push_back({make_jpeg(64, 90, 1, false, 1, 6), label_bytes(3)});
  EXPECT_EQ(steady_allocations(*plan, samples), 0u);
}

TEST(Allocation, NoneForDecodeIndexes) {
  const auto plan = plan_of(document(R"({"op":"decode_image"},{"op":"random_resized_crop","size":[64,64]})"));
  const Bytes label = label_bytes(1);
  const std::array<Bytes, 2> images{make_jpeg(300, 200), make_jpeg(200, 310)};
  Scratch scratch;
  std::array<Bytes, 2> memory{Bytes(64 * 64 * 3), Bytes(8)};
  std::array<std::byte*, 2> outputs{memory[0].data(), memory[1].data()};
  std::array<FieldIndex, 2> indexes;
  std::array<std::vector<std::uint8_t>, 2> stored;
  for (auto& bytes : stored) bytes.reserve(65'536);
  std::uint64_t before = 0;
  for (int round = 0; round < 4; ++round) {  // 0: made and grown; 1: complete and verified; then steady
    if (round == 2) before = allocations.load();
    for (std::uint64_t record = 0; record < 100; ++record) {
      const std::size_t i = record % 2;
      indexes[0].spacing = 8;
      indexes[0].verify = true;
      indexes[0].known = std::as_bytes(std::span(stored[i]));
      const std::array<std::span<const std::byte>, 2> inputs{images[i], label};
      CHECK(plan->run(scratch, {.record = record}, inputs, outputs, indexes).has_value());
      if (!indexes[0].made.empty()) stored[i].assign(indexes[0].made.begin(), indexes[0].made.end());
    }
  }
  EXPECT_EQ(allocations.load() - before, 0u);
}

TEST(Allocation, NoneForUnfusedTailsAndPadding) {
  const auto plan = plan_of(document(
      R"({"op":"decode_image"},{"op":"random_vertical_flip"},{"op":"resize","size":[70]},)"
      R"({"op":"pad","padding":[3,3,3,3],"padding_mode":"edge"},{"op":"random_crop","size":[60,60],"pad_if_needed":true},)"
      R"({"op":"to_dtype","scale":true},{"op":"normalize","mean":0.5,"std":0.5})"));
  EXPECT_EQ(steady_allocations(*plan,
                               {{make_jpeg(300, 200), label_bytes(1)}, {make_jpeg(90, 200), label_bytes(1)}}),
            0u);
}

TEST(Allocation, NoneForWarpsAndBlur) {
  const auto plan = plan_of(document(
      R"({"op":"decode_image"},{"op":"random_rotation","degrees":30,"interpolation":"bilinear"},{"op":"random_horizontal_flip"},)"
      R"({"op":"gaussian_blur","kernel_size":23},{"op":"random_resized_crop","size":[64,64]},)"
      R"({"op":"random_affine","degrees":9,"translate":[0.1,0.1],"scale":[0.9,1.1],"shear":5},)"
      R"({"op":"normalize","mean":[0.4,0.4,0.4],"std":[0.2,0.2,0.2]})"));
  EXPECT_EQ(steady_allocations(*plan,
                               {{make_jpeg(300, 200), label_bytes(1)}, {make_jpeg(90, 200), label_bytes(1)}}),
            0u);
}

TEST(Allocation, NoneForColors) {
  const auto plan = plan_of(document(
      R"({"op":"decode_image"},{"op":"equalize"},{"op":"random_horizontal_flip"},{"op":"random_resized_crop","size":[64,64]},)"
      R"({"op":"color_jitter","brightness":0.4,"contrast":0.4,"saturation":0.4,"hue":0.1},{"op":"adjust_sharpness","sharpness_factor":2},)"
      R"({"op":"autocontrast"},{"op":"random_erasing","p":0.8,"value":"random"},{"op":"random_grayscale","p":0.5},)"
      R"({"op":"random_apply","ops":[{"op":"invert"},{"op":"random_vertical_flip"}]},)"
      R"({"op":"normalize","mean":[0.4,0.4,0.4],"std":[0.2,0.2,0.2]})"));
  EXPECT_EQ(steady_allocations(*plan,
                               {{make_jpeg(300, 200), label_bytes(1)}, {make_jpeg(90, 200), label_bytes(1)}}),
            0u);
}

TEST(Allocation, NoneForTwoViews) {
  const auto plan = plan_of(document(
      R"({"op":"decode_image","apply_exif":true},{"op":"two_views","ops":[{"op":"random_resized_crop","size":[64,64]},)"
      R"({"op":"random_apply","ops":[{"op":"color_jitter","brightness":0.4,"hue":0.1}]},)"
      R"({"op":"normalize","mean":[0.4,0.4,0.4],"std":[0.2,0.2,0.2]}]})"));
  EXPECT_EQ(steady_allocations(*plan, {{make_jpeg(300, 200), label_bytes(1)},
                                       {make_jpeg(90, 200, 3, false, 2, 6), label_bytes(1)}}),
            0u);
}

TEST(Allocation, NoneForArrays) {
  const auto plan = plan_of(document(
      R"({"op":"normalize","mean":0.5,"std":0.5})", R"({"batch_size":1})",
      R"({"type":"arrays","count":1,"arrays":{"image":{"dtype":"uint8","shape":[28,28,1],"fingerprint":""},)"
      R"("big":{"dtype":"uint8","shape":[224,224,3],"fingerprint":""}}})"));
  EXPECT_EQ(steady_allocations(*plan, {{Bytes(784), Bytes(150'528)}}), 0u);
}

}  // namespace
}  // namespace carya::transforms::testing
