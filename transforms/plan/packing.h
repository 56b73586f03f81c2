#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transforms/op/op.h"
#include "transforms/op/tensor.h"
#include "transforms/ops/geometry.h"

namespace carya::transforms {

/// A sample between two parts of a plan, in one piece of memory: its tensors one behind the other, each at a multiple of
/// kPackAlign. A picture of no fixed size has its height and width, two int64, before its pixels. A file that is still
/// encoded has its length and 1 there, and zeros behind its bytes, at which decoders may look.
///
/// What comes from elsewhere is checked once by is_packed(); nothing else looks whether it is one.
inline constexpr std::size_t kPackAlign = 64;
inline constexpr std::size_t kPackedSizeBytes = 16;
inline constexpr std::size_t kPackedSlackBytes = 64;

/// Whether a tensor can be packed: it has a fixed shape, or is a uint8 picture of 1, 3 or 4 channels and any size.
bool can_pack(const FieldState& state);

/// The bytes of a tensor that is packed, with its size before it if its spec has none. `size` is that of the picture; of
/// a file its length and 1.
std::uint64_t packed_bytes(const TensorSpec& spec, ImageSize size);
/// Write the size of a picture of no fixed size to `at`. Returns the place of the tensor's values.
std::byte* pack_size(const TensorSpec& spec, ImageSize size, std::byte* at);
/// The size of a packed picture of no fixed size, and its pixels.
ImageSize packed_size(std::span<const std::byte> tensor);
std::span<const std::byte> packed_pixels(std::span<const std::byte> tensor);
/// Whether bytes can be a packed sample of these specs, with nothing left.
bool is_packed(const std::vector<TensorSpec>& specs, std::span<const std::byte> bytes);
/// Point `tensors` into a packed sample of these specs: to a picture of no fixed size with its size, to the bytes of a file.
void unpack(const std::vector<TensorSpec>& specs, std::span<const std::byte> sample,
            std::span<std::span<const std::byte>> tensors);

}  // namespace carya::transforms
