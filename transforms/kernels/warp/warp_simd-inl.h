// The inner loops of the warp for one SIMD target. warp_simd.cc includes this file once for each (Highway's
// foreach_target).

#if defined(CARYA_TRANSFORMS_KERNELS_WARP_SIMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_TRANSFORMS_KERNELS_WARP_SIMD_INL
#undef CARYA_TRANSFORMS_KERNELS_WARP_SIMD_INL
#else
#define CARYA_TRANSFORMS_KERNELS_WARP_SIMD_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace carya::transforms {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline WarpGrid::Place StepFrom(WarpGrid::Place place, const WarpGrid& grid, std::int64_t columns) {
  return {place.x + grid.x_right() * columns, place.y + grid.y_right() * columns};
}

// The first byte of the pixel that a place is in.
inline const std::uint8_t* PixelAt(const ImageView& in, WarpGrid::Place place) {
  return in.row(place.y >> WarpGrid::kBits) + (place.x >> WarpGrid::kBits) * in.channels;
}

inline void BilinearPlain(const ImageView& in, const WarpGrid& grid, WarpGrid::Place place,
                          std::int64_t count, std::uint8_t* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const WarpGrid::Place here = StepFrom(place, grid, i);
    const std::uint8_t* upper = PixelAt(in, here);
    blend_pixels(upper, upper + in.stride_bytes, 0, 1, here, in.channels, out + i * in.channels);
  }
}

#if CARYA_SIMD_VECTORS

constexpr std::int64_t kBlock = 64;  // places whose addresses are computed at a time

using Longs = hn::ScalableTag<std::uint64_t>;
using VLongs = hn::Vec<Longs>;
constexpr std::int64_t kLongs = static_cast<std::int64_t>(hn::MaxLanes(Longs()));

// The places of neighbouring columns as vectors. Nobody reads those past the row's end.
struct Places {
  VLongs x;
  VLongs y;
  VLongs x_step;
  VLongs y_step;

  HWY_INLINE Places(WarpGrid::Place place, const WarpGrid& grid)
      : x(Lanes(place.x, grid.x_right())),
        y(Lanes(place.y, grid.y_right())),
        x_step(hn::Set(Longs(), static_cast<std::uint64_t>(grid.x_right()) * kLongs)),
        y_step(hn::Set(Longs(), static_cast<std::uint64_t>(grid.y_right()) * kLongs)) {}

  HWY_INLINE void advance() {
    x = hn::Add(x, x_step);
    y = hn::Add(y, y_step);
  }
  // The offset in bytes of the pixel at each place. Both factors are below 2^32.
  HWY_INLINE VLongs offsets(std::uint64_t stride, std::uint64_t channels) const {
    return hn::Add(Product(hn::ShiftRight<WarpGrid::kBits>(y), stride),
                   Product(hn::ShiftRight<WarpGrid::kBits>(x), channels));
  }

 private:
  static HWY_INLINE VLongs Lanes(std::int64_t first, std::int64_t step) {
    alignas(64) std::uint64_t lanes[kLongs];
    for (std::int64_t i = 0; i < kLongs; ++i)
      lanes[i] = static_cast<std::uint64_t>(first) +
                 static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(i);
    return hn::Load(Longs(), lanes);
  }
  static HWY_INLINE VLongs Product(VLongs a, std::uint64_t b) {
    const hn::Repartition<std::uint32_t, Longs> d;
    return hn::MulEven(hn::BitCast(d, a), hn::BitCast(d, hn::Set(Longs(), b)));
  }
};

// A pixel of 3 bytes is copied as 4: the next pixel overwrites the extra byte, and the last one is copied as 3.
template <int kChannels>
HWY_INLINE void CopyPixels(const std::uint8_t* in, const std::uint64_t* offsets, std::int64_t count,
                           bool last, std::uint8_t* out) {
  constexpr std::size_t kMoved = kChannels == 3 ? 4 : kChannels;
  const std::int64_t whole = last ? count - 1 : count;
  for (std::int64_t i = 0; i < whole; ++i) std::memcpy(out + i * kChannels, in + offsets[i], kMoved);
  if (last) std::memcpy(out + whole * kChannels, in + offsets[whole], kChannels);
}

void NearestRow(const ImageView& in, const WarpGrid& grid, WarpGrid::Place place, std::int64_t count,
                std::uint8_t* out) {
  const auto stride = static_cast<std::uint64_t>(in.stride_bytes);
  const auto channels = static_cast<std::uint64_t>(in.channels);
  const std::uint8_t* data = in.data;  // a copy: a byte that is written might alias `in`
  Places places(place, grid);
  alignas(64) std::uint64_t offsets[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t left = count - begin;
    const std::int64_t here = left < kBlock ? left : kBlock;
    for (std::int64_t i = 0; i < here; i += kLongs, places.advance())
      hn::Store(places.offsets(stride, channels), Longs(), offsets + i);
    std::uint8_t* to = out + begin * static_cast<std::int64_t>(channels);
    const bool last = left <= kBlock;
    if (channels == 1)
      CopyPixels<1>(data, offsets, here, last, to);
    else if (channels == 3)
      CopyPixels<3>(data, offsets, here, last, to);
    else
      CopyPixels<4>(data, offsets, here, last, to);
  }
}

