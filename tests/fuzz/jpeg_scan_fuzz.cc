// Whole decodes against libjpeg-turbo: what we call done must be what it decodes without a warning, bit for
// bit.

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "tests/jpeg/turbo_test_lib.h"
#include "transforms/jpeg/decoder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carya::jpeg;
  const std::vector<std::uint8_t> jpeg(data, data + size);
  static Decoder decoder;
  if (decoder.recognise(jpeg) != Ordinary::kOrdinary) return 0;
  const int width = decoder.header().width;
  const int height = decoder.header().height;
  if (static_cast<std::int64_t>(width) * height > 1'000'000) return 0;
  std::vector<std::uint8_t> out(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  const Region whole{0, 0, width, height};
  if (decoder.decode(jpeg, whole, Mode::kRgb, out.data(), static_cast<std::size_t>(width) * 3) !=
      Outcome::kDone)
    return 0;
  const testing::Picture picture = testing::turbo_decode(jpeg);
  if (!picture.decoded || picture.pixels.size() != (picture.channels == 3 ? out.size() : out.size() / 3))
    std::abort();
  const std::size_t step = picture.channels == 3 ? 1 : 3;
  for (std::size_t i = 0; i < picture.pixels.size(); ++i) {
    if (picture.pixels[i] != out[i * step]) std::abort();
  }
  return 0;
}
