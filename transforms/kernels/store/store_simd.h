#pragma once

#include <cstdint>

#include "transforms/kernels/store/store.h"

namespace carya::transforms {

// Inner loops of the last pass for the SIMD target in use; each reads exactly its input and writes exactly
// its output. `stream` asks for stores past the cache; they happen where the address is aligned for them.

/// out[i] = in[i] * a[i % channels] + b[i % channels] for `count` values.
void store_values(const std::uint8_t* in, std::int64_t count, int channels, const Affine& affine, bool stream,
                  float* out);

/// RGB pixels to three planes: out[c][x] = in[3 x + c] * a[c] + b[c]; from the right end when `flip`.
void store_planes(const std::uint8_t* in, std::int64_t width, const Affine& affine, bool flip, bool stream,
                  float* const out[3]);

/// RGB pixels to three planes of bytes.
void split_planes(const std::uint8_t* in, std::int64_t width, bool flip, std::uint8_t* const out[3]);

/// The pixels (1, 3 or 4 bytes) in reverse order. No overlap.
void reverse_pixels(const std::uint8_t* in, std::int64_t width, int channels, std::uint8_t* out);

/// out = in past the cache: `lines` whole lines of 64 bytes, `out` on a line. Reads and writes exactly those.
void stream_lines(const std::uint8_t* in, std::int64_t lines, std::uint8_t* out);

/// Orders streamed stores before later ones.
void stream_fence();

}  // namespace carya::transforms
