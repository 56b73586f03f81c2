// The inner loops of the blur for one SIMD target. blur_simd.cc includes this file once for each (Highway's
// foreach_target).

#if defined(CARYA_TRANSFORMS_KERNELS_BLUR_SIMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_TRANSFORMS_KERNELS_BLUR_SIMD_INL
#undef CARYA_TRANSFORMS_KERNELS_BLUR_SIMD_INL
#else
#define CARYA_TRANSFORMS_KERNELS_BLUR_SIMD_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace carya::transforms {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline void ColumnsPlain(const std::uint8_t* const* above, const std::uint8_t* const* below,
                         const std::int16_t* weights, int radius, std::int64_t count, std::int16_t* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = column_sum(above, below, weights, radius, i);
}

inline void RowPlain(const std::int16_t* in, const std::int16_t* weights, int radius, std::int64_t channels,
                     std::int64_t count, std::uint8_t* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = row_level(in + i, weights, radius, channels);
}

#if CARYA_SIMD_VECTORS

// Operations that Highway 1.0.3 lacks: the sum of each pair of bytes, times 128, and the packing of words to bytes in
// order.
#if CARYA_SIMD_NEON
using Bytes = hn::Full128<std::uint8_t>;
using VBytes = hn::Vec<Bytes>;
using Words = hn::Full128<std::int16_t>;
using VWords = hn::Vec<Words>;
HWY_INLINE VWords PairsBy128(VBytes signed_pairs) {
  return VWords{vshlq_n_s16(vpaddlq_s8(vreinterpretq_s8_u8(signed_pairs.raw)), 7)};
}
HWY_INLINE void StoreInOrder(VWords low, VWords high, std::int16_t* out) {
  hn::StoreU(low, Words(), out);
  hn::StoreU(high, Words(), out + 8);
}
HWY_INLINE VBytes PackInOrder(VWords low, VWords high) {
  return VBytes{vreinterpretq_u8_s8(vcombine_s8(vqmovn_s16(low.raw), vqmovn_s16(high.raw)))};
}
#elif HWY_TARGET == HWY_SSE4
using Bytes = hn::Full128<std::uint8_t>;
using VBytes = hn::Vec<Bytes>;
using Words = hn::Full128<std::int16_t>;
using VWords = hn::Vec<Words>;
HWY_INLINE VWords PairsBy128(VBytes signed_pairs) {
  return VWords{_mm_maddubs_epi16(_mm_set1_epi8(static_cast<char>(0x80)), signed_pairs.raw)};
}
HWY_INLINE void StoreInOrder(VWords low, VWords high, std::int16_t* out) {
  hn::StoreU(low, Words(), out);
  hn::StoreU(high, Words(), out + 8);
}
HWY_INLINE VBytes PackInOrder(VWords low, VWords high) {
  return VBytes{_mm_packs_epi16(low.raw, high.raw)};
}
#elif HWY_TARGET == HWY_AVX2
using Bytes = hn::Full256<std::uint8_t>;
using VBytes = hn::Vec<Bytes>;
using Words = hn::Full256<std::int16_t>;
using VWords = hn::Vec<Words>;
HWY_INLINE VWords PairsBy128(VBytes signed_pairs) {
  return VWords{_mm256_maddubs_epi16(_mm256_set1_epi8(static_cast<char>(0x80)), signed_pairs.raw)};
}
HWY_INLINE void StoreInOrder(VWords low, VWords high, std::int16_t* out) {
  hn::StoreU(VWords{_mm256_permute2x128_si256(low.raw, high.raw, 0x20)}, Words(), out);
  hn::StoreU(VWords{_mm256_permute2x128_si256(low.raw, high.raw, 0x31)}, Words(), out + 16);
}
HWY_INLINE VBytes PackInOrder(VWords low, VWords high) {
  return VBytes{_mm256_permute4x64_epi64(_mm256_packs_epi16(low.raw, high.raw), 0xD8)};
}
#else
using Bytes = hn::Full512<std::uint8_t>;
using VBytes = hn::Vec<Bytes>;
using Words = hn::Full512<std::int16_t>;
using VWords = hn::Vec<Words>;
HWY_INLINE VWords PairsBy128(VBytes signed_pairs) {
  return VWords{_mm512_maddubs_epi16(_mm512_set1_epi8(static_cast<char>(0x80)), signed_pairs.raw)};
}
HWY_INLINE void StoreInOrder(VWords low, VWords high, std::int16_t* out) {
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  hn::StoreU(VWords{_mm512_permutex2var_epi64(low.raw, first, high.raw)}, Words(), out);
  hn::StoreU(VWords{_mm512_permutex2var_epi64(low.raw, second, high.raw)}, Words(), out + 32);
}
HWY_INLINE VBytes PackInOrder(VWords low, VWords high) {
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  return VBytes{_mm512_permutexvar_epi64(order, _mm512_packs_epi16(low.raw, high.raw))};
}
#endif

