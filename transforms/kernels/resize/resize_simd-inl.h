// The inner loops of the resize for one SIMD target. resize_simd.cc includes this file once for each (Highway's
// foreach_target). Intrinsics stand beside Highway's names, because Highway 1.0.3 has no pack from 16 to 8 bits and no
// 64-byte table lookup.

#if defined(CARYA_TRANSFORMS_KERNELS_RESIZE_SIMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_TRANSFORMS_KERNELS_RESIZE_SIMD_INL
#undef CARYA_TRANSFORMS_KERNELS_RESIZE_SIMD_INL
#else
#define CARYA_TRANSFORMS_KERNELS_RESIZE_SIMD_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace carya::transforms {
namespace HWY_NAMESPACE {

constexpr int kRoundBias = 64;  // half of the 7 bits of fraction

// The plain loops: what the vector code does, one value at a time.
inline int TapProduct(std::uint8_t signed_pixel, int weight) {
  const int word = static_cast<std::int8_t>(signed_pixel) * 256;
  return (word * weight + 0x4000) >> 15;
}
inline std::uint8_t Finish(int sum, std::uint8_t out_xor) {
  const int value = sum >> 7;
  return static_cast<std::uint8_t>(value < -128 ? -128 : value > 127 ? 127 : value) ^ out_xor;
}

inline void CombinePlain(const std::uint8_t* const* rows, const std::int16_t* weights, int taps,
                         std::int64_t begin, std::int64_t end, std::uint8_t in_xor, std::uint8_t out_xor,
                         std::uint8_t* out) {
  for (std::int64_t x = begin; x < end; ++x) {
    int sum = kRoundBias;
    for (int k = 0; k < taps; ++k) sum += TapProduct(rows[k][x] ^ in_xor, weights[k]);
    out[x] = Finish(sum, out_xor);
  }
}

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define CARYA_RESIZE_VECTOR 1
struct Bytes {
  static constexpr std::int64_t kBytes = 64;
  using V = __m512i;
  static HWY_INLINE V Load(const void* p) { return _mm512_loadu_si512(p); }
  static HWY_INLINE void Store(V v, void* p) { _mm512_storeu_si512(p, v); }
  static HWY_INLINE V Set8(std::uint8_t x) { return _mm512_set1_epi8(static_cast<char>(x)); }
  static HWY_INLINE V Set16(std::int16_t x) { return _mm512_set1_epi16(x); }
  static HWY_INLINE V Xor(V a, V b) { return _mm512_xor_si512(a, b); }
  static HWY_INLINE V Low(V v) { return _mm512_unpacklo_epi8(_mm512_setzero_si512(), v); }
  static HWY_INLINE V High(V v) { return _mm512_unpackhi_epi8(_mm512_setzero_si512(), v); }
  static HWY_INLINE V Mul(V a, V b) { return _mm512_mulhrs_epi16(a, b); }
  static HWY_INLINE V Add(V a, V b) { return _mm512_add_epi16(a, b); }
  static HWY_INLINE V Shift(V a) { return _mm512_srai_epi16(a, 7); }
  static HWY_INLINE V Pack(V lo, V hi) { return _mm512_packs_epi16(lo, hi); }
};
#elif HWY_TARGET == HWY_AVX2
#define CARYA_RESIZE_VECTOR 1
struct Bytes {
  static constexpr std::int64_t kBytes = 32;
  using V = __m256i;
  static HWY_INLINE V Load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static HWY_INLINE void Store(V v, void* p) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
  static HWY_INLINE V Set8(std::uint8_t x) { return _mm256_set1_epi8(static_cast<char>(x)); }
  static HWY_INLINE V Set16(std::int16_t x) { return _mm256_set1_epi16(x); }
  static HWY_INLINE V Xor(V a, V b) { return _mm256_xor_si256(a, b); }
  static HWY_INLINE V Low(V v) { return _mm256_unpacklo_epi8(_mm256_setzero_si256(), v); }
  static HWY_INLINE V High(V v) { return _mm256_unpackhi_epi8(_mm256_setzero_si256(), v); }
  static HWY_INLINE V Mul(V a, V b) { return _mm256_mulhrs_epi16(a, b); }
  static HWY_INLINE V Add(V a, V b) { return _mm256_add_epi16(a, b); }
  static HWY_INLINE V Shift(V a) { return _mm256_srai_epi16(a, 7); }
  static HWY_INLINE V Pack(V lo, V hi) { return _mm256_packs_epi16(lo, hi); }
};
#elif HWY_TARGET == HWY_SSE4
#define CARYA_RESIZE_VECTOR 1
struct Bytes {
  static constexpr std::int64_t kBytes = 16;
  using V = __m128i;
  static HWY_INLINE V Load(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static HWY_INLINE void Store(V v, void* p) { _mm_storeu_si128(static_cast<__m128i*>(p), v); }
  static HWY_INLINE V LoadWords(const std::int16_t* p) { return Load(p); }
  static HWY_INLINE V Set8(std::uint8_t x) { return _mm_set1_epi8(static_cast<char>(x)); }
  static HWY_INLINE V Set16(std::int16_t x) { return _mm_set1_epi16(x); }
  static HWY_INLINE V Xor(V a, V b) { return _mm_xor_si128(a, b); }
  static HWY_INLINE V Low(V v) { return _mm_unpacklo_epi8(_mm_setzero_si128(), v); }
  static HWY_INLINE V High(V v) { return _mm_unpackhi_epi8(_mm_setzero_si128(), v); }
  static HWY_INLINE V Mul(V a, V b) { return _mm_mulhrs_epi16(a, b); }
  static HWY_INLINE V Add(V a, V b) { return _mm_add_epi16(a, b); }
  static HWY_INLINE V Shift(V a) { return _mm_srai_epi16(a, 7); }
  static HWY_INLINE V Pack(V lo, V hi) { return _mm_packs_epi16(lo, hi); }
  static HWY_INLINE V Lookup(V bytes, V index) { return _mm_shuffle_epi8(bytes, index); }
  static HWY_INLINE void StoreHalf(V v, void* p) { _mm_storel_epi64(static_cast<__m128i*>(p), v); }
};
#elif CARYA_SIMD_NEON
#define CARYA_RESIZE_VECTOR 1
struct Bytes {
  static constexpr std::int64_t kBytes = 16;
  using V = uint8x16_t;
  using W = int16x8_t;
  static HWY_INLINE V Load(const void* p) { return vld1q_u8(static_cast<const std::uint8_t*>(p)); }
  static HWY_INLINE void Store(V v, void* p) { vst1q_u8(static_cast<std::uint8_t*>(p), v); }
  static HWY_INLINE W LoadWords(const std::int16_t* p) { return vld1q_s16(p); }
  static HWY_INLINE V Set8(std::uint8_t x) { return vdupq_n_u8(x); }
  static HWY_INLINE W Set16(std::int16_t x) { return vdupq_n_s16(x); }
  static HWY_INLINE V Xor(V a, V b) { return veorq_u8(a, b); }
  static HWY_INLINE W Low(V v) { return vreinterpretq_s16_u8(vzip1q_u8(vdupq_n_u8(0), v)); }
  static HWY_INLINE W High(V v) { return vreinterpretq_s16_u8(vzip2q_u8(vdupq_n_u8(0), v)); }
  // This rounds as mulhrs does. They differ only for -32768 times itself, and no weight reaches -2.
  static HWY_INLINE W Mul(W a, W b) { return vqrdmulhq_s16(a, b); }
  static HWY_INLINE W Add(W a, W b) { return vaddq_s16(a, b); }
  static HWY_INLINE W Shift(W a) { return vshrq_n_s16(a, 7); }
  static HWY_INLINE V Pack(W lo, W hi) {
    return vreinterpretq_u8_s8(vcombine_s8(vqmovn_s16(lo), vqmovn_s16(hi)));
  }
  static HWY_INLINE W Lookup(V bytes, V index) { return vreinterpretq_s16_u8(vqtbl1q_u8(bytes, index)); }
  static HWY_INLINE void StoreHalf(V v, void* p) { vst1_u8(static_cast<std::uint8_t*>(p), vget_low_u8(v)); }
};
#endif

// Rows are combined in stretches whose sums stay in the first-level cache. These are plain loops: Clang makes them
// vectors of the target (GCC 12 does not), and integers give the same bits in any order.
void CombineRowsWide(const std::uint8_t* const* rows, const std::int32_t* weights, int taps,
                     std::int64_t bytes, std::uint8_t out_xor, std::uint8_t* out) {
  constexpr std::int64_t kStretch = 1024;
  constexpr std::int32_t kHalf = 1 << (ResizeTaps::kWideBits - 1);
  alignas(64) std::int32_t sums[kStretch];
  const auto flip = static_cast<std::uint8_t>(0x80 ^ out_xor);
  for (std::int64_t begin = 0; begin < bytes; begin += kStretch) {
    const std::int64_t count = bytes - begin < kStretch ? bytes - begin : kStretch;
    for (std::int64_t x = 0; x < count; ++x) sums[x] = kHalf;
    for (int k = 0; k < taps; ++k) {
      const std::uint8_t* row = rows[k] + begin;
      const std::int32_t weight = weights[k];
      for (std::int64_t x = 0; x < count; ++x) sums[x] += weight * row[x];
    }
    for (std::int64_t x = 0; x < count; ++x) {
      const std::int32_t value = sums[x] >> ResizeTaps::kWideBits;
      out[begin + x] = static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value) ^ flip;
    }
  }
}

inline void FlipSignPlain(const std::uint8_t* in, std::int64_t bytes, std::uint8_t* out) {
  for (std::int64_t x = 0; x < bytes; ++x) out[x] = in[x] ^ 0x80;
}

#ifdef CARYA_RESIZE_VECTOR

void FlipSign(const std::uint8_t* in, std::int64_t bytes, std::uint8_t* out) {
  using B = Bytes;
  if (bytes < B::kBytes) return FlipSignPlain(in, bytes, out);
  const auto flip = B::Set8(0x80);
  for (std::int64_t x = 0; x < bytes; x += B::kBytes) {
    const std::int64_t at = x + B::kBytes <= bytes ? x : bytes - B::kBytes;
    B::Store(B::Xor(B::Load(in + at), flip), out + at);
  }
}

// kTaps is 0 if the count is known only at run time.
template <int kTaps>
HWY_INLINE void CombineVectors(const std::uint8_t* const* rows, const std::int16_t* weights, int taps,
                               std::int64_t bytes, std::uint8_t in_xor, std::uint8_t out_xor,
                               std::uint8_t* out) {
  using B = Bytes;
  const int n = kTaps != 0 ? kTaps : taps;
  const std::uint8_t* from[ResizeTaps::kNarrowTaps];
  decltype(B::Set16(0)) weight[kTaps != 0 ? kTaps : ResizeTaps::kNarrowTaps];
  for (int k = 0; k < n; ++k) {
    from[k] = rows[k];
    weight[k] = B::Set16(weights[k]);
  }
  const auto in_flip = B::Set8(in_xor);
  const auto out_flip = B::Set8(out_xor);
  for (std::int64_t x = 0; x < bytes; x += B::kBytes) {
    // The last vector overlaps the one before, so that it does not pass the end.
    const std::int64_t at = x + B::kBytes <= bytes ? x : bytes - B::kBytes;
    auto low = B::Set16(kRoundBias);
    auto high = low;
    for (int k = 0; k < n; ++k) {
      const auto pixels = B::Xor(B::Load(from[k] + at), in_flip);
      low = B::Add(low, B::Mul(B::Low(pixels), weight[k]));
      high = B::Add(high, B::Mul(B::High(pixels), weight[k]));
    }
    B::Store(B::Xor(B::Pack(B::Shift(low), B::Shift(high)), out_flip), out + at);
  }
}

void CombineRows(const std::uint8_t* const* rows, const std::int16_t* weights, int taps, std::int64_t bytes,
                 std::uint8_t in_xor, std::uint8_t out_xor, std::uint8_t* out) {
  if (bytes < Bytes::kBytes) return CombinePlain(rows, weights, taps, 0, bytes, in_xor, out_xor, out);
  switch (taps) {
    case 1:
      return CombineVectors<1>(rows, weights, taps, bytes, in_xor, out_xor, out);
    case 2:
      return CombineVectors<2>(rows, weights, taps, bytes, in_xor, out_xor, out);
    case 3:
      return CombineVectors<3>(rows, weights, taps, bytes, in_xor, out_xor, out);
    case 4:
      return CombineVectors<4>(rows, weights, taps, bytes, in_xor, out_xor, out);
    case 5:
      return CombineVectors<5>(rows, weights, taps, bytes, in_xor, out_xor, out);
    case 6:
      return CombineVectors<6>(rows, weights, taps, bytes, in_xor, out_xor, out);
    default:
      return CombineVectors<0>(rows, weights, taps, bytes, in_xor, out_xor, out);
  }
}

#if HWY_TARGET == HWY_AVX3_DL

GroupShape GroupShapeOf() {
  return {.words = 32, .window_bytes = 64, .groups_per_step = 1};
}

template <int kTaps>
HWY_INLINE void FilterGroups(const std::uint8_t* in, const ResizeGroups& table, std::uint8_t out_xor,
                             std::uint8_t* out) {
  const int n = kTaps != 0 ? kTaps : table.taps;
  const std::size_t step = static_cast<std::size_t>(table.channels);
  const std::uint8_t* index = table.index.data();
  const std::int16_t* weights = table.weights.data();
  const __m256i out_flip = _mm256_set1_epi8(static_cast<char>(out_xor));
  // The mask is hidden from the compiler: with a known mask, Clang adds an AND after each lookup.
  __mmask64 high_bytes = 0xAAAAAAAAAAAAAAAAULL;
  asm("" : "+k"(high_bytes));
  for (const ResizeGroups::Group& group : table.groups) {
    const __m512i lookup = _mm512_loadu_si512(index);
    const std::uint8_t* from = in + group.in_byte;
    __m512i sum = _mm512_set1_epi16(kRoundBias);
    for (int k = 0; k < n; ++k) {
      const __m512i window = _mm512_loadu_si512(from + static_cast<std::size_t>(k) * step);
      const __m512i pixels = _mm512_maskz_permutexvar_epi8(high_bytes, lookup, window);
      sum = _mm512_add_epi16(sum, _mm512_mulhrs_epi16(pixels, _mm512_load_si512(weights + 32 * k)));
    }
    const __m256i bytes = _mm512_cvtsepi16_epi8(_mm512_srai_epi16(sum, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + group.out_byte), _mm256_xor_si256(bytes, out_flip));
    index += 64;
    weights += 32 * n;
  }
}

#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

GroupShape GroupShapeOf() {
  return {.words = 8, .window_bytes = 16, .groups_per_step = 2};
}

template <int kTaps>
HWY_INLINE void FilterGroups(const std::uint8_t* in, const ResizeGroups& table, std::uint8_t out_xor,
                             std::uint8_t* out) {
  const int n = kTaps != 0 ? kTaps : table.taps;
  const std::size_t step = static_cast<std::size_t>(table.channels);
  const std::uint8_t* index = table.index.data();
  const std::int16_t* weights = table.weights.data();
  const __m128i out_flip = _mm_set1_epi8(static_cast<char>(out_xor));
  const auto load = [](const void* p) HWY_ATTR { return _mm_loadu_si128(static_cast<const __m128i*>(p)); };
  for (std::size_t g = 0; g < table.groups.size(); g += 2) {
    const __m256i lookup = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index));
    const std::uint8_t* from0 = in + table.groups[g].in_byte;
    const std::uint8_t* from1 = in + table.groups[g + 1].in_byte;
    __m256i sum = _mm256_set1_epi16(kRoundBias);
    for (int k = 0; k < n; ++k) {
      const std::size_t at = static_cast<std::size_t>(k) * step;
      const __m256i window =
          _mm256_inserti128_si256(_mm256_castsi128_si256(load(from0 + at)), load(from1 + at), 1);
      const __m256i pixels = _mm256_shuffle_epi8(window, lookup);
      const __m256i weight = _mm256_load_si256(reinterpret_cast<const __m256i*>(weights + 16 * k));
      sum = _mm256_add_epi16(sum, _mm256_mulhrs_epi16(pixels, weight));
    }
    const __m256i words = _mm256_srai_epi16(sum, 7);
    const __m128i bytes = _mm_xor_si128(
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)), out_flip);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + table.groups[g].out_byte), bytes);
    _mm_storeh_pd(reinterpret_cast<double*>(out + table.groups[g + 1].out_byte), _mm_castsi128_pd(bytes));
    index += 32;
    weights += 16 * n;
  }
}

