#include "loader/data/drawn_order.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace carya::loader {
namespace {

constexpr std::int64_t kEndsMax = std::int64_t{1} << 53;

/// Word `index` of the numbers that numpy's Philox(key=[key, epoch]) gives. Its counter is raised before each block of
/// four. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
std::uint64_t philox_word(std::uint64_t key, std::uint64_t epoch, std::uint64_t index) {
  using Wide = unsigned __int128;
  std::array<std::uint64_t, 4> words{index / 4 + 1, 0, 0, 0};
  std::array<std::uint64_t, 2> keys{key, epoch};
  for (int round = 0; round < 10; ++round) {
    const Wide first = Wide{0xD2E7470EE14C6C93} * words[0], second = Wide{0xCA5A826395121157} * words[2];
    words = {static_cast<std::uint64_t>(second >> 64) ^ words[1] ^ keys[0],
             static_cast<std::uint64_t>(second), static_cast<std::uint64_t>(first >> 64) ^ words[3] ^ keys[1],
             static_cast<std::uint64_t>(first)};
    keys = {keys[0] + 0x9E3779B97F4A7C15, keys[1] + 0xBB67AE8584CAA73B};
  }
  return words[index % 4];
}

}  // namespace

Result<DrawnOrder> DrawnOrder::weighted(std::vector<std::int64_t> ends, std::uint64_t positions,
                                        std::uint64_t key) {
  if (ends.empty() || ends.front() < 0 || ends.back() <= 0 || ends.back() > kEndsMax ||
      !std::ranges::is_sorted(ends))
    return fail(Code::kInvalidArgument, "draw: ends are no sums of weights; give rising ones of 0 to 2^53");
  if (positions == 0 || positions > kPositionsMax)
    return fail(Code::kInvalidArgument, fmt::format("draw: positions: got {}; give 1 to 2^40", positions));
  DrawnOrder order;
  order.records_ = ends.size();
  order.positions_ = positions;
  order.ends_ = std::move(ends);
  order.key_ = key;
  return order;
}

Result<DrawnOrder> DrawnOrder::repeated(std::uint64_t records, std::uint64_t times, std::uint64_t within,
                                        std::uint64_t positions) {
  const bool counts = records > 0 && times > 0 && within > 0 && within % times == 0;
  if (!counts || positions == 0 || positions > kPositionsMax || (positions - 1) / times >= records)
    return fail(Code::kInvalidArgument,
                fmt::format("repeat: got {} positions of {} records {} times within {}", positions, records,
                            times, within));
  DrawnOrder order;
  order.records_ = records;
  order.positions_ = positions;
  order.within_ = within;
  order.apart_ = within / times;
  return order;
}

std::uint64_t DrawnOrder::index(std::uint64_t epoch, std::uint64_t position) const {
  CHECK(position < positions_);
  if (in_order()) {
    const std::uint64_t begin = position / within_ * apart_;
    return begin + position % within_ % std::min(apart_, records_ - begin);
  }
  const double uniform = static_cast<double>(philox_word(key_, epoch, position) >> 11) * 0x1p-53;
  const auto place = static_cast<std::int64_t>(uniform * static_cast<double>(ends_.back()));
  const auto found = std::ranges::upper_bound(ends_, std::min(place, ends_.back() - 1));
  return static_cast<std::uint64_t>(found - ends_.begin());
}

}  // namespace carya::loader
