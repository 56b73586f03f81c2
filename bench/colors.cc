// Question: what does each color op and each turn cost on a picture of 224 x 224 x 3 in the cache, and what
// do several on one that no cache holds? Ceiling: the same plan without an op, which copies the picture into
// its slot.
//
// Usage: bench_colors [--smoke]. A table, then one JSON line.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "transforms/plan/plan.h"

namespace {

using namespace carya::transforms;

constexpr std::int64_t kSide = 224;
constexpr std::int64_t kLargeSide = 1500;

struct Case {
  const char* name;
  const char* op;
  std::int64_t side = kSide;
  double us = 1e9;
};

std::shared_ptr<const Plan> plan_of(const Case& c) {
  const std::string side = std::to_string(c.side);
  const auto pipeline = Pipeline::parse(
      R"({"version":1,"source":{"type":"arrays","count":1,"arrays":{"image":{"dtype":"uint8","shape":[)" +
      side + "," + side + R"(,3],"fingerprint":""}}},"ops":[)" + c.op + R"(],"batch":{"batch_size":1}})");
  CHECK(pipeline.has_value());
  const auto plan = Plan::compile(*pipeline, {});
  CHECK(plan.has_value());
  return *plan;
}

double us_per_picture(const Plan& plan, Scratch& scratch, std::span<const std::byte> in,
                      std::vector<std::byte>& out, int pictures) {
  const std::array<std::span<const std::byte>, 1> inputs{in};
  const std::array<std::byte*, 1> outputs{out.data()};
  const std::int64_t start = carya::thread_cpu_ns();
  for (int i = 0; i < pictures; ++i)
    CHECK(plan.run(scratch, {.record = static_cast<std::uint64_t>(i)}, inputs, outputs).has_value());
  return static_cast<double>(carya::thread_cpu_ns() - start) / 1e3 / pictures;
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = argc > 1 && std::strcmp(argv[1], "--smoke") == 0;
  std::vector<Case> cases = {
      {"copy", ""},
      {"invert", R"({"op":"invert"})"},
      {"solarize", R"({"op":"solarize","threshold":128})"},
      {"posterize", R"({"op":"posterize","bits":4})"},
      {"grayscale(3)", R"({"op":"grayscale","num_output_channels":3})"},
      {"autocontrast", R"({"op":"autocontrast"})"},
      {"equalize", R"({"op":"equalize"})"},
      {"adjust_sharpness", R"({"op":"adjust_sharpness","sharpness_factor":1.5})"},
      {"brightness", R"({"op":"color_jitter","brightness":0.4})"},
      {"contrast", R"({"op":"color_jitter","contrast":0.4})"},
      {"saturation", R"({"op":"color_jitter","saturation":0.4})"},
      {"hue", R"({"op":"color_jitter","hue":0.1})"},
      {"color_jitter", R"({"op":"color_jitter","brightness":0.4,"contrast":0.4,"saturation":0.4,"hue":0.1})"},
      {"random_erasing", R"({"op":"random_erasing","p":1})"},
      {"blur 3, 1", R"({"op":"gaussian_blur","kernel_size":3,"sigma":1})"},
      {"blur 11, 2", R"({"op":"gaussian_blur","kernel_size":11,"sigma":2})"},
      {"blur 23, 5", R"({"op":"gaussian_blur","kernel_size":23,"sigma":5})"},
      {"rotate nearest", R"({"op":"rotate","angle":15})"},
      {"rotate bilinear", R"({"op":"rotate","angle":15,"interpolation":"bilinear"})"},
      {"affine bilinear",
       R"({"op":"affine","angle":5,"translate":[3,4],"scale":1.1,"shear":8,"interpolation":"bilinear"})"},
      {"1500: copy", "", kLargeSide},
      {"1500: 1 op", R"({"op":"posterize","bits":4})", kLargeSide},
      {"1500: 3 ops", R"({"op":"posterize","bits":4},{"op":"invert"},{"op":"solarize","threshold":128})",
       kLargeSide},
      {"1500: color_jitter",
       R"({"op":"color_jitter","brightness":0.4,"contrast":0.4,"saturation":0.4,"hue":0.1})", kLargeSide},
  };
  std::vector<std::byte> in(kLargeSide * kLargeSide * 3);
  std::vector<std::byte> out(in.size());
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < in.size(); ++i) {  // smooth with some noise, as a photo is
    state = state * 1664525U + 1013904223U;
    in[i] = static_cast<std::byte>(60 + i / 3 % 224 / 2 + i % 3 * 20 + (state >> 28));
  }
  Scratch scratch;
  for (int round = 0; round < (smoke ? 1 : 9); ++round)  // interleaved; the best round of each counts
    for (Case& c : cases) {
      const auto bytes = static_cast<std::size_t>(c.side * c.side * 3);
      const int pictures = smoke ? 3 : static_cast<int>(100 * kSide * kSide / (c.side * c.side)) + 1;
      c.us = std::min(c.us, us_per_picture(*plan_of(c), scratch, std::span(in).first(bytes), out, pictures));
    }
  std::printf("%-18s %12s %10s\n", "op", "CPU us", "x copy");
  for (const Case& c : cases) std::printf("%-18s %12.1f %10.1f\n", c.name, c.us, c.us / cases[0].us);
  std::printf("{\"bench\": \"colors\"");
  for (const Case& c : cases) std::printf(", \"%s_us\": %.2f", c.name, c.us);
  std::printf("}\n");
  return 0;
}
