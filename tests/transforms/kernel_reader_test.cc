#include "transforms/kernels/codec/jpeg_dispatch.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/amount.h"
#include "tests/transforms/kernel_memory.h"
#include "transforms/kernels/codec/turbo_jpeg.h"

namespace carya::transforms {
namespace {

namespace fs = std::filesystem;

// Larger pictures would only take longer; they are decoded by other tests.
constexpr std::int64_t kPixelsMax = 700'000;
constexpr ImageLimits kLimits{.pixels_max = 4'000'000, .scans_max = 40};

std::vector<std::byte> read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

struct ReadPixels {
  std::string error;
  std::vector<std::uint8_t> values;
  bool operator==(const ReadPixels&) const = default;
};

template <typename Reader>
ReadPixels decode(Reader& reader, const Region& region, ColorMode mode) {
  ReadPixels pixels;
  pixels.values.resize(static_cast<std::size_t>(region.height * region.width * color_channels(mode)));
  const std::int64_t stride = region.width * color_channels(mode);
  const auto status = reader.decode_region(
      region, mode, {pixels.values.data(), region.height, region.width, color_channels(mode), stride});
  if (!status) pixels = {status.error().message, {}};
  return pixels;
}

/// Both readers, whole and in `regions` parts: the same verdict and the same bits.
void compare(JpegDispatch& reader, TurboJpeg& turbo, const std::vector<std::byte>& bytes, int regions,
             const std::string& name) {
  const auto ours = reader.open(bytes, kLimits);
  const auto theirs = turbo.open(bytes, kLimits);
  ASSERT_EQ(ours.has_value(), theirs.has_value()) << name;
  if (!ours || ours->width * ours->height > kPixelsMax) return;
  Noise noise(bytes.size());
  for (int i = 0; i <= regions; ++i) {
    Region region{0, 0, ours->height, ours->width};
    if (i > 0) {
      region.height = 1 + static_cast<std::int64_t>(noise.below(static_cast<int>(ours->height)));
      region.width = 1 + static_cast<std::int64_t>(noise.below(static_cast<int>(ours->width)));
      region.top = static_cast<std::int64_t>(noise.below(static_cast<int>(ours->height - region.height + 1)));
      region.left = static_cast<std::int64_t>(noise.below(static_cast<int>(ours->width - region.width + 1)));
    }
    for (const ColorMode mode : {ColorMode::kRgb, ColorMode::kL}) {
      if (mode == ColorMode::kL && i % 4 != 0) continue;
      const ReadPixels own = decode(reader, region, mode);
      ASSERT_EQ(own, decode(turbo, region, mode)) << name << " region " << i;
      const auto view = reader.decode_view(region, mode);
      ASSERT_EQ(view.has_value(), own.error.empty()) << name;
      for (std::int64_t y = 0; view && y < region.height; ++y)
        ASSERT_TRUE(std::equal(view->row(y), view->row(y) + view->row_bytes(),
                               own.values.begin() + y * region.width * color_channels(mode)))
            << name << " row " << y;
    }
  }
}

class KernelReaderData : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* data = std::getenv("CARYA_TEST_DATA");
    if (data == nullptr) GTEST_SKIP() << "CARYA_TEST_DATA names no folder";
    root_ = data;
  }
  DecodeCounts compare_all(const std::string& folder, int regions) {
    JpegDispatch reader;
    TurboJpeg turbo;
    int seen = 0;
    for (const auto& entry : fs::recursive_directory_iterator(root_ / folder)) {
      if (!entry.is_regular_file()) continue;
      const auto bytes = read_file(entry.path());
      const auto format = sniff(bytes);
      if (format && *format == ImageFormat::kJpeg && seen++ % one_case_of(4) == 0)
        compare(reader, turbo, bytes, regions, entry.path().string());
    }
    return reader.take_counts();
  }
  fs::path root_;
};

TEST_F(KernelReaderData, EveryPictureHasLibjpegTurbosPixelsByEitherDecoder) {
  const DecodeCounts counts = compare_all("images", 4);
  EXPECT_GT(counts.own, counts.turbo) << "ordinary photos go to our decoder";
  EXPECT_GT(counts.turbo, 0u);
}

TEST_F(KernelReaderData, DamagedPicturesKeepVerdictAndConcealment) {
  const DecodeCounts counts = compare_all("malformed", long_tests() ? 100 : 30);
  EXPECT_GT(counts.turbo, 0u);
}

}  // namespace
}  // namespace carya::transforms
