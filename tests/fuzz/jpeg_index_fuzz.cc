// Lying indexes: the input is the bytes of an index, first as they are, then under a good file's identity and
// with a right checksum. Whatever the points say, a good file is decoded, and a whole decode has the right
// pixels.

#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "base/hash.h"
#include "tests/jpeg/turbo_test_lib.h"
#include "transforms/jpeg/decoder.h"
#include "transforms/jpeg/index.h"

namespace {

using namespace carya::jpeg;

constexpr int kWidth = 120;
constexpr int kHeight = 90;
constexpr std::size_t kStride = kWidth * 3;
constexpr Region kWhole{0, 0, kWidth, kHeight};

struct Good {
  std::vector<std::uint8_t> jpeg;
  std::vector<std::uint8_t> pixels = std::vector<std::uint8_t>(kStride * kHeight);
  std::vector<std::uint8_t> index;
  Decoder decoder;

  Good() {
    std::mt19937_64 random(1);
    jpeg = testing::encode({.width = kWidth, .height = kHeight, .quality = 90}, random);
    Index made(2);
    if (decoder.decode(jpeg, kWhole, Mode::kRgb, pixels.data(), kStride, nullptr, &made) != Outcome::kDone)
      std::abort();
    made.write(index);
  }
};

void check(Good& good, const Index& lie) {
  std::vector<std::uint8_t> out(kStride * kHeight);
  if (good.decoder.decode(good.jpeg, kWhole, Mode::kRgb, out.data(), kStride, &lie) != Outcome::kDone)
    std::abort();
  if (out != good.pixels) std::abort();
  const Region part{37, 41, 50, 30};
  if (good.decoder.decode(good.jpeg, part, Mode::kRgb, out.data(), 150, &lie) != Outcome::kDone) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Good good;
  Index lie;
  static_cast<void>(lie.read({data, size}));
  check(good, lie);
  constexpr std::size_t kIdentityBytes = 32;
  std::vector<std::uint8_t> forged(good.index.begin(), good.index.begin() + kIdentityBytes);
  forged.insert(forged.end(), data, data + size);
  const std::uint64_t sum = carya::hash64(std::as_bytes(std::span<const std::uint8_t>(forged)));
  for (int i = 0; i < 4; ++i) forged.push_back(static_cast<std::uint8_t>(sum >> (8 * i)));
  if (lie.read(forged)) check(good, lie);
  return 0;
}
