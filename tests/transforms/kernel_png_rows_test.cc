// Our own unpacking of PNG against libspng: the same rows, the same verdict in the same words.

#include "transforms/kernels/codec/png_rows.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <spng.h>
#include <zlib.h>

#include "tests/transforms/kernel_memory.h"
#include "tests/transforms/png_reference.h"
#include "transforms/kernels/codec/image_codec.h"
#include "transforms/simd/targets.h"

namespace carya::transforms {
namespace {

namespace fs = std::filesystem;
using Bytes = PngReference::Bytes;

struct Kind {
  int color_type, bits, channels;
};

constexpr Kind kKinds[] = {{0, 1, 1}, {0, 2, 1},  {0, 4, 1},  {0, 8, 1}, {0, 16, 1},
                           {2, 8, 3}, {2, 16, 3}, {3, 1, 1},  {3, 2, 1}, {3, 4, 1},
                           {3, 8, 1}, {4, 8, 2},  {4, 16, 2}, {6, 8, 4}, {6, 16, 4}};

void append(Bytes& out, std::string_view type, const Bytes& data) {
  append_big_endian(out, static_cast<std::uint32_t>(data.size()));
  const std::size_t from = out.size();
  out.insert(out.end(), type.begin(), type.end());
  out.insert(out.end(), data.begin(), data.end());
  append_big_endian(
      out, static_cast<std::uint32_t>(crc32(0, out.data() + from, static_cast<uInt>(out.size() - from))));
}

/// How a file is written, beside its pixels.
struct Style {
  int filter = 5;              // 0 to 4; 5: another one for each row
  std::size_t part = 1 << 20;  // bytes of an IDAT
  int level = 6;
  int strategy = Z_DEFAULT_STRATEGY;
  bool ancillary = false;
};

std::size_t row_bytes(const Kind& kind, std::uint32_t width) {
  return (width * static_cast<std::size_t>(kind.channels * kind.bits) + 7) / 8;
}

/// The rows as they are stored, each behind its filter's number. Source: PNG specification, 9.2.
Bytes filtered(const Bytes& rows, std::size_t bytes, std::size_t pixel, int filter) {
  Bytes out;
  const std::size_t count = rows.size() / bytes;
  for (std::size_t y = 0; y < count; ++y) {
    const int by = filter == 5 ? static_cast<int>(y * 7 / 3 % 5) : filter;
    out.push_back(static_cast<std::uint8_t>(by));
    for (std::size_t i = 0; i < bytes; ++i) {
      const int a = i >= pixel ? rows[y * bytes + i - pixel] : 0;
      const int b = y > 0 ? rows[(y - 1) * bytes + i] : 0;
      const int c = i >= pixel && y > 0 ? rows[(y - 1) * bytes + i - pixel] : 0;
      const int p = a + b - c;
      const int pa = std::abs(p - a), pb = std::abs(p - b), pc = std::abs(p - c);
      const int paeth = pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
      const std::array<int, 5> from{0, a, b, (a + b) / 2, paeth};
      out.push_back(static_cast<std::uint8_t>(rows[y * bytes + i] - from[static_cast<std::size_t>(by)]));
    }
  }
  return out;
}

Bytes png(const Kind& kind, std::uint32_t width, std::uint32_t height, const Bytes& rows,
          const Style& style) {
  Bytes out{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  Bytes header;
  append_big_endian(header, width);
  append_big_endian(header, height);
  for (const int value : {kind.bits, kind.color_type, 0, 0, 0})
    header.push_back(static_cast<std::uint8_t>(value));
  append(out, "IHDR", header);
  if (style.ancillary) {
    append(out, "gAMA", {0, 0, 0xB1, 0x8F});
    append(out, "eXIf",
           {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0});
    append(out, "tEXt", {'T', 'i', 't', 'l', 'e', 0, 'x'});
    append(out, "prVt", {'I', 'D', 'A', 'T'});
  }
  if (kind.color_type == 3) {
    Bytes palette;
    for (int i = 0; i < 3 << kind.bits; ++i) palette.push_back(static_cast<std::uint8_t>(i * 5));
    append(out, "PLTE", palette);
  }
  const std::size_t bytes = row_bytes(kind, width);
  const auto pixel = static_cast<std::size_t>(std::max(1, kind.channels * kind.bits / 8));
  const Bytes data = filtered(rows, bytes, pixel, style.filter);
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, style.level, Z_DEFLATED, 15, 8, style.strategy), Z_OK);
  Bytes packed(deflateBound(&stream, data.size()));
  stream.next_in = const_cast<Bytef*>(data.data());
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  for (std::size_t at = 0; at < packed.size(); at += style.part) {
    const auto from = packed.begin() + static_cast<std::ptrdiff_t>(at);
    append(out, "IDAT",
           Bytes(from, from + static_cast<std::ptrdiff_t>(std::min(style.part, packed.size() - at))));
    if (style.ancillary && at == 0) append(out, "IDAT", {});
  }
  if (style.ancillary) append(out, "tIME", {7, 0xD0, 1, 1, 0, 0, 0});
  append(out, "IEND", {});
  return out;
}

Bytes drawn_rows(Noise& noise, std::size_t bytes, std::uint32_t height, int kind) {
  Bytes rows(bytes * height);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t x = i % bytes, y = i / bytes;
    rows[i] = static_cast<std::uint8_t>(kind == 0   ? noise.next()
                                        : kind == 1 ? x / 3 + y * 2 + noise.next() % 7
                                                    : (x + 13) * (y + 7) / 300 % 4);
  }
  return rows;
}

