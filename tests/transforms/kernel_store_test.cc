#include "transforms/kernels/store/store.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/transforms/kernel_memory.h"
#include "transforms/kernels/image/pad.h"
#include "transforms/simd/targets.h"

namespace carya::transforms {
namespace {

// The definition, value by value.
std::vector<std::byte> expected(const std::vector<std::uint8_t>& pixels, const StoreSpec& spec) {
  std::vector<std::byte> out(static_cast<std::size_t>(spec.bytes()));
  for (std::int64_t y = 0; y < spec.height; ++y) {
    for (std::int64_t x = 0; x < spec.width; ++x) {
      for (std::int64_t c = 0; c < spec.channels; ++c) {
        const std::int64_t to_y = spec.flip_vertical ? spec.height - 1 - y : y;
        const std::int64_t to_x = spec.flip_horizontal ? spec.width - 1 - x : x;
        const auto from = pixels[static_cast<std::size_t>((y * spec.width + x) * spec.channels + c)];
        const auto to = static_cast<std::size_t>(spec.layout == Layout::kHwc
                                                     ? (to_y * spec.width + to_x) * spec.channels + c
                                                     : (c * spec.height + to_y) * spec.width + to_x);
        const auto k = static_cast<std::size_t>(c);
        if (spec.to_float) {
          volatile float product = static_cast<float>(from) * spec.affine.a[k];  // rounded before the sum
          const float value = product + spec.affine.b[k];
          std::memcpy(out.data() + 4 * to, &value, 4);
        } else {
          out[to] = std::byte{from};
        }
      }
    }
  }
  return out;
}

TEST(KernelStore, MatchesTheDefinitionOnEveryTargetWithinItsMemory) {
  constexpr std::array kMean{0.485, 0.456, 0.406, 0.3}, kStd{0.229, 0.224, 0.225, 0.2};
  Affine affine;
  for (std::size_t c = 0; c < 4; ++c) affine.normalize(c, kMean[c], kStd[c], 255.0);
  for (const std::string& target : simd_targets()) {
    ASSERT_TRUE(force_simd_target(target));
    for (const auto& [height, width] :
         {std::array{1, 1}, std::array{3, 5}, std::array{5, 15}, std::array{4, 16}, std::array{7, 17},
          std::array{28, 28}, std::array{9, 64}, std::array{90, 131}, std::array{64, 224}}) {
      for (const std::int64_t channels : {1, 3, 4}) {
        Noise noise(static_cast<std::uint64_t>(height * 1000 + width));
        const auto count = static_cast<std::size_t>(height * width * channels);
        std::vector<std::uint8_t> pixels(count);
        for (auto& p : pixels) p = static_cast<std::uint8_t>(noise.next());
        const GuardedBytes in(count);
        std::copy(pixels.begin(), pixels.end(), in.data());
        for (int bits = 0; bits < 32; ++bits) {
          const StoreSpec spec{.height = height,
                               .width = width,
                               .channels = channels,
                               .layout = (bits & 1) != 0 ? Layout::kChw : Layout::kHwc,
                               .to_float = (bits & 2) != 0,
                               .flip_horizontal = (bits & 4) != 0,
                               .flip_vertical = (bits & 8) != 0,
                               .affine = affine,
                               .stream = (bits & 16) != 0};
          const auto want = expected(pixels, spec);
          for (const std::size_t shift : {std::size_t{0}, std::size_t{4}, std::size_t{7}}) {
            const GuardedBytes out(want.size() + shift);
            std::memset(out.data(), 0xA5, want.size() + shift);
            auto* to = reinterpret_cast<std::byte*>(out.data());
            store_image({in.data(), height, width, channels, width * channels}, spec, to);
            ASSERT_EQ(std::memcmp(to, want.data(), want.size()), 0)
                << target << " " << height << "x" << width << "x" << channels << " bits " << bits;
            for (std::size_t i = 0; i < shift; ++i) ASSERT_EQ(out.data()[want.size() + i], 0xA5);
            RowStore rows(spec, to + shift);  // row by row, at every alignment
            for (std::int64_t y = 0; y < height; ++y) rows.row(y, in.data() + y * width * channels);
            rows.finish();
            ASSERT_EQ(std::memcmp(to + shift, want.data(), want.size()), 0) << target << " bits " << bits;
          }
        }
      }
    }
  }
  ASSERT_TRUE(force_simd_target(""));
}

TEST(KernelStore, FloatPicturesKeepTwoRoundings) {
  const StoreSpec spec{.height = 5,
                       .width = 7,
                       .channels = 3,
                       .layout = Layout::kChw,
                       .to_float = true,
                       .flip_horizontal = true,
                       .affine = {{1.1f, 2.3f, 0.7f, 1}, {0.3f, -1.7f, 9.1f, 0}}};
  std::vector<float> in(5 * 7 * 3);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) * 0.37f;
  const GuardedBytes out(static_cast<std::size_t>(spec.bytes()));
  store_float_image(in.data(), Layout::kHwc, spec, reinterpret_cast<std::byte*>(out.data()));
  for (std::size_t y = 0; y < 5; ++y) {
    for (std::size_t x = 0; x < 7; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        volatile float product = in[(y * 7 + x) * 3 + c] * spec.affine.a[c];
        const float want = product + spec.affine.b[c];
        float got = 0;
        std::memcpy(&got, out.data() + 4 * ((c * 5 + y) * 7 + 6 - x), 4);
        EXPECT_EQ(got, want);
      }
    }
  }
}

