#pragma once

#include <cstdint>

#include "transforms/kernels/store/store.h"

namespace carya::transforms {

// Inner loops of the last pass for the SIMD target in use. Each reads exactly its input and writes exactly its output.
// `stream` asks for stores past the cache, which happen where the address is aligned for them.

/// out[i] = in[i] * a[i % channels] + b[i % channels] for `count` values.
void store_values(const std::uint8_t* in, std::int64_t count, int channels, const Affine& affine, bool stream,
                  float* out);

/// RGB pixels to three planes: out[c][x] = in[3 x + c] * a[c] + b[c]. With `flip` they come from the right end.
void store_planes(const std::uint8_t* in, std::int64_t width, const Affine& affine, bool flip, bool stream,
                  float* const out[3]);

/// RGB pixels to three planes of bytes.
void split_planes(const std::uint8_t* in, std::int64_t width, bool flip, std::uint8_t* const out[3]);

/// Write the pixels (1, 3 or 4 bytes) in reverse order. `in` and `out` do not overlap.
void reverse_pixels(const std::uint8_t* in, std::int64_t width, int channels, std::uint8_t* out);

/// Copy `lines` whole lines of 64 bytes past the cache. `out` is aligned to a line. Reads and writes exactly those.
void stream_lines(const std::uint8_t* in, std::int64_t lines, std::uint8_t* out);

/// Order streamed stores before later ones.
void stream_fence();

}  // namespace carya::transforms