using Words = hn::CappedTag<std::int16_t, 16>;
using VWords = hn::Vec<Words>;
using Bytes = hn::Repartition<std::uint8_t, Words>;
using Pixel = hn::Full64<std::uint8_t>;                               // two neighbours of a row
constexpr int kBlocks = static_cast<int>(hn::MaxLanes(Words())) / 8;  // one pixel of the result in each
constexpr int kTurn = 2 * kBlocks;                                    // pixels per turn: in two vectors

HWY_INLINE VWords MulPairs(VWords a, VWords b) {
#if CARYA_SIMD_NEON
  const int32x4_t low = vmull_s16(vget_low_s16(a.raw), vget_low_s16(b.raw));
  return VWords{vreinterpretq_s16_s32(vpaddq_s32(low, vmull_high_s16(a.raw, b.raw)))};
#elif HWY_TARGET == HWY_SSE4
  return VWords{_mm_madd_epi16(a.raw, b.raw)};
#else
  return VWords{_mm256_madd_epi16(a.raw, b.raw)};
#endif
}

// The vector of byte indices from `table`; an index >= 0x80 gives 0.
HWY_INLINE hn::Vec<Bytes> Shuffle(const std::uint8_t (&table)[16]) {
  return hn::LoadDup128(Bytes(), table);
}

alignas(16) constexpr std::uint8_t kDown[2][16] = {
    {4, 5, 4, 5, 4, 5, 4, 5, 4, 5, 4, 5, 4, 5, 4, 5},
    {12, 13, 12, 13, 12, 13, 12, 13, 12, 13, 12, 13, 12, 13, 12, 13}};
alignas(16) constexpr std::uint8_t kAcross[2][16] = {
    {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3},
    {8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11}};
alignas(16) constexpr std::uint8_t kPairs3[16] = {0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, 128, 128, 128, 128};
alignas(16) constexpr std::uint8_t kPairs4[16] = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
// The highest byte of each sum; the second vector's pixel follows the first one's.
alignas(16) constexpr std::uint8_t kResult3[2][16] = {
    {3, 7, 11, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128},
    {128, 128, 128, 3, 7, 11, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128}};
alignas(16) constexpr std::uint8_t kResult4[2][16] = {
    {3, 7, 11, 15, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128},
    {128, 128, 128, 128, 3, 7, 11, 15, 128, 128, 128, 128, 128, 128, 128, 128}};

// Load two neighbouring pixels at each of a block's offsets, as words. Those of block b are at offsets[2 b].
HWY_INLINE VWords LoadPixels(const std::uint8_t* in, const std::uint64_t* offsets) {
#if HWY_MAX_BYTES == 16
  return hn::PromoteTo(Words(), hn::LoadU(Pixel(), in + offsets[0]));
#else
  const auto first = hn::LoadU(Pixel(), in + offsets[0]);
  const auto second = hn::LoadU(Pixel(), in + offsets[2]);
  return hn::PromoteTo(Words(), hn::Combine(hn::Full128<std::uint8_t>(), second, first));
#endif
}

template <int kChannels>
HWY_INLINE hn::Vec<Bytes> BlendTurn(const std::uint8_t* upper, const std::uint8_t* lower,
                                    const std::uint64_t* offsets, hn::Vec<Bytes> weights, int second) {
  const Words d;
  const VWords top = LoadPixels(upper, offsets + second);
  const VWords bottom = LoadPixels(lower, offsets + second);
  const VWords down = hn::BitCast(d, hn::TableLookupBytes(weights, Shuffle(kDown[second])));
  const VWords across = hn::BitCast(d, hn::TableLookupBytes(weights, Shuffle(kAcross[second])));
  const VWords more = hn::MulFixedPoint15(hn::ShiftLeft<kLevelBits>(hn::Sub(bottom, top)), down);
  const VWords level = hn::Add(hn::ShiftLeft<kLevelBits>(top), more);
  const auto pairs =
      hn::TableLookupBytesOr0(hn::BitCast(Bytes(), level), Shuffle(kChannels == 3 ? kPairs3 : kPairs4));
  const hn::Repartition<std::uint32_t, Words> d32;
  const auto sum = hn::BitCast(d32, MulPairs(hn::BitCast(d, pairs), across));
  constexpr int kToHighest = 24 - kColumnBits - kLevelBits;
  return hn::TableLookupBytesOr0(hn::BitCast(Bytes(), hn::ShiftLeft<kToHighest>(sum)),
                                 Shuffle(kChannels == 3 ? kResult3[second] : kResult4[second]));
}

