#include "transforms/kernels/codec/jpeg_idct.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "tests/jpeg_writer.h"
#include "tests/transforms/kernel_memory.h"
#include "transforms/kernels/codec/turbo_jpeg.h"

namespace carya::transforms {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::int64_t kSize = 48;

// Half of it flat, half noise, of all samplings, some with more than one scan. `quantiser`: what the file
// says it was divided by, instead of the truth; large ones make coefficients that no encoder writes. 0: the
// truth.
Bytes picture(std::uint64_t seed, std::uint8_t quantiser) {
  Noise noise(seed);
  const auto fill = [&](std::size_t, std::span<unsigned char> row) {
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = static_cast<unsigned char>(i < row.size() / 2 ? 40 * (seed % 7) : noise.below(256));
  };
  const auto quality = static_cast<int>(60 + seed % 40);
  Bytes jpeg =
      write_jpeg(kSize, kSize, seed % 5 == 4 ? 1 : 3, quality, fill, [&](jpeg_compress_struct& cinfo) {
        cinfo.comp_info[0].h_samp_factor = static_cast<int>(1 + seed % 2);
        cinfo.comp_info[0].v_samp_factor = static_cast<int>(1 + seed / 2 % 2);
        if (seed % 3 == 0) jpeg_simple_progression(&cinfo);
      });
  if (quantiser == 0) return jpeg;
  for (std::size_t at = 2; jpeg[at + 1] != std::byte{0xDA};) {  // from marker to marker
    const std::size_t length =
        std::to_integer<std::size_t>(jpeg[at + 2]) << 8 | std::to_integer<std::size_t>(jpeg[at + 3]);
    if (jpeg[at + 1] == std::byte{0xDB})
      for (std::size_t i = at + 5; i < at + 5 + 64; ++i) jpeg[i] = std::byte{quantiser};
    at += 2 + length;
  }
  return jpeg;
}

// What libjpeg-turbo makes of it, with its own inverse DCT or with ours.
Bytes decoded(const Bytes& jpeg, bool ours) {
  jpeg_decompress_struct cinfo{};
  jpeg_error_mgr errors{};
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&cinfo);
  jpeg_mem_src(&cinfo, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
  jpeg_read_header(&cinfo, TRUE);
  jpeg_start_decompress(&cinfo);
  if (ours) use_own_inverse_dct(cinfo);
  const std::size_t row_bytes = cinfo.output_width * static_cast<std::size_t>(cinfo.output_components);
  Bytes pixels(row_bytes * cinfo.output_height);
  while (cinfo.output_scanline < cinfo.output_height) {
    auto* row = reinterpret_cast<JSAMPROW>(pixels.data() + row_bytes * cinfo.output_scanline);
    jpeg_read_scanlines(&cinfo, &row, 1);
  }
  jpeg_finish_decompress(&cinfo);
  jpeg_destroy_decompress(&cinfo);
  return pixels;
}

TEST(KernelIdct, IsThatOfLibjpegTurboForOrdinaryFiles) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Bytes jpeg = picture(seed, 0);
    EXPECT_EQ(decoded(jpeg, true), decoded(jpeg, false)) << "seed " << seed;
  }
}

TEST(KernelIdct, IsThatOfLibjpegTurboOnX86ForAllFiles) {
  if (kOwnInverseDct || std::getenv("JSIMD_FORCENONE") != nullptr)
    GTEST_SKIP() << "libjpeg-turbo has other pixels here, which is why ours takes its place";
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Bytes jpeg = picture(seed, static_cast<std::uint8_t>(8 + seed * 13 % 248));
    EXPECT_EQ(decoded(jpeg, true), decoded(jpeg, false)) << "seed " << seed;
  }
}

// The same constants on every architecture: the pixels of files whose coefficients wrap and saturate.
TEST(KernelIdct, AbsurdFilesHaveTheSamePixelsOnEveryArchitecture) {
  Hasher128 files, pixels;
  TurboJpeg decoder;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Bytes jpeg = picture(seed, static_cast<std::uint8_t>(8 + seed * 13 % 248));
    files.update(jpeg);
    ASSERT_TRUE(decoder.open(jpeg, {}).has_value());
    std::vector<std::uint8_t> out(kSize * kSize * 3);
    ASSERT_TRUE(
        decoder.decode_region({0, 0, kSize, kSize}, ColorMode::kRgb, {out.data(), kSize, kSize, 3, kSize * 3})
            .has_value());
    pixels.update(std::as_bytes(std::span(out)));
  }
  EXPECT_EQ(files.digest().hex(), "7023c0487e75e6609565d33d5527089c");
  EXPECT_EQ(pixels.digest().hex(), "3bb0049283a7c275c0e5325e8b46999b");
}

}  // namespace
}  // namespace carya::transforms