#else  // SSE4 and NEON

GroupShape GroupShapeOf() {
  return {.words = 8, .window_bytes = 16, .groups_per_step = 1};
}

template <int kTaps>
HWY_INLINE void FilterGroups(const std::uint8_t* in, const ResizeGroups& table, std::uint8_t out_xor,
                             std::uint8_t* out) {
  const int n = kTaps != 0 ? kTaps : table.taps;
  const std::size_t step = static_cast<std::size_t>(table.channels);
  const std::uint8_t* index = table.index.data();
  const std::int16_t* weights = table.weights.data();
  using B = Bytes;
  const auto out_flip = B::Set8(out_xor);
  for (const ResizeGroups::Group& group : table.groups) {
    const auto lookup = B::Load(index);
    const std::uint8_t* from = in + group.in_byte;
    auto sum = B::Set16(kRoundBias);
    for (int k = 0; k < n; ++k) {
      const auto pixels = B::Lookup(B::Load(from + static_cast<std::size_t>(k) * step), lookup);
      sum = B::Add(sum, B::Mul(pixels, B::LoadWords(weights + 8 * k)));
    }
    const auto words = B::Shift(sum);
    B::StoreHalf(B::Xor(B::Pack(words, words), out_flip), out + group.out_byte);
    index += 16;
    weights += 8 * n;
  }
}

