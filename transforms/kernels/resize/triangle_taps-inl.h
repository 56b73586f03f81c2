// The weights of several outputs at a time, one in each lane, for one SIMD target. triangle_taps.cc includes this file
// once for each (Highway's foreach_target).

#if defined(CARYA_TRANSFORMS_KERNELS_TRIANGLE_TAPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_TRANSFORMS_KERNELS_TRIANGLE_TAPS_INL
#undef CARYA_TRANSFORMS_KERNELS_TRIANGLE_TAPS_INL
#else
#define CARYA_TRANSFORMS_KERNELS_TRIANGLE_TAPS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace carya::transforms {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if CARYA_SIMD_VECTORS

using Doubles = hn::CappedTag<double, 8>;
using Ints = hn::Rebind<std::int32_t, Doubles>;
constexpr std::size_t kLanes = hn::MaxLanes(Doubles());

// Store four taps of each lane's output side by side, in their order in memory.
HWY_INLINE void PackTaps(const hn::Vec<Ints> taps[4], std::uint64_t* out) {
  const hn::Rebind<std::uint32_t, Doubles> narrow;
  const hn::Rebind<std::uint64_t, Doubles> d;
  const auto wide = [&](hn::Vec<Ints> v) HWY_ATTR { return hn::PromoteTo(d, hn::BitCast(narrow, v)); };
  const auto low = hn::Or(wide(taps[0]), hn::ShiftLeft<16>(wide(taps[1])));
  const auto high = hn::Or(hn::ShiftLeft<32>(wide(taps[2])), hn::ShiftLeft<48>(wide(taps[3])));
  hn::Store(hn::Or(low, high), d, out);
}

// Compute outputs first_output + [0, kLanes). kTaps is 0 if the count is known only at run time.
template <std::int64_t kTaps>
HWY_INLINE hn::Vec<Ints> TapsOfLanes(const TriangleFilter& filter, std::int64_t tap_count,
                                     std::int64_t first_output, const TriangleTaps& out) {
  const std::int64_t taps = kTaps != 0 ? kTaps : tap_count;
  const Doubles d;
  const Ints di;
  const auto zero = hn::Zero(d);
  const auto half = hn::Set(d, 0.5);
  const auto i = hn::Add(hn::Set(d, static_cast<double>(first_output)), hn::Iota(d, 0.0));
  const auto center = hn::Mul(hn::Add(i, half), hn::Set(d, filter.scale));
  const auto first =
      hn::Max(hn::Zero(di), hn::DemoteTo(di, hn::Add(hn::Sub(center, hn::Set(d, filter.support)), half)));
  const auto start = hn::PromoteTo(d, first);
  const auto from = hn::Add(hn::Sub(start, center), half);
  const auto end_of_input = hn::Set(d, static_cast<double>(filter.in_size));

  hn::Vec<Doubles> weights[16];
  auto sum = zero;
  auto most = zero;
  auto heaviest = zero;
  for (std::int64_t k = 0; k < taps; ++k) {
    const auto at = hn::Set(d, static_cast<double>(k));
    const auto distance = hn::Abs(hn::Mul(hn::Add(from, at), hn::Set(d, filter.inverse)));
    const auto w = hn::Max(zero, hn::Sub(hn::Set(d, 1.0), distance));
    weights[k] = hn::IfThenElseZero(hn::Lt(hn::Add(start, at), end_of_input), w);
    sum = hn::Add(sum, weights[k]);
    const auto more = hn::Gt(weights[k], most);
    most = hn::IfThenElse(more, weights[k], most);
    heaviest = hn::IfThenElse(more, at, heaviest);
  }
  const auto unit = hn::Div(hn::Set(d, 1 << ResizeTaps::kNarrowBits), sum);
  const auto heaviest_tap = hn::DemoteTo(di, heaviest);

  hn::Vec<Ints> fixed[16];
  auto rest = hn::Set(di, 1 << ResizeTaps::kNarrowBits);
  auto count = hn::Add(heaviest_tap, hn::Set(di, 1));
  for (std::int64_t k = 0; k < taps; ++k) {
    fixed[k] = hn::DemoteTo(di, hn::Add(hn::Mul(weights[k], unit), half));
    rest = hn::Sub(rest, fixed[k]);
    const auto one_more = hn::Set(di, static_cast<std::int32_t>(k + 1));
    count = hn::Max(count, hn::IfThenElseZero(hn::Gt(fixed[k], hn::Zero(di)), one_more));
  }
  for (std::int64_t k = 0; k < 16; ++k) {
    if (k >= taps) {
      fixed[k] = hn::Zero(di);
      continue;
    }
    const auto here = hn::Eq(heaviest_tap, hn::Set(di, static_cast<std::int32_t>(k)));
    fixed[k] = hn::Add(fixed[k], hn::IfThenElseZero(here, rest));
  }

  alignas(64) std::uint64_t packed[4][kLanes];
  for (std::size_t four = 0; four < 4; ++four) PackTaps(fixed + 4 * four, packed[four]);
  std::int16_t* to = out.weights + first_output * ResizeTaps::kNarrowTaps;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t four = 0; four < 4; ++four) {
      std::memcpy(to + 16 * lane + 4 * four, &packed[four][lane], sizeof(std::uint64_t));
    }
  }
  hn::StoreU(first, di, out.start + first_output);
  hn::StoreU(count, di, out.count + first_output);
  return count;
}

template <std::int64_t kTaps>
HWY_INLINE int TapsOfAll(const TriangleFilter& filter, std::int64_t taps, const TriangleTaps& out) {
  constexpr auto kStep = static_cast<std::int64_t>(kLanes);
  auto most = hn::Zero(Ints());
  for (std::int64_t i = 0; i < filter.out_size; i += kStep) {
    const std::int64_t at = i + kStep <= filter.out_size ? i : filter.out_size - kStep;  // overlaps
    most = hn::Max(most, TapsOfLanes<kTaps>(filter, taps, at, out));
  }
  alignas(64) std::int32_t lanes[kLanes];
  hn::Store(most, Ints(), lanes);
  return *std::max_element(lanes, lanes + kLanes);
}

int TriangleTapsOf(const TriangleFilter& filter, std::int64_t taps, const TriangleTaps& out) {
  if (filter.out_size < static_cast<std::int64_t>(kLanes)) return triangle_taps_plain(filter, taps, out);
  switch (taps) {
    case 3:
      return TapsOfAll<3>(filter, taps, out);
    case 4:
      return TapsOfAll<4>(filter, taps, out);
    case 5:
      return TapsOfAll<5>(filter, taps, out);
    case 6:
      return TapsOfAll<6>(filter, taps, out);
    default:
      return TapsOfAll<0>(filter, taps, out);
  }
}

#else  // the fallback targets

int TriangleTapsOf(const TriangleFilter& filter, std::int64_t taps, const TriangleTaps& out) {
  return triangle_taps_plain(filter, taps, out);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace carya::transforms
HWY_AFTER_NAMESPACE();

#endif  // include guard
