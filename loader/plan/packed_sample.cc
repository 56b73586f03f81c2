#include "loader/plan/packed_sample.h"

#include <cstdint>

#include "base/checked.h"
#include "transforms/plan/packing.h"

namespace carya::loader {
namespace {

/// Longer sides than any decoder makes; their product with the channels fits 64 bits.
constexpr std::int64_t kSideMax = std::int64_t{1} << 24;

}  // namespace

bool is_packed_sample(const transforms::Plan& behind, std::span<const std::byte> bytes) {
  std::uint64_t at = 0, end = 0;
  for (const transforms::SourceField& field : behind.inputs()) {
    transforms::ImageSize size{};
    if (at > bytes.size()) return false;
    if (field.spec.bytes() < 0) {
      if (bytes.size() - at < transforms::kPackedSizeBytes) return false;
      size = transforms::packed_size(bytes.subspan(at));
      if (size.height < 1 || size.width < 1 || size.height > kSideMax || size.width > kSideMax) return false;
    }
    const std::uint64_t wanted = transforms::packed_bytes(field.spec, size);
    if (wanted > bytes.size() - at) return false;
    end = at + wanted;
    at = align_up<std::uint64_t>(end, transforms::kPackAlign);
  }
  // The writer may have rounded the end up.
  return bytes.size() == end || bytes.size() == at;
}

}  // namespace carya::loader