#endif

void FilterRow(const std::uint8_t* in, const ResizeTaps&, const ResizeGroups& groups, std::uint8_t out_xor,
               std::uint8_t* out) {
  switch (groups.taps) {
    case 1:
      return FilterGroups<1>(in, groups, out_xor, out);
    case 2:
      return FilterGroups<2>(in, groups, out_xor, out);
    case 3:
      return FilterGroups<3>(in, groups, out_xor, out);
    case 4:
      return FilterGroups<4>(in, groups, out_xor, out);
    case 5:
      return FilterGroups<5>(in, groups, out_xor, out);
    case 6:
      return FilterGroups<6>(in, groups, out_xor, out);
    default:
      return FilterGroups<0>(in, groups, out_xor, out);
  }
}

#undef CARYA_RESIZE_VECTOR
#else  // no vectors: the fallback targets

GroupShape GroupShapeOf() {
  return {};
}

void FlipSign(const std::uint8_t* in, std::int64_t bytes, std::uint8_t* out) {
  FlipSignPlain(in, bytes, out);
}

void CombineRows(const std::uint8_t* const* rows, const std::int16_t* weights, int taps, std::int64_t bytes,
                 std::uint8_t in_xor, std::uint8_t out_xor, std::uint8_t* out) {
  CombinePlain(rows, weights, taps, 0, bytes, in_xor, out_xor, out);
}

