#pragma once

#include <cstdint>

#include "transforms/kernels/resize/resize_groups.h"

namespace carya::transforms {

// The inner loops of the resize for the SIMD target in use. "Signed" bytes are pixels minus 128 (xor 0x80). Then byte
// << 8 is a signed word, and the rounding high multiply (pmulhrsw) by a 14-bit weight leaves 7 bits of fraction.

/// The layout that ResizeGroups::build() must use for filter_row() on the target in use.
GroupShape resize_group_shape();

/// out[x] = sum of weights[k] * rows[k][x], rounded and clamped, for x in [0, bytes). `in_xor` makes the input signed
/// (0x80 for plain pixels, 0 for signed ones). `out_xor` is 0x80 if plain pixels are wanted. `taps` is in 1..16. Reads
/// exactly `bytes` of each row, and writes exactly `bytes`.
void combine_rows(const std::uint8_t* const* rows, const std::int16_t* weights, int taps, std::int64_t bytes,
                  std::uint8_t in_xor, std::uint8_t out_xor, std::uint8_t* out);

/// The same over more than 16 rows, with 22-bit weights. The input is plain pixels; `out_xor` as above.
void combine_rows_wide(const std::uint8_t* const* rows, const std::int32_t* weights, int taps,
                       std::int64_t bytes, std::uint8_t out_xor, std::uint8_t* out);

/// Resize one row along its width. `in` is signed and may be read up to 128 bytes past its last pixel; `out` may be
/// written up to 64 bytes past its last.
void filter_row(const std::uint8_t* in, const ResizeTaps& taps, const ResizeGroups& groups,
                std::uint8_t out_xor, std::uint8_t* out);

/// The same for wide taps, by a plain loop. `in` is signed.
void filter_row_wide(const std::uint8_t* in, const ResizeTaps& taps, int channels, std::uint8_t out_xor,
                     std::uint8_t* out);

/// Columns of a row of bytes, 16 at a time (`width` is at least 16; the last ones end with the row): of `blocks` (1
/// to 4) times 16 bytes from the group's first on, those that its lookups name, one of each 16 bytes or none (0x80).
void look_up_columns(const std::uint8_t* in, const std::int32_t* firsts, const std::uint8_t* lookups,
                     int blocks, std::int64_t width, std::uint8_t* out);

/// out = in xor 0x80.
void flip_sign(const std::uint8_t* in, std::int64_t bytes, std::uint8_t* out);

}  // namespace carya::transforms
