// Entries of packed coefficients: the same pixels as libjpeg-turbo's of the files, and nothing outside is touched.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "tests/amount.h"
#include "tests/jpeg/compare_test_lib.h"
#include "transforms/coefficients/packer.h"
#include "transforms/coefficients/segment.h"
#include "transforms/coefficients/unpacker.h"
#include "transforms/jpeg/decoder.h"
#include "transforms/simd/targets.h"

namespace carya::coefficients {
namespace {

using jpeg::Mode;
using jpeg::Outcome;
using jpeg::Region;
using jpeg::testing::Bytes;
using jpeg::testing::Picture;
using jpeg::testing::random_region;
using jpeg::testing::Recipe;

/// The entry of an ordinary file; empty: it has none.
Bytes entry_of(const Bytes& file, std::size_t bytes_max = SIZE_MAX) {
  static jpeg::Decoder decoder;
  static Packer packer;
  if (decoder.recognise(file) != jpeg::Ordinary::kOrdinary) return {};
  const jpeg::Header header = decoder.header();
  packer.begin(header, {.file_bytes = static_cast<std::uint32_t>(file.size())}, bytes_max);
  if (decoder.read_coefficients(file, packer) != Outcome::kDone) return {};
  const auto entry = packer.finish();
  return {entry.begin(), entry.end()};
}

/// Memory that ends where no page follows.
class Guarded {
 public:
  explicit Guarded(std::size_t size) : size_(size) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (size + page - 1) / page * page + page;
    base_ = static_cast<std::uint8_t*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + mapped_ - page, page, PROT_NONE), 0);
    data_ = base_ + mapped_ - page - size;
  }
  ~Guarded() { munmap(base_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  std::span<std::uint8_t> bytes() { return {data_, size_}; }

 private:
  std::size_t size_, mapped_;
  std::uint8_t* base_;
  std::uint8_t* data_;
};

class Entries : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(force_simd_target(GetParam())); }
  void TearDown() override { force_simd_target(""); }

  /// The opened entry's pixels, written to memory that ends where no page follows.
  Outcome decode(const Region& region, Mode mode, Bytes& out) {
    const auto stride = static_cast<std::size_t>(region.width * channels(mode));
    Guarded pixels(stride * static_cast<std::size_t>(region.height));
    const Outcome outcome = unpacker_.decode(region, mode, pixels.bytes().data(), stride);
    out.assign(pixels.bytes().begin(), pixels.bytes().end());
    return outcome;
  }

  void expect_pixels(const Picture& picture, const Region& region, Mode mode) {
    Bytes out;
    ASSERT_EQ(decode(region, mode, out), Outcome::kDone);
    ASSERT_EQ(out, jpeg::testing::crop(picture, region))
        << region.x << " " << region.y << " " << region.width << " " << region.height;
  }

  void expect_same_everywhere(const Bytes& entry, const Picture& picture, Mode mode, std::mt19937_64& random,
                              int regions) {
    Guarded stored(entry.size());
    std::memcpy(stored.bytes().data(), entry.data(), entry.size());
    ASSERT_TRUE(unpacker_.open(stored.bytes()));
    ASSERT_EQ(unpacker_.header().width, picture.width);
    ASSERT_EQ(unpacker_.header().height, picture.height);
    expect_pixels(picture, jpeg::testing::whole(picture), mode);
    for (int r = 0; r < regions && !HasFatalFailure(); ++r)
      expect_pixels(picture, random_region(picture.width, picture.height, random), mode);
  }

  Unpacker unpacker_;
};

