// The few 16-bit operations that Highway does not have, with their meaning on x86: within each 128-bit block.
#if defined(CARYA_JPEG_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_JPEG_LANES_INL_H_
#undef CARYA_JPEG_LANES_INL_H_
#else
#define CARYA_JPEG_LANES_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

// Targets without vectors of 128-bit blocks use the plain loops, with the same bits.
#undef CARYA_JPEG_PLAIN
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_HAVE_SCALABLE
#define CARYA_JPEG_PLAIN 1
#else
#define CARYA_JPEG_PLAIN 0
#endif

#if !CARYA_JPEG_PLAIN
HWY_BEFORE_NAMESPACE();
namespace carya::jpeg::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors have at most 256 bits. Measured: 512-bit vectors make a whole decode 5 % slower on a Sapphire Rapids core,
// whose clock falls for the entropy loop too. From AVX-512 it uses only the registers and byte permutes.
using D8 = hn::CappedTag<std::uint8_t, 32>;
using D16 = hn::CappedTag<std::int16_t, 16>;
using D32 = hn::CappedTag<std::int32_t, 8>;
using V8 = hn::Vec<D8>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;

inline constexpr int kByteLanes = HWY_MIN(32, static_cast<int>(HWY_LANES(std::uint8_t)));
inline constexpr int kBlocks = kByteLanes / 16;  // 128-bit blocks of a vector

// The operation madd: sums of products of neighbouring lanes.
HWY_INLINE V32 mul_pairs(V16 a, V16 b) {
#if HWY_TARGET <= HWY_AVX2
  return V32{_mm256_madd_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
  return V32{_mm_madd_epi16(a.raw, b.raw)};
#elif CARYA_SIMD_NEON
  const int32x4_t low = vmull_s16(vget_low_s16(a.raw), vget_low_s16(b.raw));
  return V32{vpaddq_s32(low, vmull_high_s16(a.raw, b.raw))};
#else
  const D32 d;
  const V32 x = hn::BitCast(d, a);
  const V32 y = hn::BitCast(d, b);
  const V32 even =
      hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(x)), hn::ShiftRight<16>(hn::ShiftLeft<16>(y)));
  return hn::Add(even, hn::Mul(hn::ShiftRight<16>(x), hn::ShiftRight<16>(y)));
#endif
}

// Pack 32 to 16 bits with saturation: the low half of each block from a, the high half from b.
HWY_INLINE V16 pack32(V32 a, V32 b) {
#if HWY_TARGET <= HWY_AVX2
  return V16{_mm256_packs_epi32(a.raw, b.raw)};
#elif HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
  return V16{_mm_packs_epi32(a.raw, b.raw)};
#else
  const hn::Half<D16> half;
  return hn::Combine(D16(), hn::DemoteTo(half, b), hn::DemoteTo(half, a));
#endif
}

// Pack 16 to unsigned 8 bits with saturation: the low half of each block from a, the high half from b.
HWY_INLINE V8 pack16(V16 a, V16 b) {
#if HWY_TARGET <= HWY_AVX2
  return V8{_mm256_packus_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
  return V8{_mm_packus_epi16(a.raw, b.raw)};
#else
  const hn::Half<D8> half;
  return hn::Combine(D8(), hn::DemoteTo(half, b), hn::DemoteTo(half, a));
#endif
}

// Pack 16 to unsigned 8 bits with saturation, all of a before all of b.
HWY_INLINE V8 pack16_ordered(V16 a, V16 b) {
#if HWY_TARGET <= HWY_AVX2
  return V8{_mm256_permute4x64_epi64(_mm256_packus_epi16(a.raw, b.raw), 0xD8)};
#elif HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
  return V8{_mm_packus_epi16(a.raw, b.raw)};
#else
  const hn::Half<D8> half;
  return hn::Combine(D8(), hn::DemoteTo(half, b), hn::DemoteTo(half, a));
#endif
}

// Store the low 8 bytes of block b to at[b], and the high ones one stride further.
HWY_INLINE void store_halves(V8 v, std::uint8_t* const* at, std::size_t stride) {
#if HWY_TARGET <= HWY_AVX2
  const __m128i block[2] = {_mm256_castsi256_si128(v.raw), _mm256_extracti128_si256(v.raw, 1)};
#elif HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
  const __m128i block[1] = {v.raw};
#endif
#if HWY_TARGET <= HWY_SSSE3
  for (int b = 0; b < kBlocks; ++b) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(at[b]), block[b]);
    _mm_storeh_pd(reinterpret_cast<double*>(at[b] + stride), _mm_castsi128_pd(block[b]));
  }
#else
  const hn::Half<D8> half;
  hn::StoreU(hn::LowerHalf(half, v), half, at[0]);
  hn::StoreU(hn::UpperHalf(half, v), half, at[0] + stride);
#endif
}

// Load rows `first` to first + 3 of kBlocks coefficient blocks: block b of rows[i] is row first + i of source[b].
HWY_INLINE void load_rows(const std::int16_t* const* source, int first, V16* rows) {
  for (int i = 0; i < 4; ++i) {
#if HWY_TARGET <= HWY_AVX2
    const auto* low = reinterpret_cast<const __m128i*>(source[0] + 8 * (first + i));
    const auto* high = reinterpret_cast<const __m128i*>(source[1] + 8 * (first + i));
    rows[i] =
        V16{_mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)), _mm_loadu_si128(high), 1)};
#else
    rows[i] = hn::LoadU(D16(), source[0] + 8 * (first + i));
#endif
  }
}

}  // namespace carya::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // !CARYA_JPEG_PLAIN

#endif  // include guard
