// Entries of packed coefficients as they are made from files: progressive ones too, and none of what is doubtful.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/jpeg_writer.h"
#include "transforms/kernels/codec/coefficient_maker.h"

namespace carya::transforms {
namespace {

constexpr double kAnyShare = 100;

std::vector<std::byte> photo(int height, int width, int channels, int h, int v, bool progressive) {
  return write_jpeg(
      height, width, channels, 92,
      [](std::size_t y, std::span<unsigned char> row) {
        for (std::size_t i = 0; i < row.size(); ++i) {
          const std::uint32_t mixed = static_cast<std::uint32_t>(i * 40503 + y * 9973 + 1) * 2654435761U;
          row[i] = static_cast<unsigned char>(i / 3 + y / 2 + (mixed >> 26) + (i % 3) * 20);
        }
      },
      [=](jpeg_compress_struct& cinfo) {
        cinfo.comp_info[0].h_samp_factor = h;
        cinfo.comp_info[0].v_samp_factor = v;
        if (progressive) jpeg_simple_progression(&cinfo);
      });
}

std::vector<std::uint8_t> decoded(const std::vector<std::byte>& file, const Region& region) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(region.height * region.width * 3));
  TurboJpeg turbo;
  EXPECT_TRUE(turbo.open(file, {}));
  EXPECT_TRUE(turbo.decode_region(region, ColorMode::kRgb,
                                  {pixels.data(), region.height, region.width, 3, region.width * 3}));
  return pixels;
}

TEST(CoefficientMaker, EntriesOfBaselineAndProgressiveFilesHaveTheirPixels) {
  CoefficientMaker maker;
  coefficients::Unpacker unpacker;
  constexpr int kSamplings[][3] = {{1, 1, 1}, {3, 1, 1}, {3, 2, 1}, {3, 2, 2}};
  for (const auto& [channels, h, v] : kSamplings) {
    for (const bool progressive : {false, true}) {
      for (const int side : {97, 128, 333}) {
        const auto file = photo(side, side + 37, channels, h, v, progressive);
        const auto entry = maker.make(file, {}, kAnyShare);
        ASSERT_FALSE(entry.empty()) << channels << h << v << progressive << side;
        ASSERT_TRUE(unpacker.open(entry));
        EXPECT_EQ(unpacker.facts().file_bytes, file.size());
        EXPECT_EQ(unpacker.facts().scans > 1, progressive);
        for (const Region& region :
             {Region{0, 0, side, side + 37}, Region{5, 9, side - 30, 50}, Region{side - 1, 3, 1, 2}}) {
          std::vector<std::uint8_t> out(static_cast<std::size_t>(region.height * region.width * 3));
          ASSERT_EQ(unpacker.decode({static_cast<int>(region.left), static_cast<int>(region.top),
                                     static_cast<int>(region.width), static_cast<int>(region.height)},
                                    jpeg::Mode::kRgb, out.data(), static_cast<std::size_t>(region.width * 3)),
                    jpeg::Outcome::kDone);
          EXPECT_EQ(out, decoded(file, region));
        }
      }
    }
  }
}

TEST(CoefficientMaker, DoubtfulFilesHaveNoEntry) {
  CoefficientMaker maker;
  for (const bool progressive : {false, true}) {
    auto file = photo(200, 300, 3, 2, 2, progressive);
    ASSERT_FALSE(maker.make(file, {}, kAnyShare).empty());
    EXPECT_TRUE(maker.make(file, {}, 0.5).empty());
    EXPECT_TRUE(maker.make(file, {.pixels_max = 1000}, kAnyShare).empty());
    file.erase(file.begin() + static_cast<std::ptrdiff_t>(file.size() / 2),
               file.begin() + static_cast<std::ptrdiff_t>(file.size() - 2));
    EXPECT_TRUE(maker.make(file, {}, kAnyShare).empty());
  }
  EXPECT_TRUE(maker.make(photo(64, 64, 3, 1, 2, false), {}, kAnyShare).empty());  // an unusual sampling
  const std::vector<std::byte> none(100);
  EXPECT_TRUE(maker.make(none, {}, kAnyShare).empty());
}

}  // namespace
}  // namespace carya::transforms
