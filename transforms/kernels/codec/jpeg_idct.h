#pragma once

#include <cstdint>

struct jpeg_decompress_struct;

namespace carya::transforms {

/// libjpeg-turbo's inverse DCT (its "islow" method) as its x86 code computes it: 16-bit sums wrap, and values between
/// the passes saturate. For ordinary files all of the library's versions give the same pixels. For coefficients that no
/// encoder writes, which damage can make, its NEON code and its C code give other pixels. Batches must have the same
/// bits on every machine, so this function replaces the library's on all machines but x86.
///
/// Units:   8 x 8 coefficients and their quantisers in natural order; rows[y][column + x], 0..255.
/// Threads: thread-safe.
/// Source:  Loeffler, Ligtenberg, Moschytz 1989. Same pixels as x86: tests/transforms/kernel_idct_test.cc.
void inverse_dct(const std::int16_t* coefficients, const std::uint16_t* quantisers, std::uint8_t* const* rows,
                 std::uint32_t column);

/// Whether the linked library may compute other pixels than it does on x86.
#ifdef __x86_64__
inline constexpr bool kOwnInverseDct = false;
#else
inline constexpr bool kOwnInverseDct = true;
#endif

/// Make a decode use inverse_dct(). jpeg_start_decompress() began it, with JDCT_ISLOW and at full size.
void use_own_inverse_dct(jpeg_decompress_struct& decode);

}  // namespace carya::transforms
