// Question: what does each color op and each turn cost on a picture of 224 x 224 x 3 in the cache, and what
// do several on one that no cache holds? Ceiling: the same plan without an op, which copies the picture into
// its slot. Each case runs the copy and the op in turns; us per picture are CPU time, medians.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/pairs.h"
#include "bench/program.h"
#include "transforms/plan/plan.h"

namespace {

using namespace carya::transforms;

constexpr std::int64_t kSide = 224;
constexpr std::int64_t kLargeSide = 1500;

struct Case {
  const char* name;
  const char* op;
  std::int64_t side = kSide;
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

/// CPU microseconds per picture.
double us_per_picture(const Plan& plan, Scratch& scratch, std::span<const std::byte> in,
                      std::vector<std::byte>& out, std::size_t pictures) {
  const std::array<std::span<const std::byte>, 1> inputs{in};
  const std::array<std::byte*, 1> outputs{out.data()};
  return 1e-3 * carya::bench::cpu_ns_per_item(pictures, [&] {
           for (std::uint64_t i = 0; i < pictures; ++i)
             CHECK(plan.run(scratch, {.record = i}, inputs, outputs).has_value());
         });
}

/// Smooth with some noise, as a photo is.
std::vector<std::byte> picture() {
  std::vector<std::byte> bytes(kLargeSide * kLargeSide * 3);
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    state = state * 1664525U + 1013904223U;
    bytes[i] = static_cast<std::byte>(60 + i / 3 % 224 / 2 + i % 3 * 20 + (state >> 28));
  }
  return bytes;
}

void color_op(benchmark::State& state, const Case& c, bool smoke) {
  static const std::vector<std::byte> bytes = picture();
  const auto in = std::span(bytes).first(static_cast<std::size_t>(c.side * c.side * 3));
  std::vector<std::byte> out(in.size());
  const std::size_t pictures =
      smoke ? 3 : static_cast<std::size_t>(100 * kSide * kSide / (c.side * c.side)) + 1;
  const auto copy = plan_of({"copy", "", c.side}), plan = plan_of(c);
  Scratch scratch;
  const auto us = [&](const Plan& one) { return us_per_picture(one, scratch, in, out, pictures); };
  carya::bench::run_in_turns(state,
                             {{"copy_us", [&] { return us(*copy); }}, {"us", [&] { return us(*plan); }}});
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(pictures));
  state.SetBytesProcessed(state.items_processed() * static_cast<std::int64_t>(in.size()));
}

}  // namespace

int main(int argc, char** argv) {
  carya::bench::Program program(argc, argv);
  const Case cases[] = {
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
      {"1500: 1 op", R"({"op":"posterize","bits":4})", kLargeSide},
      {"1500: 3 ops", R"({"op":"posterize","bits":4},{"op":"invert"},{"op":"solarize","threshold":128})",
       kLargeSide},
      {"1500: color_jitter",
       R"({"op":"color_jitter","brightness":0.4,"contrast":0.4,"saturation":0.4,"hue":0.1})", kLargeSide},
  };
  for (const Case& c : cases)
    benchmark::RegisterBenchmark(c.name, color_op, c, program.smoke())
        ->Iterations(program.smoke() ? 1 : 9)
        ->UseManualTime();
  return program.run();
}