TEST(KernelPad, EveryModeIsItsMirrorWithinItsMemory) {
  const std::array<std::uint8_t, 4> fill{9, 8, 7, 6};
  const std::uint8_t row[4] = {10, 20, 30, 40};
  const GuardedBytes in(4);
  std::memcpy(in.data(), row, 4);
  const ImageView view{in.data(), 1, 4, 1, 4};
  const Region window{0, -5, 1, 14};
  const auto run = [&](PaddingMode mode) {
    const GuardedBytes out(14);
    crop_padded(view, window, mode, fill, {out.data(), 1, 14, 1, 14});
    return std::vector<int>(out.data(), out.data() + 14);
  };
  EXPECT_EQ(run(PaddingMode::kConstant), (std::vector<int>{9, 9, 9, 9, 9, 10, 20, 30, 40, 9, 9, 9, 9, 9}));
  EXPECT_EQ(run(PaddingMode::kEdge),
            (std::vector<int>{10, 10, 10, 10, 10, 10, 20, 30, 40, 40, 40, 40, 40, 40}));
  EXPECT_EQ(run(PaddingMode::kReflect),
            (std::vector<int>{20, 30, 40, 30, 20, 10, 20, 30, 40, 30, 20, 10, 20, 30}));
  EXPECT_EQ(run(PaddingMode::kSymmetric),
            (std::vector<int>{40, 40, 30, 20, 10, 10, 20, 30, 40, 40, 30, 20, 10, 10}));
}

TEST(KernelPad, AWindowBesideThePictureIsAllFill) {
  const std::vector<std::uint8_t> pixels(6 * 5 * 3, 77);
  const ImageView view{pixels.data(), 6, 5, 3, 15};
  for (const Region window :
       {Region{-9, 0, 4, 4}, Region{7, 1, 3, 3}, Region{0, 5, 2, 2}, Region{0, -4, 6, 4}}) {
    const auto bytes = static_cast<std::size_t>(window.height * window.width * 3);
    const GuardedBytes out(bytes);
    crop_padded(view, window, PaddingMode::kConstant, {1, 2, 3, 4},
                {out.data(), window.height, window.width, 3, window.width * 3});
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(out.data()[i], 1 + i % 3);
  }
}

}  // namespace
}  // namespace carya::transforms
