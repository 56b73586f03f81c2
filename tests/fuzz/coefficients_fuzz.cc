// Forged entries of packed coefficients: the input is the bytes of an entry, first as they are, then with the magic, the
// length and the checksum of a good one. Whatever they say, a decode ends, and touches nothing outside.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/hash.h"
#include "transforms/coefficients/entry.h"
#include "transforms/coefficients/unpacker.h"
#include "transforms/jpeg/decoder.h"

namespace {

using carya::coefficients::Unpacker;
using carya::jpeg::Mode;
using carya::jpeg::Region;

constexpr int kSideMax = 256;

void decode(Unpacker& unpacker, std::span<const std::uint8_t> entry) {
  if (!unpacker.open(entry)) return;
  const int width = std::min(unpacker.header().width, kSideMax);
  const int height = std::min(unpacker.header().height, kSideMax);
  const Region corner{unpacker.header().width - width, unpacker.header().height - height, width, height};
  const auto line = static_cast<std::size_t>(width) * 3;
  std::vector<std::uint8_t> out(line * static_cast<std::size_t>(height));
  static_cast<void>(unpacker.decode({0, 0, width, height}, Mode::kRgb, out.data(), line));
  static_cast<void>(unpacker.decode(corner, Mode::kGray, out.data(), line));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Unpacker unpacker;
  decode(unpacker, {data, size});
  constexpr std::size_t kMagicAndLength = 8;
  constexpr std::size_t kChecksum = 4;
  std::vector<std::uint8_t> forged = {'C', 'P', 'C', '1', 0, 0, 0, 0};
  if (size > kMagicAndLength) forged.insert(forged.end(), data + kMagicAndLength, data + size);
  const std::size_t bytes = forged.size() + kChecksum;
  for (std::size_t i = 0; i < 4; ++i) forged[4 + i] = static_cast<std::uint8_t>(bytes >> (8 * i));
  const std::uint64_t sum = carya::hash64(std::as_bytes(std::span<const std::uint8_t>(forged)));
  for (std::size_t i = 0; i < kChecksum; ++i) forged.push_back(static_cast<std::uint8_t>(sum >> (8 * i)));
  if (!carya::coefficients::has_right_checksum(forged)) std::abort();
  decode(unpacker, forged);
  return 0;
}
