#include "transforms/kernels/store/half.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace carya::transforms {
namespace {

constexpr std::uint32_t kInfinity = 0x7F800000;
constexpr std::uint32_t kTooLarge = 0x47800000;     // 65,536: infinity, as what rounds up to it
constexpr std::uint32_t kLeastNormal = 0x38800000;  // 2^-14

// Without branches, so that compilers make vectors of it.
std::uint16_t half_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t size = bits & 0x7FFFFFFF;
  // The exponent counts from another number and 13 bits of the fraction go; their half rounds up, to even.
  const std::uint32_t limited = std::min(size, kTooLarge);
  const std::uint32_t normal = (limited - 0x38000000 + 0xFFF + ((limited >> 13) & 1)) >> 13;
  // Beside 0.5 the last bit of a float32 is 2^-24, the last one of a small float16: the sum rounds to it.
  const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5F) - 0x3F000000;
  const std::uint32_t nan = 0x7C00 | std::max<std::uint32_t>((size >> 13) & 0x3FF, 1);
  const std::uint32_t number = size < kLeastNormal ? small : normal;
  return static_cast<std::uint16_t>((size > kInfinity ? nan : number) | ((bits >> 16) & 0x8000));
}

// The upper half of the bits. What goes rounds them, a carry into the exponent is the next larger value or infinity.
std::uint16_t bfloat_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t number = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const std::uint32_t nan = ((bits >> 16) & 0x8000) | 0x7FC0;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > kInfinity ? nan : number);
}

template <typename HalfOf>
void each_half(const std::byte* __restrict in, std::int64_t count, std::byte* __restrict out,
               HalfOf to_half) {
  for (std::int64_t i = 0; i < count; ++i) {
    float value = 0;
    std::memcpy(&value, in + i * 4, sizeof value);
    const std::uint16_t half = to_half(value);
    std::memcpy(out + i * 2, &half, sizeof half);
  }
}

}  // namespace

void to_halves(DType to, const std::byte* in, std::int64_t count, std::byte* out) {
  CHECK(is_half(to));
  if (to == DType::kFloat16) return each_half(in, count, out, [](float x) { return half_of(x); });
  each_half(in, count, out, [](float x) { return bfloat_of(x); });
}

}  // namespace carya::transforms
