#include "transforms/plan/packing.h"

#include <cstring>

#include "base/checked.h"

namespace carya::transforms {
namespace {

/// Longer sides than any decoder makes; their product with the channels fits 64 bits.
constexpr std::int64_t kSideMax = std::int64_t{1} << 24;
constexpr std::int64_t kFileMax = std::int64_t{1} << 32;

/// Of a file that is still encoded. Other tensors of no fixed size are pictures.
bool is_file(const TensorSpec& spec) {
  return spec.bytes() < 0 && spec.shape.size() == 1;
}

bool can_be(const TensorSpec& spec, ImageSize size) {
  if (is_file(spec)) return size.height >= 0 && size.height <= kFileMax && size.width == 1;
  return size.height >= 1 && size.width >= 1 && size.height <= kSideMax && size.width <= kSideMax;
}

}  // namespace

bool can_pack(const FieldState& state) {
  if (state.form == FieldState::Form::kEncoded) return false;
  if (state.spec.bytes() >= 0) return true;
  const std::vector<std::int64_t>& shape = state.spec.shape;
  return state.form == FieldState::Form::kImage && !state.values && state.spec.dtype == DType::kUint8 &&
         shape.size() == 3 && (shape[2] == 1 || shape[2] == 3 || shape[2] == 4);
}

std::uint64_t packed_bytes(const TensorSpec& spec, ImageSize size) {
  if (spec.bytes() >= 0) return static_cast<std::uint64_t>(spec.bytes());
  if (is_file(spec)) return kPackedSizeBytes + static_cast<std::uint64_t>(size.height) + kPackedSlackBytes;
  return kPackedSizeBytes + static_cast<std::uint64_t>(size.height * size.width * spec.shape[2]);
}

std::byte* pack_size(const TensorSpec& spec, ImageSize size, std::byte* at) {
  if (spec.bytes() >= 0) return at;
  std::memcpy(at, &size.height, 8);
  std::memcpy(at + 8, &size.width, 8);
  return at + kPackedSizeBytes;
}

ImageSize packed_size(std::span<const std::byte> tensor) {
  ImageSize size;
  std::memcpy(&size.height, tensor.data(), 8);
  std::memcpy(&size.width, tensor.data() + 8, 8);
  return size;
}

std::span<const std::byte> packed_pixels(std::span<const std::byte> tensor) {
  return tensor.subspan(kPackedSizeBytes);
}

bool is_packed(const std::vector<TensorSpec>& specs, std::span<const std::byte> bytes) {
  std::uint64_t at = 0, end = 0;
  for (const TensorSpec& spec : specs) {
    ImageSize size{};
    if (at > bytes.size()) return false;
    if (spec.bytes() < 0) {
      if (bytes.size() - at < kPackedSizeBytes) return false;
      size = packed_size(bytes.subspan(at));
      if (!can_be(spec, size)) return false;
    }
    const std::uint64_t wanted = packed_bytes(spec, size);
    if (wanted > bytes.size() - at) return false;
    end = at + wanted;
    at = align_up<std::uint64_t>(end, kPackAlign);
  }
  // The writer may have rounded the end up.
  return bytes.size() == end || bytes.size() == at;
}

void unpack(const std::vector<TensorSpec>& specs, std::span<const std::byte> sample,
            std::span<std::span<const std::byte>> tensors) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const ImageSize size = specs[i].bytes() < 0 ? packed_size(sample.subspan(at)) : ImageSize{};
    const std::uint64_t bytes = packed_bytes(specs[i], size);
    tensors[i] = is_file(specs[i])
                     ? sample.subspan(at + kPackedSizeBytes, static_cast<std::size_t>(size.height))
                     : sample.subspan(at, bytes);
    at = align_up(at + bytes, kPackAlign);
  }
}

}  // namespace carya::transforms
