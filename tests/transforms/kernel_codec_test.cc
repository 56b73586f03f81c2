#include "transforms/kernels/codec/image_codec.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <spng.h>

#include "tests/transforms/kernel_memory.h"
#include "transforms/kernels/codec/exif.h"

namespace carya::transforms {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> encode_png(int color_type, int bits, int channels, bool interlaced,
                                  std::uint32_t width, std::uint32_t height, std::vector<std::uint8_t>& raw) {
  spng_ctx* context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{width,
                   height,
                   static_cast<std::uint8_t>(bits),
                   static_cast<std::uint8_t>(color_type),
                   0,
                   0,
                   static_cast<std::uint8_t>(interlaced ? 1 : 0)};
  spng_set_ihdr(context, &header);
  if (color_type == SPNG_COLOR_TYPE_INDEXED) {
    spng_plte palette{};
    palette.n_entries = 1u << bits;
    for (std::uint32_t i = 0; i < palette.n_entries; ++i) {
      palette.entries[i] = {static_cast<std::uint8_t>(i * 5), static_cast<std::uint8_t>(255 - i),
                            static_cast<std::uint8_t>(i * 3), 0};
    }
    spng_set_plte(context, &palette);
  }
  const std::size_t row = (width * static_cast<std::uint32_t>(channels * bits) + 7) / 8;
  raw.resize(row * height);
  Noise noise(8);
  for (auto& byte : raw) byte = static_cast<std::uint8_t>(noise.next());
  EXPECT_EQ(spng_encode_image(context, raw.data(), raw.size(), SPNG_FMT_RAW, SPNG_ENCODE_FINALIZE), 0);
  std::size_t bytes = 0;
  int error = 0;
  void* data = spng_get_png_buffer(context, &bytes, &error);
  std::vector<std::byte> out(bytes);
  std::memcpy(out.data(), data, bytes);
  std::free(data);
  spng_ctx_free(context);
  return out;
}

std::uint8_t stored(const std::vector<std::uint8_t>& raw, std::size_t row_bytes, std::size_t y, std::size_t i,
                    int bits) {
  const std::uint8_t* row = raw.data() + y * row_bytes;
  if (bits == 16) return row[2 * i];
  if (bits == 8) return row[i];
  const std::size_t bit = i * static_cast<std::size_t>(bits);
  return static_cast<std::uint8_t>((row[bit / 8] >> (8 - bits - static_cast<int>(bit % 8))) &
                                   ((1 << bits) - 1));
}

TEST(KernelPng, IsGivenUpBetweenRows) {
  for (const bool interlaced : {false, true}) {
    std::vector<std::uint8_t> raw;
    const auto bytes = encode_png(SPNG_COLOR_TYPE_TRUECOLOR, 8, 3, interlaced, 1000, 1000, raw);
    Patience patience;
    ImageDecoder decoder;
    decoder.set_patience(&patience);
    int asked = 0;
    patience.set([&] { return ++asked < 3; });
    ASSERT_TRUE(decoder.open(bytes, {}));
    const auto given_up = decoder.decode_view({0, 0, 1000, 1000}, ColorMode::kRgb);
    ASSERT_FALSE(given_up) << interlaced;
    EXPECT_EQ(given_up.error().code, Code::kTimeout);
    EXPECT_EQ(asked, 3);
    patience.set({});
    const auto again = decoder.decode_view({0, 0, 1000, 1000}, ColorMode::kRgb);
    ASSERT_TRUE(again) << again.error().message;
    for (std::int64_t y = 0; y < 1000; ++y)
      ASSERT_EQ(std::memcmp(again->row(y), raw.data() + y * 3000, 3000), 0) << "row " << y;
  }
}

TEST(KernelPng, EveryColorTypeBecomesRgbAndLumaForEveryRegion) {
  struct Kind {
    int color_type, bits, channels;
  };
  ImageDecoder decoder;  // kept, so that each picture finds the memory of the one before
  for (const Kind kind : {Kind{0, 1, 1}, Kind{0, 2, 1}, Kind{0, 4, 1}, Kind{0, 8, 1}, Kind{0, 16, 1},
                          Kind{2, 8, 3}, Kind{2, 16, 3}, Kind{3, 1, 1}, Kind{3, 2, 1}, Kind{3, 4, 1},
                          Kind{3, 8, 1}, Kind{4, 8, 2}, Kind{4, 16, 2}, Kind{6, 8, 4}, Kind{6, 16, 4}}) {
    for (const bool interlaced : {false, true}) {
      std::vector<std::uint8_t> raw;
      const auto bytes = encode_png(kind.color_type, kind.bits, kind.channels, interlaced, 21, 13, raw);
      const GuardedBytes in(bytes.size());
      std::memcpy(in.data(), bytes.data(), bytes.size());
      const std::size_t row_bytes = (21 * static_cast<std::size_t>(kind.channels * kind.bits) + 7) / 8;
      const Region region{2, 3, 9, 17};
      const auto info = decoder.open({reinterpret_cast<const std::byte*>(in.data()), bytes.size()}, {});
      ASSERT_TRUE(info) << info.error().message;
      EXPECT_EQ(info->channels, kind.channels);
      const GuardedBytes rgb(9 * 17 * 3);
      const GuardedBytes luma(9 * 17);
      ASSERT_TRUE(decoder.decode_region(region, ColorMode::kRgb, {rgb.data(), 9, 17, 3, 51}));
      ASSERT_TRUE(decoder.decode_region(region, ColorMode::kL, {luma.data(), 9, 17, 1, 17}));
      for (std::size_t y = 0; y < 9; ++y) {
        for (std::size_t x = 0; x < 17; ++x) {
          const auto value = [&](std::size_t c) {
            const std::size_t channels = static_cast<std::size_t>(kind.channels);
            return stored(raw, row_bytes, y + 2, (x + 3) * channels + c, kind.bits);
          };
          std::array<int, 3> want{};
          if (kind.color_type == 3) {
            want = {static_cast<std::uint8_t>(value(0) * 5), 255 - value(0),
                    static_cast<std::uint8_t>(value(0) * 3)};
          } else if (kind.channels >= 3) {
            want = {value(0), value(1), value(2)};
          } else {
            want.fill(kind.bits < 8 ? value(0) * 255 / ((1 << kind.bits) - 1) : value(0));
          }
          for (std::size_t c = 0; c < 3; ++c) ASSERT_EQ(rgb.data()[(y * 17 + x) * 3 + c], want[c]);
          const int l = kind.channels <= 2 && kind.color_type != 3
                            ? want[0]
                            : (19595 * want[0] + 38470 * want[1] + 7471 * want[2] + 32768) >> 16;
          ASSERT_EQ(luma.data()[y * 17 + x], l);
        }
      }
    }
  }
}

TEST(KernelPng, DamageIsBrokenWhateverTheRegion) {
  std::vector<std::uint8_t> raw;
  const auto good = encode_png(2, 8, 3, false, 40, 40, raw);
  ImageDecoder decoder;
  std::vector<std::uint8_t> out(40 * 40 * 3);
  int broken = 0;
  for (std::size_t at = 8; at + 12 < good.size(); at += 1 + good.size() / 211) {
    auto bytes = good;
    bytes[at] ^= std::byte{0x10};
    const auto verdict = [&](const Region& r) {
      if (!decoder.open(bytes, {.pixels_max = 1'000'000})) return false;
      const auto info = decoder.open(bytes, {.pixels_max = 1'000'000});
      if (!r.inside(info->height, info->width)) return false;
      return decoder.decode_region(r, ColorMode::kRgb, {out.data(), r.height, r.width, 3, r.width * 3})
          .has_value();
    };
    const bool all = verdict({0, 0, 40, 40});
    EXPECT_EQ(verdict({0, 0, 1, 1}), all) << at;
    EXPECT_EQ(verdict({39, 39, 1, 1}), all) << at;
    broken += all ? 0 : 1;
  }
  EXPECT_GT(broken, 150);
  EXPECT_FALSE(decoder.open(good, {.pixels_max = 1599}));
}

TEST(KernelCodec, NamesWhatIsNotAnImageOfItsOwn) {
  const auto message = [](std::string_view text) {
    const auto format = sniff(std::as_bytes(std::span(text.data(), text.size())));
    return format ? std::string() : format.error().message;
  };
  using std::string_view_literals::operator""sv;
  EXPECT_EQ(message("RIFF\x10\0\0\0WEBPVP8 "sv), "not a JPEG or PNG (starts with 52 49 46 46: WebP)");
  EXPECT_EQ(message("GIF89a"sv), "not a JPEG or PNG (starts with 47 49 46 38: GIF)");
  EXPECT_EQ(message("\0\0\0\x20"
                    "ftypavif"sv),
            "not a JPEG or PNG (starts with 00 00 00 20: AVIF)");
  EXPECT_EQ(message("xy"sv), "not a JPEG or PNG (starts with 78 79)");
  EXPECT_EQ(message(""sv), "not a JPEG or PNG (empty)");
}

TEST(KernelExif, OrientationIsReadWithinItsBytesOrIsOne) {
  std::vector<unsigned char> exif = {'E',  'x',  'i', 'f', 0, 0, 'M', 'M', 0, '*', 0, 0, 0, 8,
                                     0,    2,    1,   0,   0, 3, 0,   0,   0, 1,   0, 5, 0, 0,
                                     0x01, 0x12, 0,   3,   0, 0, 0,   1,   0, 6,   0, 0};
  const auto read = [&](std::size_t bytes) {
    const GuardedBytes in(bytes);
    std::memcpy(in.data(), exif.data(), bytes);
    return exif_orientation({reinterpret_cast<const std::byte*>(in.data()), bytes});
  };
  EXPECT_EQ(read(exif.size()), 6);
  for (std::size_t cut = 0; cut < exif.size(); ++cut) EXPECT_EQ(read(cut), 1) << cut;
  exif[37] = 9;
  EXPECT_EQ(read(exif.size()), 1);
  for (std::size_t i = 0; i < exif.size(); ++i) {
    for (const unsigned char value : {0x00, 0x7F, 0xFF}) {
      const auto kept = exif[i];
      exif[i] = value;
      const int orientation = read(exif.size());
      EXPECT_TRUE(orientation >= 1 && orientation <= 8);
      exif[i] = kept;
    }
  }
}

TEST(KernelExif, TurningTheRegionIsTheRegionOfTheTurned) {
  Noise noise(4);
  std::vector<std::uint8_t> pixels(7 * 11 * 3);
  for (auto& p : pixels) p = static_cast<std::uint8_t>(noise.next());
  const ImageView stored_view{pixels.data(), 7, 11, 3, 33};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const bool swaps = orientation_swaps(orientation);
    const std::int64_t height = swaps ? 11 : 7;
    const std::int64_t width = swaps ? 7 : 11;
    std::vector<std::uint8_t> turned(pixels.size());
    apply_orientation(stored_view, orientation, {turned.data(), height, width, 3, width * 3});
    const Region region{1, 2, 4, 3};
    const Region from = orientation_source(region, orientation, 7, 11);
    ASSERT_TRUE(from.inside(7, 11));
    const GuardedBytes part(4 * 3 * 3);
    apply_orientation(crop_view(stored_view, from), orientation, {part.data(), 4, 3, 3, 9});
    for (std::int64_t y = 0; y < 4; ++y) {
      EXPECT_EQ(std::memcmp(part.data() + y * 9, turned.data() + ((y + 1) * width + 2) * 3, 9), 0)
          << orientation;
    }
  }
}

