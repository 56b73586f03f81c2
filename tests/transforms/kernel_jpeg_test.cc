#include "transforms/kernels/codec/turbo_jpeg.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <jpeglib.h>

#include "tests/amount.h"
#include "tests/jpeg_writer.h"
#include "tests/transforms/kernel_memory.h"

namespace carya::transforms {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> encode(std::int64_t height, std::int64_t width, int channels, int h_factor,
                              int v_factor, bool progressive, std::uint64_t seed) {
  Noise noise(seed);
  const auto fill = [&](std::size_t y, std::span<unsigned char> row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = static_cast<unsigned char>((i * 3 + y * 5 + (i / 40) * 37) % 200 +
                                          static_cast<std::size_t>(noise.below(50)));
    }
  };
  return write_jpeg(height, width, channels, 88, fill, [&](jpeg_compress_struct& cinfo) {
    cinfo.comp_info[0].h_samp_factor = h_factor;
    cinfo.comp_info[0].v_samp_factor = v_factor;
    if (progressive) jpeg_simple_progression(&cinfo);
  });
}

struct Picture {
  bool good = false;
  std::string error;
  std::vector<std::uint8_t> pixels;
};

Picture decode(TurboJpeg& decoder, std::span<const std::byte> bytes, const Region* region, ColorMode mode,
               const ImageLimits& limits, ImageInfo* info = nullptr) {
  Picture picture;
  auto opened = decoder.open(bytes, limits);
  if (!opened) {
    EXPECT_EQ(opened.error().code, Code::kCorrupt) << opened.error().message;
    picture.error = opened.error().message;
    return picture;
  }
  if (info != nullptr) *info = *opened;
  const Region all{0, 0, opened->height, opened->width};
  const Region& r = region != nullptr ? *region : all;
  const std::int64_t channels = color_channels(mode);
  picture.pixels.resize(static_cast<std::size_t>(r.height * r.width * channels));
  const Status status = decoder.decode_region(
      r, mode, {picture.pixels.data(), r.height, r.width, channels, r.width * channels});
  picture.good = status.has_value();
  if (!status) {
    EXPECT_EQ(status.error().code, Code::kCorrupt) << status.error().message;
    picture.error = status.error().message;
  }
  // The view in the decoder's own memory holds the same.
  const auto view = decoder.decode_view(r, mode);
  EXPECT_EQ(view.has_value(), picture.good);
  if (!view) return picture;
  EXPECT_TRUE(view->height == r.height && view->width == r.width && view->channels == channels);
  for (std::int64_t y = 0; y < r.height; ++y) {
    if (std::memcmp(view->row(y), picture.pixels.data() + y * r.width * channels,
                    static_cast<std::size_t>(r.width * channels)) != 0) {
      ADD_FAILURE() << "the view differs in row " << y;
      break;
    }
  }
  return picture;
}

std::vector<std::uint8_t> cropped(const std::vector<std::uint8_t>& all, const ImageInfo& info,
                                  const Region& r, std::int64_t channels) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(r.height * r.width * channels));
  for (std::int64_t y = 0; y < r.height; ++y) {
    std::memcpy(out.data() + y * r.width * channels,
                all.data() + ((r.top + y) * info.width + r.left) * channels,
                static_cast<std::size_t>(r.width * channels));
  }
  return out;
}

Region some_region(Noise& noise, const ImageInfo& info) {
  Region r;
  r.height = 1 + noise.below(info.height);
  r.width = 1 + noise.below(info.width);
  r.top = noise.below(info.height - r.height + 1);
  r.left = noise.below(info.width - r.width + 1);
  return r;
}

// Same verdict and same bits by decoding all and by `count` regions; returns whether the file is good.
bool check_regions(TurboJpeg& decoder, std::span<const std::byte> bytes, int count, const ImageLimits& limits,
                   const std::string& name, std::uint64_t seed) {
  TurboJpeg fresh;
  ImageInfo info;
  const Picture whole = decode(fresh, bytes, nullptr, ColorMode::kRgb, limits, &info);
  const Picture again = decode(decoder, bytes, nullptr, ColorMode::kRgb, limits);
  EXPECT_EQ(whole.error, again.error) << name;
  EXPECT_TRUE(whole.pixels == again.pixels) << name << ": depends on what was decoded before";
  if (info.width == 0) return false;
  Noise noise(seed);
  for (int i = 0; i < count; ++i) {
    const Region r = some_region(noise, info);
    const Picture part = decode(decoder, bytes, &r, ColorMode::kRgb, limits);
    EXPECT_EQ(part.error, whole.error) << name;
    if (whole.good && part.good && part.pixels != cropped(whole.pixels, info, r, 3)) {
      ADD_FAILURE() << name << ": region " << r.top << " " << r.left << " " << r.height << " " << r.width
                    << " of " << info.height << " " << info.width << " differs";
      return false;
    }
  }
  return whole.good;
}

