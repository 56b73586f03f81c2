// A region decoded alone, from the index of an earlier decode, and as part of the whole: the same bits or
// handed over. The last eight bytes of the input choose the region and the spacing of the index.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "transforms/jpeg/decoder.h"
#include "transforms/jpeg/index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carya::jpeg;
  if (size < 8) return 0;
  const std::uint8_t* choice = data + size - 8;
  const std::vector<std::uint8_t> jpeg(data, data + size - 8);
  static Decoder decoder;
  if (decoder.recognise(jpeg) != Ordinary::kOrdinary) return 0;
  const int width = decoder.header().width;
  const int height = decoder.header().height;
  if (static_cast<std::int64_t>(width) * height > 1'000'000) return 0;
  Region region;
  region.x = (choice[0] << 8 | choice[1]) % width;
  region.y = (choice[2] << 8 | choice[3]) % height;
  region.width = 1 + choice[4] * 8 % (width - region.x);
  region.height = 1 + choice[5] * 8 % (height - region.y);
  const std::size_t stride = static_cast<std::size_t>(region.width) * 3;
  const std::size_t bytes = stride * static_cast<std::size_t>(region.height);

  std::vector<std::uint8_t> alone(bytes);
  const Outcome outcome = decoder.decode(jpeg, region, Mode::kRgb, alone.data(), stride);
  const std::size_t whole_stride = static_cast<std::size_t>(width) * 3;
  std::vector<std::uint8_t> all(whole_stride * static_cast<std::size_t>(height));
  Index index(choice[6] % 5);
  const Outcome whole =
      decoder.decode(jpeg, {0, 0, width, height}, Mode::kRgb, all.data(), whole_stride, nullptr, &index);
  std::vector<std::uint8_t> indexed(bytes);
  const Outcome with_index = decoder.decode(jpeg, region, Mode::kRgb, indexed.data(), stride, &index);
  if (with_index != outcome) std::abort();
  if (outcome != Outcome::kDone) {
    if (whole == Outcome::kDone) std::abort();  // a part of a good file is good
    return 0;
  }
  if (alone != indexed) std::abort();
  for (int y = 0; whole == Outcome::kDone && y < region.height; ++y) {
    const std::uint8_t* line =
        all.data() + static_cast<std::size_t>(region.y + y) * whole_stride + 3 * region.x;
    if (std::memcmp(line, alone.data() + static_cast<std::size_t>(y) * stride, stride) != 0) std::abort();
  }
  return 0;
}
