#include "transforms/kernels/codec/jpeg_idct.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>

#include "base/error.h"

namespace carya::transforms {
namespace {

// Eight values side by side: the loops over them are vectors in every compiler's hands.
constexpr int kBlockSide = DCTSIZE;
using Block = std::int16_t[kBlockSide][kBlockSide];

// Units of 2^-13.
constexpr int kBits = 13;
constexpr std::int32_t k0298 = 2446, k0390 = 3196, k0541 = 4433, k0765 = 6270, k0899 = 7373, k1175 = 9633,
                       k1501 = 12299, k1847 = 15137, k1961 = 16069, k2053 = 16819, k2562 = 20995,
                       k3072 = 25172;
constexpr int kPass1Bits = 2;
constexpr int kShift1 = kBits - kPass1Bits;
constexpr int kShift2 = kBits + kPass1Bits + 3;

std::int16_t wrapped(int value) {
  return static_cast<std::int16_t>(static_cast<std::uint16_t>(value));
}

// Two products never leave 32 bits; further sums may, and wrap.
std::uint32_t pair(std::int16_t a, std::int32_t by_a, std::int16_t b, std::int32_t by_b) {
  return static_cast<std::uint32_t>(a * by_a + b * by_b);
}

template <int kShift>
std::int16_t scaled(std::uint32_t sum) {
  const auto value = static_cast<std::int32_t>(sum + (1U << (kShift - 1))) >> kShift;
  return static_cast<std::int16_t>(std::clamp(value, -32768, 32767));
}

// One dimension, of eight columns at once: in[k][i] is coefficient k of column i.
template <int kShift>
void transform(const Block& in, Block& out) {
  for (int i = 0; i < kBlockSide; ++i) {
    const std::int16_t c0 = in[0][i], c1 = in[1][i], c2 = in[2][i], c3 = in[3][i];
    const std::int16_t c4 = in[4][i], c5 = in[5][i], c6 = in[6][i], c7 = in[7][i];
    const std::uint32_t low2 = pair(c2, k0541, c6, k0541 - k1847);
    const std::uint32_t low3 = pair(c2, k0541 + k0765, c6, k0541);
    const auto sum04 = static_cast<std::uint32_t>(wrapped(c0 + c4) * (1 << kBits));
    const auto difference04 = static_cast<std::uint32_t>(wrapped(c0 - c4) * (1 << kBits));
    const std::uint32_t even[4] = {sum04 + low3, difference04 + low2, difference04 - low2, sum04 - low3};

    const std::int16_t z3 = wrapped(c7 + c3), z4 = wrapped(c5 + c1);
    const std::uint32_t both3 = pair(z3, k1175 - k1961, z4, k1175);
    const std::uint32_t both4 = pair(z3, k1175, z4, k1175 - k0390);
    const std::uint32_t odd[4] = {
        pair(c7, -k0899, c1, k1501 - k0899) + both4, pair(c5, -k2562, c3, k3072 - k2562) + both3,
        pair(c5, k2053 - k2562, c3, -k2562) + both4, pair(c7, k0298 - k0899, c1, -k0899) + both3};
    for (int k = 0; k < 4; ++k) {
      out[k][i] = scaled<kShift>(even[k] + odd[k]);
      out[7 - k][i] = scaled<kShift>(even[k] - odd[k]);
    }
  }
}

void transpose(const Block& in, Block& out) {
  for (int i = 0; i < kBlockSide; ++i)
    for (int k = 0; k < kBlockSide; ++k) out[k][i] = in[i][k];
}

// The member of the library's state that its public header only names. Source: jpegint.h of
// libjpeg-turbo 2.1.5.
using Method = void (*)(j_decompress_ptr, jpeg_component_info*, JCOEFPTR, JSAMPARRAY, JDIMENSION);
struct Methods {
  void (*start_pass)(j_decompress_ptr);
  Method of_component[MAX_COMPONENTS];
};

void transform_block(j_decompress_ptr, jpeg_component_info* component, JCOEFPTR coefficients, JSAMPARRAY rows,
                     JDIMENSION column) {
  inverse_dct(coefficients, component->quant_table->quantval, rows, column);
}

}  // namespace

void inverse_dct(const std::int16_t* coefficients, const std::uint16_t* quantisers, std::uint8_t* const* rows,
                 std::uint32_t column) {
  Block values, between, turned;
  std::int16_t waves = 0;  // coefficients behind the first row
  for (int k = 0; k < kBlockSide; ++k) {
    for (int i = 0; i < kBlockSide; ++i) {
      values[k][i] = wrapped(coefficients[kBlockSide * k + i] * quantisers[kBlockSide * k + i]);
      if (k > 0) waves = static_cast<std::int16_t>(waves | coefficients[kBlockSide * k + i]);
    }
  }
  if (waves == 0) {  // wraps where the whole transform saturates
    for (auto& row : between)
      for (int i = 0; i < kBlockSide; ++i) row[i] = wrapped(values[0][i] * (1 << kPass1Bits));
  } else {
    transform<kShift1>(values, between);
  }
  transpose(between, turned);
  transform<kShift2>(turned, values);
  for (int y = 0; y < kBlockSide; ++y) {
    std::uint8_t* out = rows[y] + column;
    for (int x = 0; x < kBlockSide; ++x)
      out[x] = static_cast<std::uint8_t>(std::clamp<int>(values[x][y], -128, 127) + 128);
  }
}

void use_own_inverse_dct(jpeg_decompress_struct& decode) {
  static_assert(sizeof(JCOEF) == 2 && JPEG_LIB_VERSION == 62, "look at Methods again");
  auto* methods = reinterpret_cast<Methods*>(decode.idct);
  for (int c = 0; c < decode.num_components; ++c) {
    CHECK(decode.comp_info[c].DCT_scaled_size == DCTSIZE);
    methods->of_component[decode.comp_info[c].component_index] = transform_block;
  }
}

}  // namespace carya::transforms