TEST_P(Entries, OfMadeFilesHaveTurbosPixels) {
  std::mt19937_64 random(21);
  const int files = long_tests() ? 20000 : 400;
  int made = 0;
  for (int i = 0; i < files; ++i) {
    const Recipe recipe = jpeg::testing::random_recipe(random, 300);
    SCOPED_TRACE("file " + std::to_string(i) + ": " + recipe.text());
    const Bytes file = jpeg::testing::encode(recipe, random);
    const Bytes entry = entry_of(file);
    if (entry.empty()) continue;
    ++made;
    const Mode mode = i % 4 == 0 ? Mode::kGray : Mode::kRgb;
    const Picture picture = jpeg::testing::turbo_decode(file, mode == Mode::kGray);
    expect_same_everywhere(entry, picture, mode, random, long_tests() ? 10 : 4);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(made, files / 2);
}

TEST_P(Entries, OfLongSidesHaveTurbosPixels) {
  std::mt19937_64 random(22);
  constexpr int kSides[][2] = {{8192, 24}, {24, 8192}, {1025, 700}};
  for (const auto& side : kSides) {
    for (int sampling = 0; sampling < 3; ++sampling) {
      const Recipe recipe{
          .width = side[0], .height = side[1], .h = sampling == 0 ? 1 : 2, .v = sampling == 2 ? 2 : 1};
      SCOPED_TRACE(recipe.text());
      const Bytes file = jpeg::testing::encode(recipe, random);
      const Bytes entry = entry_of(file);
      ASSERT_FALSE(entry.empty());
      expect_same_everywhere(entry, jpeg::testing::turbo_decode(file), Mode::kRgb, random, 4);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Entries, OfPhotosHaveTurbosPixels) {
  std::mt19937_64 random(23);
  const auto files = jpeg::testing::test_data("images");
  if (files.empty()) GTEST_SKIP() << "no photos: CARYA_TEST_DATA is not set";
  int made = 0;
  for (std::size_t i = 0; i < files.size(); i += long_tests() ? 1 : 2 * one_case_of(2)) {
    SCOPED_TRACE(files[i].name);
    const Bytes entry = entry_of(files[i].bytes);
    if (entry.empty()) continue;
    const Picture picture = jpeg::testing::turbo_decode(files[i].bytes);
    if (!picture.decoded || picture.width > 4000) continue;
    ASSERT_EQ(picture.warnings, 0);
    expect_same_everywhere(entry, picture, picture.channels == 1 ? Mode::kGray : Mode::kRgb, random,
                           long_tests() ? 200 : 5);
    if (HasFatalFailure()) return;
    ++made;
  }
  EXPECT_GT(made, 0);
}

// An entry stands for a file only if that has no warning anywhere: then verdict and warnings are equal with and without.
TEST_P(Entries, OfMalformedFilesHaveNoWarnings) {
  std::mt19937_64 random(29);
  const auto files = jpeg::testing::test_data("malformed");
  if (files.empty()) GTEST_SKIP() << "no malformed files: CARYA_TEST_DATA is not set";
  for (std::size_t i = 0; i < files.size(); i += one_case_of(2)) {
    SCOPED_TRACE(files[i].name);
    const Bytes entry = entry_of(files[i].bytes);
    if (entry.empty()) continue;
    const Picture picture = jpeg::testing::turbo_decode(files[i].bytes);
    ASSERT_TRUE(picture.decoded);
    ASSERT_EQ(picture.warnings, 0);
    expect_same_everywhere(entry, picture, picture.channels == 1 ? Mode::kGray : Mode::kRgb, random, 2);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Entries, AreTheSameBytesOnEveryTarget) {
  std::mt19937_64 random(24);
  for (int i = 0; i < 40; ++i) {
    const Bytes file = jpeg::testing::encode(jpeg::testing::random_recipe(random, 200), random);
    const Bytes here = entry_of(file);
    ASSERT_TRUE(force_simd_target(simd_targets().back()));
    EXPECT_EQ(entry_of(file), here) << i;
    ASSERT_TRUE(force_simd_target(GetParam()));
  }
}

void seal(Bytes& entry) {
  const std::size_t body = entry.size() - 4;
  const auto sum = static_cast<std::uint32_t>(hash64(std::as_bytes(std::span(entry).first(body))));
  for (std::size_t i = 0; i < 4; ++i) entry[body + i] = static_cast<std::uint8_t>(sum >> (8 * i));
}

// Forged entries with right checksums: guard pages end the test if anything outside is touched.
TEST_P(Entries, ForgedOnesTouchNothingOutside) {
  std::mt19937_64 random(25);
  int done = 0, ended = 0;
  for (int i = 0; i < (long_tests() ? 200000 : 4000); ++i) {
    static Bytes good;
    if (i % 50 == 0) {
      Recipe recipe = jpeg::testing::random_recipe(random, 150);
      recipe.quality = 90;
      good = entry_of(jpeg::testing::encode(recipe, random));
    }
    if (good.empty()) continue;
    Bytes forged = good;
    const int changes = jpeg::testing::draw(random, 1, 6);
    for (int change = 0; change < changes; ++change) {
      const std::size_t at =
          random() % (i % 2 == 0 ? std::min<std::size_t>(forged.size(), 300) : forged.size());
      forged[at] = static_cast<std::uint8_t>(i % 3 == 0 ? 255 : random());
    }
    if (i % 5 == 0) forged.resize(28 + random() % (forged.size() - 27));
    for (std::size_t b = 0; b < 4 && i % 5 == 0; ++b)
      forged[4 + b] = static_cast<std::uint8_t>(forged.size() >> (8 * b));
    seal(forged);
    Guarded stored(forged.size());
    std::memcpy(stored.bytes().data(), forged.data(), forged.size());
    ASSERT_TRUE(has_right_checksum(stored.bytes()));
    if (!unpacker_.open(stored.bytes())) {
      ++ended;
      continue;
    }
    const jpeg::Header& header = unpacker_.header();
    Region region = random_region(header.width, header.height, random);
    region.width = std::min(region.width, 300);
    region.height = std::min(region.height, 300);
    Bytes out;
    (decode(region, i % 4 == 0 ? Mode::kGray : Mode::kRgb, out) == Outcome::kDone ? done : ended)++;
  }
  EXPECT_GT(done, 0);
  EXPECT_GT(ended, 0);
}

TEST_P(Entries, CutOnesAreRefused) {
  std::mt19937_64 random(26);
  const Bytes entry = entry_of(jpeg::testing::encode({.width = 90, .height = 70}, random));
  ASSERT_FALSE(entry.empty());
  EXPECT_TRUE(has_right_checksum(entry));
  for (std::size_t size = 0; size < entry.size(); ++size)
    EXPECT_FALSE(unpacker_.open(std::span(entry).first(size))) << size;
  Bytes flipped = entry;
  flipped[entry.size() / 2] ^= 1;
  EXPECT_FALSE(has_right_checksum(flipped));
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Entries, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

TEST(EntryMaking, DamagedAndUnusualFilesHaveNone) {
  std::mt19937_64 random(27);
  Bytes file = jpeg::testing::encode({.width = 200, .height = 150, .quality = 92}, random);
  ASSERT_FALSE(entry_of(file).empty());
  EXPECT_TRUE(entry_of(file, 1000).empty());  // larger than is allowed
  Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(file.size() / 2));
  EXPECT_TRUE(entry_of(cut).empty());
  EXPECT_TRUE(entry_of(jpeg::testing::encode({.progressive = true}, random)).empty());
}

// Every value that a coefficient may have comes back, from blocks of every density.
TEST(Segments, EveryCoefficientComesBack) {
  std::mt19937_64 random(28);
  for (const std::string& target : simd_targets()) {
    ASSERT_TRUE(force_simd_target(target));
    for (int round = 0; round < 2000; ++round) {
      const int count = jpeg::testing::draw(random, 1, kSegmentBlocks);
      alignas(64) std::int16_t blocks[kSegmentBlocks * 64] = {};
      const std::int16_t* pointers[kSegmentBlocks];
      const int density = jpeg::testing::draw(random, 0, 100);
      for (int b = 0; b < count; ++b) {
        pointers[b] = blocks + 64 * b;
        blocks[64 * b] = static_cast<std::int16_t>(jpeg::testing::draw(random, -1024, 1023));
        for (int i = 1; i < 64; ++i) {
          if (jpeg::testing::draw(random, 1, 100) > density) continue;
          const bool rare = jpeg::testing::draw(random, 0, 400) == 0;
          const int limit = rare ? kExceptionMax : 1 << jpeg::testing::draw(random, 0, 7);
          blocks[64 * b + i] = static_cast<std::int16_t>(jpeg::testing::draw(random, -limit, limit));
        }
      }
      Bytes bytes;
      if (!pack_segment(pointers, count, bytes)) continue;
      const std::size_t size = bytes.size();
      ASSERT_LE(size, kSegmentBytesMax);
      bytes.resize(size + kStreamReach);
      Segment segment;
      ASSERT_EQ(read_segment(std::span(bytes).first(size), count, segment), size);
      const int begin = jpeg::testing::draw(random, 0, count - 1);
      const int end = jpeg::testing::draw(random, begin + 1, count);
      alignas(64) std::int16_t back[kSegmentBlocks * 64];
      std::uint8_t last[kSegmentBlocks];
      ASSERT_TRUE(unpack_segment(segment, begin, end, back, last));
      ASSERT_EQ(std::memcmp(back, blocks + 64 * begin, 128 * static_cast<std::size_t>(end - begin)), 0)
          << target << " " << round;
      for (int b = begin; b < end; ++b) {
        int expected = 0;
        for (int k = 1; k < 64; ++k)
          if (blocks[64 * b + jpeg::kZigzag[k]] != 0) expected = k;
        ASSERT_EQ(last[b - begin], expected);
      }
    }
  }
  ASSERT_TRUE(force_simd_target(""));
}

// The example of FORMAT.md.
TEST(EntryMaking, GivesTheBytesOfTheFormat) {
  jpeg::Header header{.width = 16, .height = 8, .component_count = 1};
  header.components[0].h = header.components[0].v = 1;
  ASSERT_EQ(jpeg::settle_geometry(header), jpeg::Ordinary::kOrdinary);
  header.quant[0].fill(2);
  alignas(64) std::int16_t blocks[128] = {};
  blocks[0] = 5;
  blocks[64] = -3;
  blocks[64 + 1] = 2;     // zigzag index 1
  blocks[64 + 63] = 700;  // an exception
  Packer packer;
  packer.begin(header, {.file_bytes = 300}, SIZE_MAX);
  packer.take_blocks(0, 0, blocks);
  const auto entry = packer.finish();
  std::string text;
  for (std::size_t i = 0; i < entry.size(); ++i) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    if (i >= 24 && i < 88) continue;  // the quantiser: 64 times 02
    text += {kDigits[entry[i] >> 4], kDigits[entry[i] & 15], ' '};
  }
  EXPECT_EQ(text,
            "43 50 43 31 6E 00 00 00 10 00 08 00 00 01 01 00 2C 01 00 00 01 00 00 00 5C 00 00 00 "
            "0E 00 05 00 04 00 01 00 39 E1 E7 15 4F 00 38 C1 A8 00 ");
}

}  // namespace
}  // namespace carya::coefficients
