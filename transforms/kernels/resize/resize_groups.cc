#include "transforms/kernels/resize/resize_groups.h"

#include <algorithm>
#include <cstring>

namespace carya::transforms {
namespace {

// One weight for each channel of a pixel. Three channels leave a fourth word over in every vector (8 or 32
// words), so all but one channel write four: the next pixel writes over it, or it weighs a result that nobody
// keeps.
inline void put_weight(std::int16_t weight, int channels, std::int16_t* out) {
  if (channels == 1) {
    *out = weight;
    return;
  }
  const std::uint64_t four = static_cast<std::uint16_t>(weight) * std::uint64_t{0x0001000100010001};
  std::memcpy(out, &four, sizeof(four));
}

}  // namespace

void ResizeGroups::build(const ResizeTaps& source, int channel_count, const GroupShape& group_shape) {
  shape = group_shape;
  taps = source.taps_max();
  channels = channel_count;
  groups.clear();
  index.clear();
  weights.clear();
  if (shape.words == 0) return;
  const std::int64_t pixels_max = shape.words / channels;
  for (std::int64_t i = 0; i < source.out_size();) {
    const std::int64_t first = source.start(i);
    groups.push_back({static_cast<std::int32_t>(first * channels), static_cast<std::int32_t>(i * channels)});
    const std::int64_t end = std::min(i + pixels_max, source.out_size());
    for (++i; i < end; ++i) {
      const std::int64_t from = (source.start(i) - first) * channels;
      if (from < 0 || from + channels > shape.window_bytes) break;
    }
  }
  const auto words = static_cast<std::size_t>(shape.words);
  const auto step = static_cast<std::size_t>(shape.groups_per_step);
  const auto tap_count = static_cast<std::size_t>(taps);
  const std::size_t group_count = (groups.size() + step - 1) / step * step;
  index.resize(group_count * 2 * words, 0x80);
  weights.resize(group_count * tap_count * words, 0);
  const auto weights_at = [&](std::size_t g, std::size_t k) {
    return weights.data() + ((g / step * tap_count + k) * step + g % step) * words;
  };
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::int64_t begin = groups[g].out_byte / channels;
    const std::int64_t end = g + 1 < groups.size() ? groups[g + 1].out_byte / channels : source.out_size();
    std::uint8_t* to_index = index.data() + g * 2 * words;
    std::int16_t* to_weights = weights_at(g, 0);
    for (std::int64_t i = begin; i < end; ++i, to_index += 2 * channels, to_weights += channels) {
      const std::int64_t from = source.start(i) * channels - groups[g].in_byte;
      for (int c = 0; c < channels; ++c) to_index[2 * c + 1] = static_cast<std::uint8_t>(from + c);
      const std::int16_t* from_weights = source.narrow(i);
      for (std::size_t k = 0; k < tap_count; ++k) {
        put_weight(from_weights[k], channels, to_weights + k * step * words);
      }
    }
  }
  // Padding repeats the last group, so it writes what is there already.
  while (groups.size() % step != 0) {
    const std::size_t g = groups.size();
    groups.push_back(groups.back());
    std::copy_n(index.data() + (g - 1) * 2 * words, 2 * words, index.data() + g * 2 * words);
    for (std::size_t k = 0; k < tap_count; ++k) std::copy_n(weights_at(g - 1, k), words, weights_at(g, k));
  }
}

}  // namespace carya::transforms
