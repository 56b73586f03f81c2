#pragma once

#include <cstdint>

namespace carya::transforms {

/// from + factor (to - from), cut to 0..255 and truncated: two float32 operations, each rounded, in this
/// order. Source: Pillow's Image.blend, and so ImageEnhance.
inline std::uint8_t blend(int from, int to, float factor) {
  const float product = factor * static_cast<float>(to - from);
  const float value = static_cast<float>(from) + product;
  const float low = value > 0.0F ? value : 0.0F;
  return static_cast<std::uint8_t>(static_cast<int>(low < 255.0F ? low : 255.0F));
}

}  // namespace carya::transforms