/// What the decoder says of a file: "" or the error. The pixels as RGB.
std::string decoded(ImageDecoder& decoder, const Bytes& file, Bytes& pixels) {
  const GuardedBytes in(file.size());
  std::copy(file.begin(), file.end(), in.data());
  const auto info = decoder.open(std::as_bytes(std::span(in.data(), file.size())), {.pixels_max = 1'000'000});
  if (!info) return info.error().message;
  pixels.resize(static_cast<std::size_t>(info->height * info->width * 3));
  const auto status = decoder.decode_region({0, 0, info->height, info->width}, ColorMode::kRgb,
                                            {pixels.data(), info->height, info->width, 3, info->width * 3});
  return status ? "" : status.error().message;
}

// On each SIMD target.
class KernelPngRowsOf : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(force_simd_target(GetParam())); }
  void TearDown() override { ASSERT_TRUE(force_simd_target("")); }
};

TEST_P(KernelPngRowsOf, EveryKindFilterAndSizeAreLibspngs) {
  Noise noise(21);
  for (const Kind& kind : kKinds) {
    for (int turn = 0; turn < 40; ++turn) {
      const auto width = static_cast<std::uint32_t>(turn < 12 ? turn + 1 : 1 + noise.below(300));
      const auto height =
          static_cast<std::uint32_t>(turn < 12 ? 1 + turn % 5 : 1 + noise.below(turn < 36 ? 40 : 300));
      const std::size_t bytes = row_bytes(kind, width);
      const Bytes rows = drawn_rows(noise, bytes, height, turn % 3);
      const Style style{.filter = turn % 6,
                        .part = turn % 4 == 0 ? 1 << 20 : static_cast<std::size_t>(1 + noise.below(900)),
                        .level = turn % 10,
                        .strategy = turn % 5,
                        .ancillary = turn % 2 == 1};
      const Bytes file = png(kind, width, height, rows, style);
      const PngReference reference(file);
      ASSERT_EQ(reference.status, 0) << reference.words();
      ASSERT_EQ(reference.rows, rows);
      Bytes own;
      ASSERT_TRUE(own_rows(file, reference.header, reference.bytes, own)) << turn;
      ASSERT_EQ(own, rows) << kind.color_type << ' ' << kind.bits << ' ' << turn;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, KernelPngRowsOf, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

TEST(KernelPngRows, DamageHasTheVerdictOfLibspngInItsWords) {
  Noise noise(4);
  ImageDecoder decoder;  // kept, so that each file finds what the one before left
  int good = 0, bad = 0, behind = 0;
  const auto check = [&](const Bytes& file) {
    const PngReference reference(file);
    if (std::uint64_t{reference.header.width} * reference.header.height > 1'000'000) return;
    Bytes pixels, own;
    const std::string words = decoded(decoder, file, pixels);
    if (file.size() < 8) return;
    ASSERT_EQ(words, reference.words());
    (reference.status == 0 ? good : bad) += 1;
    if (reference.bytes == 0 || reference.header.interlace_method != 0) return;
    const bool read = own_rows(file, reference.header, reference.bytes, own);
    ASSERT_TRUE(!read || reference.status == 0) << "what we read, libspng refuses: " << reference.words();
    if (read) {
      ASSERT_EQ(own, reference.rows);
    }
    if (!read && reference.status == 0) ++behind;
    if (reference.status != 0 || reference.header.bit_depth != 8) return;
    // Whoever read it: the pixels are those of libspng's rows.
    if (reference.header.color_type == SPNG_COLOR_TYPE_TRUECOLOR) {
      ASSERT_EQ(pixels, reference.rows);
    }
    if (reference.header.color_type == SPNG_COLOR_TYPE_GRAYSCALE) {
      for (std::size_t i = 0; i < reference.rows.size(); ++i) ASSERT_EQ(pixels[3 * i + 1], reference.rows[i]);
    }
  };
  for (const Kind kind : {Kind{0, 8, 1}, Kind{2, 8, 3}, Kind{3, 4, 1}, Kind{6, 16, 4}, Kind{0, 1, 1}}) {
    for (const bool plain : {false, true}) {
      const std::uint32_t width = 11, height = 9;
      const Bytes rows = drawn_rows(noise, row_bytes(kind, width), height, plain ? 2 : 1);
      const Bytes file =
          png(kind, width, height, rows, {.filter = 5, .part = plain ? 1U << 20 : 40U, .ancillary = !plain});
      for (std::size_t cut = 0; cut < file.size(); ++cut)
        check({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(cut)});
      for (std::size_t at = 8; at < file.size(); ++at) {
        for (const int bit : {0, 3, 5, 7}) {
          Bytes other = file;
          other[at] ^= static_cast<std::uint8_t>(1 << bit);
          check(other);
          correct_sums(other);  // so that the damage comes as far as it can
          check(other);
        }
      }
    }
  }
  EXPECT_GT(good, 300);
  EXPECT_GT(bad, 10'000);
  EXPECT_GT(behind, 10);  // damage behind what libspng looks at
}

TEST(KernelPngRows, TheViewOfAGrayPictureHasItsRowsAndItsVerdict) {
  Noise noise(6);
  ImageDecoder decoder;
  const Kind gray{0, 8, 1};
  for (int turn = 0; turn < 60; ++turn) {
    const bool large = turn % 20 == 0;  // more than is unpacked in one piece
    const auto width = static_cast<std::uint32_t>(1 + noise.below(large ? 1100 : 90));
    const auto height = static_cast<std::uint32_t>(large ? 700 : 1 + noise.below(60));
    const Bytes rows = drawn_rows(noise, width, height, turn % 3);
    Bytes file = png(gray, width, height, rows, {.filter = turn % 6, .part = 300});
    const bool damaged = turn % 4 == 3;
    if (damaged) {
      file[file.size() - 18] ^= 0x40;  // the checksum of the pixels
      correct_sums(file);
    }
    const GuardedBytes in(file.size());
    std::copy(file.begin(), file.end(), in.data());
    const auto info = decoder.open(std::as_bytes(std::span(in.data(), file.size())), {});
    ASSERT_TRUE(info);
    for (const Region& region : {Region{0, 0, height, width}, Region{height / 2, width / 3, 1, 1}}) {
      const auto view = decoder.decode_view(region, ColorMode::kL);
      const PngReference reference(file);
      ASSERT_EQ(view ? "" : view.error().message, reference.words()) << turn;
      for (std::int64_t y = 0; view && y < view->height; ++y)
        ASSERT_EQ(
            std::memcmp(view->row(y), &rows[static_cast<std::size_t>((region.top + y) * width + region.left)],
                        static_cast<std::size_t>(view->width)),
            0)
            << turn;
    }
  }
}

TEST(KernelPngRows, AMissingRowIsLibspngsErrorInItsWords) {
  const Kind gray{0, 8, 1};
  ImageDecoder decoder;
  Bytes pixels;
  const Bytes rows(50 * 20, 7);
  EXPECT_EQ(decoded(decoder, png(gray, 50, 20, rows, {}), pixels), "");
  const Bytes shorter(rows.begin(), rows.end() - 50);
  EXPECT_EQ(decoded(decoder, png(gray, 50, 20, shorter, {}), pixels), "PNG: IDAT stream too short");
}

TEST(KernelPngRows, RowsThatAreTooLongAreLeftToLibspng) {
  const Kind gray{0, 8, 1};
  const auto width = static_cast<std::uint32_t>(PngRows::kRowBytesMax + 1);
  Bytes rows(width, 3);
  const Bytes file = png(gray, width, 1, rows, {.filter = 0});
  Bytes own;
  const PngReference small(png(gray, 9, 1, Bytes(9, 1), {}));
  spng_ihdr header = small.header;
  header.width = width;
  EXPECT_FALSE(own_rows(file, header, width, own));
  ImageDecoder decoder;
  const auto info = decoder.open(std::as_bytes(std::span(file)), {});
  ASSERT_TRUE(info);
  Bytes out(5);
  ASSERT_TRUE(decoder.decode_region({0, width - 5, 1, 5}, ColorMode::kL, {out.data(), 1, 5, 1, 5}));
  EXPECT_EQ(out, Bytes(5, 3));
}

TEST(KernelPngRows, ReadsTheOrdinaryFilesOfTheCorpusAsLibspng) {
  const char* folder = std::getenv("CARYA_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "CARYA_TEST_DATA is not set";
  int files = 0, read = 0, plain = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || fs::file_size(entry) > 4 << 20) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    char start[8] = {};
    if (!in.read(start, 8) || std::string_view(start, 4) != "\x89PNG") continue;
    in.seekg(0);
    const Bytes file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const PngReference reference(file);
    if (std::uint64_t{reference.header.width} * reference.header.height > 1'000'000) continue;
    ++files;
    ImageDecoder decoder;
    Bytes pixels, own;
    if (file.size() >= 8) {
      EXPECT_EQ(decoded(decoder, file, pixels), reference.words()) << entry.path();
    }
    if (reference.bytes == 0 || reference.header.interlace_method != 0) continue;
    plain += reference.status == 0;
    if (!own_rows(file, reference.header, reference.bytes, own)) continue;
    ++read;
    EXPECT_EQ(reference.status, 0) << entry.path();
    EXPECT_EQ(own, reference.rows) << entry.path();
  }
  EXPECT_GT(files, 150);
  EXPECT_GT(read, 100);
  EXPECT_GE(read + 5, plain);  // whatever is good, but for a few
}

}  // namespace
}  // namespace carya::transforms
