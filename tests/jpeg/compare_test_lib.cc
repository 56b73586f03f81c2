#include "tests/jpeg/compare_test_lib.h"

#include <algorithm>

namespace carya::jpeg::testing {
namespace {

std::string first_difference(const Bytes& own, const Bytes& wanted, const Region& region, int channels) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (own[i] != wanted[i]) {
      const std::size_t pixel = i / static_cast<std::size_t>(channels);
      const std::size_t width = static_cast<std::size_t>(region.width);
      return "at x " + std::to_string(pixel % width) + " y " + std::to_string(pixel / width) + ": " +
             std::to_string(own[i]) + ", want " + std::to_string(wanted[i]);
    }
  }
  return "none";
}

}  // namespace

Region whole(const Picture& picture) {
  return {0, 0, picture.width, picture.height};
}

Region random_region(int width, int height, std::mt19937_64& random) {
  Region region;
  region.x = draw(random, 0, width - 1);
  region.y = draw(random, 0, height - 1);
  region.width = draw(random, 1, width - region.x);
  region.height = draw(random, 1, height - region.y);
  return region;
}

Own decode(Decoder& decoder, const Bytes& jpeg, const Region& region, Mode mode, const Index* index,
           Index* made) {
  const std::size_t line = static_cast<std::size_t>(region.width * channels(mode));
  const std::size_t stride = line + 5;
  Bytes out(stride * static_cast<std::size_t>(region.height) + 8, 0xA5);
  Own own{decoder.decode(jpeg, region, mode, out.data(), stride, index, made), {}};
  for (std::size_t y = 0; y < static_cast<std::size_t>(region.height); ++y) {
    const std::uint8_t* from = out.data() + y * stride;
    own.pixels.insert(own.pixels.end(), from, from + line);
    own.guards_kept &=
        std::all_of(from + line, from + stride, [](std::uint8_t byte) { return byte == 0xA5; });
  }
  return own;
}

Bytes crop(const Picture& picture, const Region& region) {
  Bytes pixels;
  const std::size_t channels = static_cast<std::size_t>(picture.channels);
  for (int y = region.y; y < region.y + region.height; ++y) {
    const auto from =
        picture.pixels.begin() +
        static_cast<std::ptrdiff_t>((static_cast<std::size_t>(y) * static_cast<std::size_t>(picture.width) +
                                     static_cast<std::size_t>(region.x)) *
                                    channels);
    pixels.insert(pixels.end(), from, from + static_cast<std::ptrdiff_t>(region.width) * picture.channels);
  }
  return pixels;
}

::testing::AssertionResult same_pixels(Decoder& decoder, const Bytes& jpeg, const Picture& picture,
                                       const Region& region, Mode mode, const Index* index) {
  const Own own = decode(decoder, jpeg, region, mode, index);
  if (own.outcome != Outcome::kDone) return ::testing::AssertionFailure() << outcome_name(own.outcome);
  if (!own.guards_kept) return ::testing::AssertionFailure() << "wrote outside its lines";
  const Bytes wanted = crop(picture, region);
  if (own.pixels == wanted) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "region " << region.x << "," << region.y << " " << region.width << "x" << region.height
         << ": pixel " << first_difference(own.pixels, wanted, region, channels(mode));
}

void mutate_scan(Bytes& jpeg, std::size_t scan_begin, std::mt19937_64& random) {
  const int changes = draw(random, 1, 4);
  for (int i = 0; i < changes && jpeg.size() > scan_begin + 4; ++i) {
    const std::size_t at = scan_begin + random() % (jpeg.size() - scan_begin);
    const auto here = jpeg.begin() + static_cast<std::ptrdiff_t>(at);
    switch (draw(random, 0, 7)) {
      case 0:
        jpeg[at] = static_cast<std::uint8_t>(random());
        break;
      case 1:
        jpeg[at] ^= static_cast<std::uint8_t>(1u << (random() & 7));
        break;
      case 2:
        jpeg.resize(at);
        break;
      case 3:
        jpeg.erase(here);
        break;
      case 4:
        jpeg.insert(here, static_cast<std::uint8_t>(random()));
        break;
      case 5: {
        const std::uint8_t marker[2] = {0xFF, static_cast<std::uint8_t>(0xD0 + draw(random, 0, 9))};
        jpeg.insert(here, marker, marker + 2);
        break;
      }
      case 6: {
        const std::uint8_t fill[3] = {0xFF, 0xFF, 0x00};
        jpeg.insert(here, fill, fill + draw(random, 1, 3));
        break;
      }
      default:  // a run of ones or zeros: long codes, large values
        for (std::size_t k = at;
             k < std::min(jpeg.size(), at + static_cast<std::size_t>(draw(random, 1, 40))); ++k) {
          jpeg[k] = (random() & 1) != 0 ? 0xFE : 0x00;
        }
    }
  }
}

}  // namespace carya::jpeg::testing