// Blend `count` pixels. The last turn may write 2 bytes too many, for which the caller leaves room.
template <int kChannels>
HWY_INLINE void BlendBlock(const ImageView& in, const std::uint64_t* offsets, const std::uint64_t* weights,
                           std::int64_t count, std::uint8_t* out) {
  const std::uint8_t* upper = in.data;
  const std::uint8_t* lower = in.data + in.stride_bytes;
  for (std::int64_t i = 0; i < count; i += kTurn) {
    const auto w = hn::BitCast(Bytes(), hn::LoadU(hn::Repartition<std::uint64_t, Bytes>(), weights + i));
    const auto pixels = hn::Or(BlendTurn<kChannels>(upper, lower, offsets + i, w, 0),
                               BlendTurn<kChannels>(upper, lower, offsets + i, w, 1));
    std::uint8_t* to = out + i * kChannels;
#if HWY_MAX_BYTES == 16
    hn::StoreU(hn::LowerHalf(pixels), Pixel(), to);
#else
    const hn::Half<Bytes> half;
    hn::StoreU(hn::LowerHalf(hn::LowerHalf(half, pixels)), Pixel(), to);
    hn::StoreU(hn::LowerHalf(hn::UpperHalf(half, pixels)), Pixel(), to + std::ptrdiff_t{2} * kChannels);
#endif
  }
}

// Compute the addresses and weights of a block. The weights are those of the left column, the right column and the
// lower row, 16 bits each.
HWY_INLINE void PrepareBlock(Places& places, std::uint64_t stride, std::uint64_t channels, std::int64_t count,
                             std::uint64_t* offsets, std::uint64_t* weights) {
  const Longs d;
  const VLongs one = hn::Set(d, std::uint64_t{1} << kColumnBits);
  const VLongs across_mask = hn::Set(d, (std::uint64_t{1} << kColumnBits) - 1);
  const VLongs down_mask = hn::Set(d, (std::uint64_t{1} << kRowBits) - 1);
  for (std::int64_t i = 0; i < count; i += kLongs, places.advance()) {
    hn::Store(places.offsets(stride, channels), d, offsets + i);
    const VLongs across = hn::And(hn::ShiftRight<WarpGrid::kBits - kColumnBits>(places.x), across_mask);
    const VLongs down = hn::And(hn::ShiftRight<WarpGrid::kBits - kRowBits>(places.y), down_mask);
    const VLongs both = hn::Add(hn::Sub(one, across), hn::ShiftLeft<16>(across));
    hn::Store(hn::Or(both, hn::ShiftLeft<32>(down)), d, weights + i);
  }
}

template <int kChannels>
void BilinearVectors(const ImageView& in, const WarpGrid& grid, WarpGrid::Place place, std::int64_t count,
                     std::uint8_t* out) {
  const ImageView view = in;  // a copy: a byte that is written might alias `in`
  Places places(place, grid);
  alignas(64) std::uint64_t offsets[kBlock];
  alignas(64) std::uint64_t weights[kBlock];
  // Vectors take whole turns, so that a pixel follows the last one that they write.
  const std::int64_t whole = (count - 1) / kTurn * kTurn;
  for (std::int64_t begin = 0; begin < whole; begin += kBlock) {
    const std::int64_t here = whole - begin < kBlock ? whole - begin : kBlock;
    PrepareBlock(places, static_cast<std::uint64_t>(view.stride_bytes), kChannels, here, offsets, weights);
    BlendBlock<kChannels>(view, offsets, weights, here, out + begin * kChannels);
  }
  BilinearPlain(view, grid, StepFrom(place, grid, whole), count - whole, out + whole * kChannels);
}

void BilinearRow(const ImageView& in, const WarpGrid& grid, WarpGrid::Place place, std::int64_t count,
                 std::uint8_t* out) {
  if (in.channels == 1) return BilinearPlain(in, grid, place, count, out);
  if (in.channels == 3) return BilinearVectors<3>(in, grid, place, count, out);
  BilinearVectors<4>(in, grid, place, count, out);
}

#else  // the fallback targets

void NearestRow(const ImageView& in, const WarpGrid& grid, WarpGrid::Place place, std::int64_t count,
                std::uint8_t* out) {
  const std::int64_t channels = in.channels;
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(out + i * channels, PixelAt(in, StepFrom(place, grid, i)),
                static_cast<std::size_t>(channels));
}

void BilinearRow(const ImageView& in, const WarpGrid& grid, WarpGrid::Place place, std::int64_t count,
                 std::uint8_t* out) {
  BilinearPlain(in, grid, place, count, out);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace carya::transforms
HWY_AFTER_NAMESPACE();

#endif  // include guard