std::vector<std::byte> read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::byte> bytes(text.size());
  std::ranges::transform(text, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

std::vector<fs::path> files_under(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool looks_like_jpeg(const std::vector<std::byte>& bytes) {
  return bytes.size() > 2 && bytes[0] == std::byte{0xFF} && bytes[1] == std::byte{0xD8};
}

TEST(KernelJpeg, RegionIsTheSameAsDecodingAllForEverySampling) {
  TurboJpeg decoder;
  for (const bool progressive : {false, true}) {
    for (const auto& [channels, h, v] :
         {std::array{1, 1, 1}, std::array{1, 2, 2}, std::array{3, 1, 1}, std::array{3, 2, 1},
          std::array{3, 1, 2}, std::array{3, 2, 2}, std::array{3, 4, 1}, std::array{3, 1, 4},
          std::array{3, 4, 2}, std::array{3, 3, 1}, std::array{4, 1, 1}, std::array{4, 2, 2}}) {
      for (const auto& [height, width] :
           {std::array{97, 113}, std::array{16, 16}, std::array{1, 1}, std::array{33, 250}, std::array{5, 5},
            std::array{3, 9}, std::array{19, 4}}) {
        const auto bytes = encode(height, width, channels, h, v, progressive, 11);
        const std::string name = std::to_string(channels) + " channels " + std::to_string(h) + "x" +
                                 std::to_string(v) + (progressive ? " progressive " : " ") +
                                 std::to_string(height) + "x" + std::to_string(width);
        EXPECT_TRUE(check_regions(decoder, bytes, 60, {}, name, 5)) << name;
      }
    }
  }
}

TEST(KernelJpeg, ReadsOnlyItsBytesAndWritesOnlyItsPixels) {
  for (const bool progressive : {false, true}) {
    const auto bytes = encode(61, 83, 3, 2, 2, progressive, 3);
    const GuardedBytes in(bytes.size());
    std::memcpy(in.data(), bytes.data(), bytes.size());
    const std::span<const std::byte> guarded(reinterpret_cast<const std::byte*>(in.data()), bytes.size());
    TurboJpeg decoder;
    Noise noise(1);
    ImageInfo info{.width = 83, .height = 61};
    for (int i = 0; i < 200; ++i) {
      const Region r = some_region(noise, info);
      for (const ColorMode mode : {ColorMode::kRgb, ColorMode::kL}) {
        const std::int64_t channels = color_channels(mode);
        const GuardedBytes out(static_cast<std::size_t>(r.height * r.width * channels));
        ASSERT_TRUE(decoder.open(guarded, {}));
        ASSERT_TRUE(
            decoder.decode_region(r, mode, {out.data(), r.height, r.width, channels, r.width * channels}));
      }
    }
    for (std::size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 97) {
      const GuardedBytes part(cut);
      std::memcpy(part.data(), bytes.data(), cut);
      auto opened = decoder.open({reinterpret_cast<const std::byte*>(part.data()), cut}, {});
      ASSERT_FALSE(opened);
      EXPECT_EQ(opened.error().code, Code::kCorrupt);
    }
  }
}

TEST(KernelJpeg, GrayCmykAndLumaFollowTheirFormulas) {
  TurboJpeg decoder;
  const auto color = encode(24, 40, 3, 2, 2, false, 9);
  const Picture rgb = decode(decoder, color, nullptr, ColorMode::kRgb, {});
  const Picture luma = decode(decoder, color, nullptr, ColorMode::kL, {});
  for (std::size_t i = 0; i < luma.pixels.size(); ++i) {
    const int want =
        (19595 * rgb.pixels[3 * i] + 38470 * rgb.pixels[3 * i + 1] + 7471 * rgb.pixels[3 * i + 2] + 32768) >>
        16;
    ASSERT_EQ(luma.pixels[i], want);
  }
  const auto gray = encode(24, 40, 1, 1, 1, false, 9);
  const Picture gray_rgb = decode(decoder, gray, nullptr, ColorMode::kRgb, {});
  const Picture gray_l = decode(decoder, gray, nullptr, ColorMode::kL, {});
  for (std::size_t i = 0; i < gray_l.pixels.size(); ++i) {
    for (std::size_t c = 0; c < 3; ++c) ASSERT_EQ(gray_rgb.pixels[3 * i + c], gray_l.pixels[i]);
  }
  const auto inks = encode(24, 40, 4, 1, 1, false, 9);
  const Picture from_inks = decode(decoder, inks, nullptr, ColorMode::kRgb, {});
  EXPECT_TRUE(from_inks.good);
  EXPECT_EQ(from_inks.pixels.size(), 24u * 40 * 3);
}

TEST(KernelJpeg, EndMarkerDecidesWhatIsTruncated) {
  auto bytes = encode(64, 64, 3, 1, 1, false, 2);
  TurboJpeg decoder;
  EXPECT_TRUE(decoder.open(bytes, {}));
  bytes.pop_back();
  EXPECT_FALSE(decoder.open(bytes, {}));
  bytes.resize(bytes.size() / 2);
  EXPECT_FALSE(decoder.open(bytes, {}));
  bytes.push_back(std::byte{0xFF});
  bytes.push_back(std::byte{0xD9});  // half the scan, but an end: damage inside, concealed
  const Picture concealed = decode(decoder, bytes, nullptr, ColorMode::kRgb, {});
  EXPECT_TRUE(concealed.good) << concealed.error;
  EXPECT_GT(decoder.warnings(), 0u);
  const std::array<std::byte, 5> noise{std::byte{0xD9}, std::byte{0xFF}, std::byte{0}, std::byte{0xD9},
                                       std::byte{0xFF}};
  EXPECT_FALSE(has_end_marker(noise));
  EXPECT_FALSE(has_end_marker({}));
}

TEST(KernelJpeg, CapsOnPixelsAndScansAreVerdicts) {
  TurboJpeg decoder;
  const auto bytes = encode(100, 100, 3, 1, 1, true, 2);
  EXPECT_TRUE(decoder.open(bytes, {.pixels_max = 10'000}));
  EXPECT_FALSE(decoder.open(bytes, {.pixels_max = 9'999}));
  EXPECT_TRUE(decoder.open(bytes, {.scans_max = 10}));
  EXPECT_FALSE(decoder.open(bytes, {.scans_max = 9}));
}

TEST(KernelJpeg, TablesOfAnEarlierPictureAreNotUsed) {
  auto bytes = encode(32, 32, 3, 1, 1, false, 2);
  auto bare = bytes;  // rename the quantization tables' markers so that the picture has none of its own
  for (std::size_t i = 0; i + 1 < bare.size(); ++i) {
    if (bare[i] == std::byte{0xFF} && bare[i + 1] == std::byte{0xDB}) bare[i + 1] = std::byte{0xFE};
  }
  TurboJpeg decoder;
  EXPECT_TRUE(decode(decoder, bytes, nullptr, ColorMode::kRgb, {}).good);
  EXPECT_FALSE(decode(decoder, bare, nullptr, ColorMode::kRgb, {}).good);
}

TEST(KernelJpeg, MisuseIsAnError) {
  TurboJpeg decoder;
  std::uint8_t pixel[3];
  EXPECT_FALSE(decoder.decode_region({0, 0, 1, 1}, ColorMode::kRgb, {pixel, 1, 1, 3, 3}));
  const auto bytes = encode(8, 8, 3, 1, 1, false, 2);
  ASSERT_TRUE(decoder.open(bytes, {}));
  EXPECT_FALSE(decoder.decode_region({0, 8, 1, 1}, ColorMode::kRgb, {pixel, 1, 1, 3, 3}));
  EXPECT_FALSE(decoder.decode_region({0, 0, 1, 1}, ColorMode::kL, {pixel, 1, 1, 3, 3}));
  EXPECT_TRUE(decoder.decode_region({7, 7, 1, 1}, ColorMode::kRgb, {pixel, 1, 1, 3, 3}));
}

class KernelJpegFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("CARYA_TEST_DATA");
    if (folder == nullptr) GTEST_SKIP() << "CARYA_TEST_DATA is not set";
    data_ = folder;
  }
  fs::path data_;
};

TEST_F(KernelJpegFiles, EveryMalformedFileHasOneVerdictAndOneSetOfPixels) {
  TurboJpeg decoder;  // kept, so that each file follows all the others
  int jpegs = 0;
  int good = 0;
  for (const fs::path& path : files_under(data_ / "malformed")) {
    const auto bytes = read_all(path);
    if (!looks_like_jpeg(bytes)) continue;
    if (jpegs++ % one_case_of(4) != 0) continue;
    good += check_regions(decoder, bytes, long_tests() ? 100 : 30, {.pixels_max = 600'000, .scans_max = 40},
                          path.filename().string(), 3);
  }
  EXPECT_GT(jpegs, 100);
  EXPECT_GT(good, 0);
  EXPECT_LT(good, jpegs);
}

TEST_F(KernelJpegFiles, EveryPhotoGivesTheSameRegions) {
  TurboJpeg decoder;
  int jpegs = 0;
  for (const fs::path& path : files_under(data_ / "images")) {
    const auto bytes = read_all(path);
    if (!looks_like_jpeg(bytes)) continue;
    if (jpegs++ % one_case_of(4) != 0) continue;
    check_regions(decoder, bytes, long_tests() ? 4 : 2, {.pixels_max = 4'000'000}, path.filename().string(),
                  4);
  }
  EXPECT_GT(jpegs, 300);
}

}  // namespace
}  // namespace carya::transforms
