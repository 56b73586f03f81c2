#pragma once

#include <cstdint>

struct jpeg_decompress_struct;

namespace carya::transforms {

/// libjpeg-turbo's inverse DCT (its "islow" method) as its code for x86 computes it: 16-bit sums wrap, and
/// values between the passes saturate. Ordinary files give the same pixels in all of its forms. Coefficients
/// that no encoder writes, as damage makes them, do not: its code for NEON and its C code each have other
/// pixels there. The batches are the same bits on every machine, so everywhere but on x86 this one takes its
/// place.
///
/// Units:   8 x 8 coefficients and their quantisers in natural order; rows[y][column + x], 0..255.
/// Threads: thread-safe.
/// Source:  Loeffler, Ligtenberg, Moschytz 1989. Same pixels as x86: tests/transforms/kernel_idct_test.cc.
void inverse_dct(const std::int16_t* coefficients, const std::uint16_t* quantisers, std::uint8_t* const* rows,
                 std::uint32_t column);

/// Whether the library linked here may compute otherwise than it does on x86.
#ifdef __x86_64__
inline constexpr bool kOwnInverseDct = false;
#else
inline constexpr bool kOwnInverseDct = true;
#endif

/// Makes a decode that jpeg_start_decompress() began, with JDCT_ISLOW and at full size, use inverse_dct().
void use_own_inverse_dct(jpeg_decompress_struct& decode);

}  // namespace carya::transforms