constexpr std::int64_t kBytes = static_cast<std::int64_t>(hn::MaxLanes(Bytes()));
constexpr std::int64_t kWords = kBytes / 2;

// Both loops take kBytes values per turn. The last turn overlaps the one before, so that it does not pass the end.

void BlurColumns(const std::uint8_t* const* above, const std::uint8_t* const* below,
                 const std::int16_t* weights, int radius, std::int64_t count, std::int16_t* out) {
  if (count < kBytes) return ColumnsPlain(above, below, weights, radius, count, out);
  const auto flip = hn::Set(Bytes(), std::uint8_t{0x80});
  for (std::int64_t i = 0; i < count; i += kBytes) {
    const std::int64_t at = i + kBytes <= count ? i : count - kBytes;
    VWords low = hn::Zero(Words());
    VWords high = hn::Zero(Words());
    for (int k = 0; k <= radius; ++k) {
      const VWords weight = hn::Set(Words(), weights[k]);
      const VBytes a = hn::Xor(hn::LoadU(Bytes(), above[k] + at), flip);
      const VBytes b = hn::Xor(hn::LoadU(Bytes(), below[k] + at), flip);
      low = hn::Add(low, hn::MulFixedPoint15(PairsBy128(hn::InterleaveLower(Bytes(), a, b)), weight));
      high = hn::Add(high, hn::MulFixedPoint15(PairsBy128(hn::InterleaveUpper(Bytes(), a, b)), weight));
    }
    StoreInOrder(low, high, out + at);
  }
}

void BlurRow(const std::int16_t* in, const std::int16_t* weights, int radius, std::int64_t channels,
             std::int64_t count, std::uint8_t* out) {
  if (count < kBytes) return RowPlain(in, weights, radius, channels, count, out);
  const Words d;
  const auto flip = hn::Set(Bytes(), std::uint8_t{0x80});
  for (std::int64_t i = 0; i < count; i += kBytes) {
    const std::int64_t at = i + kBytes <= count ? i : count - kBytes;
    VWords low = hn::Set(d, std::int16_t{64});
    VWords high = low;
    const std::int16_t* left = in + at;
    const std::int16_t* right = left;
    for (int k = 0; k <= radius; ++k, left -= channels, right += channels) {
      const VWords weight = hn::Set(d, weights[k]);
      const VWords near = hn::Add(hn::LoadU(d, left), hn::LoadU(d, right));
      const VWords far = hn::Add(hn::LoadU(d, left + kWords), hn::LoadU(d, right + kWords));
      low = hn::Add(low, hn::MulFixedPoint15(near, weight));
      high = hn::Add(high, hn::MulFixedPoint15(far, weight));
    }
    hn::StoreU(hn::Xor(PackInOrder(hn::ShiftRight<7>(low), hn::ShiftRight<7>(high)), flip), Bytes(),
               out + at);
  }
}

#else  // the fallback targets

void BlurColumns(const std::uint8_t* const* above, const std::uint8_t* const* below,
                 const std::int16_t* weights, int radius, std::int64_t count, std::int16_t* out) {
  ColumnsPlain(above, below, weights, radius, count, out);
}

void BlurRow(const std::int16_t* in, const std::int16_t* weights, int radius, std::int64_t channels,
             std::int64_t count, std::uint8_t* out) {
  RowPlain(in, weights, radius, channels, count, out);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace carya::transforms
HWY_AFTER_NAMESPACE();

#endif  // include guard