void FilterRow(const std::uint8_t* in, const ResizeTaps& taps, const ResizeGroups& groups,
               std::uint8_t out_xor, std::uint8_t* out) {
  const int channels = groups.channels;
  for (std::int64_t i = 0; i < taps.out_size(); ++i) {
    const std::uint8_t* from = in + taps.start(i) * channels;
    const std::int16_t* weights = taps.narrow(i);
    for (int c = 0; c < channels; ++c) {
      int sum = kRoundBias;
      for (int k = 0; k < taps.count(i); ++k) sum += TapProduct(from[k * channels + c], weights[k]);
      out[i * channels + c] = Finish(sum, out_xor);
    }
  }
}

#endif

// kBlocks is the number of reads of 16 bytes for 16 columns.
template <int kBlocks>
HWY_INLINE void LookUp16(const std::uint8_t* in, const std::uint8_t* lookups, std::uint8_t* out) {
#if CARYA_SIMD_VECTORS
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Full128<std::uint8_t> d;
  auto found = hn::Zero(d);
  for (int k = 0; k < kBlocks; ++k)
    found = hn::Or(found, hn::TableLookupBytesOr0(hn::LoadU(d, in + 16 * k), hn::LoadU(d, lookups + 16 * k)));
  hn::StoreU(found, d, out);
#else
  for (int k = 0; k < kBlocks; ++k) {
    for (int i = 0; i < 16; ++i) {
      if (lookups[16 * k + i] < 16) out[i] = in[16 * k + lookups[16 * k + i]];
    }
  }
#endif
}

template <int kBlocks>
HWY_INLINE void LookUpRow(const std::uint8_t* in, const std::int32_t* firsts, const std::uint8_t* lookups,
                          std::int64_t width, std::uint8_t* out) {
  for (std::int64_t x = 0; x < width; x += 16) {
    LookUp16<kBlocks>(in + *firsts++, lookups, out + (x + 16 <= width ? x : width - 16));
    lookups += 16 * kBlocks;
  }
}

void LookUpColumns(const std::uint8_t* in, const std::int32_t* firsts, const std::uint8_t* lookups,
                   int blocks, std::int64_t width, std::uint8_t* out) {
  if (blocks == 1) return LookUpRow<1>(in, firsts, lookups, width, out);
  if (blocks == 2) return LookUpRow<2>(in, firsts, lookups, width, out);
  if (blocks == 3) return LookUpRow<3>(in, firsts, lookups, width, out);
  LookUpRow<4>(in, firsts, lookups, width, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace carya::transforms
HWY_AFTER_NAMESPACE();

#endif  // include guard