TEST(KernelExif, SixTurnsClockwise) {
  const std::uint8_t pixels[6] = {1, 2, 3, 4, 5, 6};  // 2 rows of 3
  std::uint8_t out[6];
  apply_orientation({pixels, 2, 3, 1, 3}, 6, {out, 3, 2, 1, 2});
  const std::uint8_t want[6] = {4, 1, 5, 2, 6, 3};
  EXPECT_EQ(std::memcmp(out, want, 6), 0);
}

TEST(KernelCodecFiles, EveryFileIsAPictureOrAnError) {
  const char* folder = std::getenv("CARYA_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "CARYA_TEST_DATA is not set";
  ImageDecoder decoder;
  int good = 0;
  int bad = 0;
  for (const char* sub : {"malformed", "images"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(folder) / sub)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<char> text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      const GuardedBytes in(text.size());
      std::copy(text.begin(), text.end(), reinterpret_cast<char*>(in.data()));
      const auto info = decoder.open({reinterpret_cast<const std::byte*>(in.data()), text.size()},
                                     {.pixels_max = 2'000'000, .scans_max = 40});
      if (!info) {
        EXPECT_EQ(info.error().code, Code::kCorrupt);
        EXPECT_FALSE(info.error().message.empty());
        ++bad;
        continue;
      }
      const auto view = decoder.decode_view({info->height / 2, info->width / 2, 1, 1}, ColorMode::kRgb);
      if (!view) {
        EXPECT_EQ(view.error().code, Code::kCorrupt);
      }
      (view ? good : bad) += 1;
    }
  }
  EXPECT_GT(good, 500);
  EXPECT_GT(bad, 100);
}

}  // namespace
}  // namespace carya::transforms
