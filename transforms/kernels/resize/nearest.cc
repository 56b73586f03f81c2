#include "transforms/kernels/resize/nearest.h"

#include <algorithm>

#include "transforms/kernels/resize/resize_simd.h"
#include "transforms/kernels/resize/resize_window.h"

namespace carya::transforms {
namespace {

constexpr std::int64_t kColumns = 16;
constexpr std::int64_t kBlocksMax = 4;  // more read further than one by one costs

template <int kChannels>
void pick_pixels(const std::uint8_t* in, const std::vector<std::int32_t>& columns, std::uint8_t* out) {
  for (const std::int32_t column : columns) {
    for (int c = 0; c < kChannels; ++c) out[c] = in[kChannels * column + c];
    out += kChannels;
  }
}

}  // namespace

void NearestColumns::update(std::int64_t in_width, std::int64_t out_width, bool mirrored) {
  if (in_width_ == in_width && columns_.size() == static_cast<std::size_t>(out_width) &&
      mirrored_ == mirrored)
    return;
  columns_.resize(static_cast<std::size_t>(out_width));
  for (std::int64_t x = 0; x < out_width; ++x) {
    const std::int64_t column = nearest_index(x, in_width, out_width);
    columns_[static_cast<std::size_t>(x)] =
        static_cast<std::int32_t>(mirrored ? in_width - 1 - column : column);
  }
  in_width_ = in_width;
  mirrored_ = mirrored;
  make_lookups();
}

void NearestColumns::make_lookups() {
  const auto width = static_cast<std::int64_t>(columns_.size());
  blocks_ = 0;
  if (width < kColumns) return;
  const std::int64_t groups = (width + kColumns - 1) / kColumns;
  // The last group ends with the row, so that some of its columns may be the one's before it.
  const auto first_of = [&](std::int64_t group) { return std::min(group * kColumns, width - kColumns); };
  const auto ends = [&](std::int64_t group) {
    const auto [low, high] = std::minmax(columns_[static_cast<std::size_t>(first_of(group))],
                                         columns_[static_cast<std::size_t>(first_of(group) + kColumns - 1)]);
    return std::pair<std::int64_t, std::int64_t>(low, high);
  };
  std::int64_t blocks = 1;
  for (std::int64_t group = 0; group < groups; ++group) {
    const auto [low, high] = ends(group);
    blocks = std::max(blocks, (high - low) / kColumns + 1);
  }
  if (blocks > kBlocksMax || blocks * kColumns > in_width_) return;
  firsts_.resize(static_cast<std::size_t>(groups));
  lookups_.assign(static_cast<std::size_t>(groups * blocks * kColumns), 0x80);
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t first = std::min(ends(group).first, in_width_ - blocks * kColumns);
    firsts_[static_cast<std::size_t>(group)] = static_cast<std::int32_t>(first);
    for (std::int64_t i = 0; i < kColumns; ++i) {
      const std::int64_t at = columns_[static_cast<std::size_t>(first_of(group) + i)] - first;
      lookups_[static_cast<std::size_t>((group * blocks + at / kColumns) * kColumns + i)] =
          static_cast<std::uint8_t>(at % kColumns);
    }
  }
  blocks_ = static_cast<int>(blocks);
}

void NearestColumns::pick(const std::uint8_t* in, std::int64_t channels, std::uint8_t* out) const {
  if (channels == 1 && blocks_ > 0) {
    return look_up_columns(in, firsts_.data(), lookups_.data(), blocks_,
                           static_cast<std::int64_t>(columns_.size()), out);
  }
  switch (channels) {
    case 1:
      return pick_pixels<1>(in, columns_, out);
    case 3:
      return pick_pixels<3>(in, columns_, out);
    default:
      return pick_pixels<4>(in, columns_, out);
  }
}

}  // namespace carya::transforms
