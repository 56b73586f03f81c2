// The inner loops of the store for one SIMD target. store_simd.cc includes this file once for each (Highway's
// foreach_target).

#if defined(CARYA_TRANSFORMS_KERNELS_STORE_SIMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_TRANSFORMS_KERNELS_STORE_SIMD_INL
#undef CARYA_TRANSFORMS_KERNELS_STORE_SIMD_INL
#else
#define CARYA_TRANSFORMS_KERNELS_STORE_SIMD_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace carya::transforms {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kStep = 16;  // pixels per turn: one 128-bit vector of bytes per channel

inline void ValuesPlain(const std::uint8_t* in, std::int64_t begin, std::int64_t end, int channels,
                        const Affine& affine, float* out) {
  for (std::int64_t i = begin; i < end; ++i) {
    const auto c = static_cast<std::size_t>(i % channels);
    out[i] = static_cast<float>(in[i]) * affine.a[c] + affine.b[c];
  }
}

inline void PlanesPlain(const std::uint8_t* in, std::int64_t width, const Affine& affine, bool flip,
                        float* const out[3]) {
  for (std::int64_t x = 0; x < width; ++x) {
    const std::int64_t to = flip ? width - 1 - x : x;
    for (std::size_t c = 0; c < 3; ++c) {
      out[c][to] = static_cast<float>(in[3 * x + static_cast<std::int64_t>(c)]) * affine.a[c] + affine.b[c];
    }
  }
}

inline void SplitPlain(const std::uint8_t* in, std::int64_t width, bool flip, std::uint8_t* const out[3]) {
  for (std::int64_t x = 0; x < width; ++x) {
    const std::int64_t to = flip ? width - 1 - x : x;
    for (int c = 0; c < 3; ++c) out[c][to] = in[3 * x + c];
  }
}

template <int kChannels>
inline void ReversePlain(const std::uint8_t* in, std::int64_t width, std::uint8_t* out) {
  for (std::int64_t x = 0; x < width; ++x) {
    for (int c = 0; c < kChannels; ++c) out[kChannels * (width - 1 - x) + c] = in[kChannels * x + c];
  }
}

#if CARYA_SIMD_VECTORS

using Bytes16 = hn::Full128<std::uint8_t>;
using V16 = hn::Vec<Bytes16>;
using Floats = hn::CappedTag<float, 16>;
constexpr std::int64_t kFloats = static_cast<std::int64_t>(hn::MaxLanes(Floats()));

HWY_INLINE V16 Reverse16(V16 v) {
  alignas(16) static constexpr std::uint8_t kIndex[16] = {15, 14, 13, 12, 11, 10, 9, 8,
                                                          7,  6,  5,  4,  3,  2,  1, 0};
  return hn::TableLookupBytes(v, hn::Load(Bytes16(), kIndex));
}

template <bool kStream>
HWY_INLINE void Put(hn::Vec<Floats> v, float* out) {
  if constexpr (kStream) {
    hn::Stream(v, Floats(), out);
  } else {
    hn::StoreU(v, Floats(), out);
  }
}

HWY_INLINE hn::Vec<Floats> ToFloats(const std::uint8_t* in) {
  const Floats df;
  const hn::Rebind<std::uint8_t, Floats> d8;
  const hn::Rebind<std::int32_t, Floats> d32;
  return hn::ConvertTo(df, hn::PromoteTo(d32, hn::LoadU(d8, in)));
}

// Convert 16 pixels of one channel to 16 floats.
template <bool kStream>
HWY_INLINE void PutChannel(V16 bytes, hn::Vec<Floats> a, hn::Vec<Floats> b, float* out) {
  alignas(16) std::uint8_t lanes[16];
  hn::Store(bytes, Bytes16(), lanes);
  for (std::int64_t i = 0; i < kStep; i += kFloats) {
    Put<kStream>(hn::Add(hn::Mul(ToFloats(lanes + i), a), b), out + i);
  }
}

#if HWY_TARGET == HWY_AVX3_DL

// One table lookup takes a channel of 16 pixels and widens it. Mirrored indices flip at no cost.
template <bool kFlip, bool kStream>
HWY_INLINE void PlanesVectors(const std::uint8_t* in, std::int64_t width, const Affine& affine,
                              float* const out[3]) {
  alignas(64) std::uint8_t lanes[64] = {};
  for (int i = 0; i < 16; ++i) lanes[4 * i] = static_cast<std::uint8_t>(3 * (kFlip ? 15 - i : i));
  const __m512i first = _mm512_load_si512(lanes);
  const Floats df;
  for (std::int64_t x = 0; x < width; x += kStep) {
    const std::int64_t to = x + kStep <= width ? x : width - kStep;  // the last turn overlaps
    const std::int64_t from = kFlip ? width - kStep - to : to;
    const __m512i pixels = _mm512_maskz_loadu_epi8(0x0000FFFFFFFFFFFFULL, in + 3 * from);
    for (int c = 0; c < 3; ++c) {
      const __m512i index = _mm512_add_epi8(first, _mm512_set1_epi32(c));
      const __m512i wide = _mm512_maskz_permutexvar_epi8(0x1111111111111111ULL, index, pixels);
      const auto k = static_cast<std::size_t>(c);
      const hn::Vec<Floats> x16{_mm512_cvtepi32_ps(wide)};
      Put<kStream>(hn::Add(hn::Mul(x16, hn::Set(df, affine.a[k])), hn::Set(df, affine.b[k])), out[c] + to);
    }
  }
}

#else

template <bool kFlip, bool kStream>
HWY_INLINE void PlanesVectors(const std::uint8_t* in, std::int64_t width, const Affine& affine,
                              float* const out[3]) {
  const Floats df;
  const auto a0 = hn::Set(df, affine.a[0]), a1 = hn::Set(df, affine.a[1]), a2 = hn::Set(df, affine.a[2]);
  const auto b0 = hn::Set(df, affine.b[0]), b1 = hn::Set(df, affine.b[1]), b2 = hn::Set(df, affine.b[2]);
  for (std::int64_t x = 0; x < width; x += kStep) {
    const std::int64_t to = x + kStep <= width ? x : width - kStep;  // the last turn overlaps
    const std::int64_t from = kFlip ? width - kStep - to : to;
    V16 c0, c1, c2;
    hn::LoadInterleaved3(Bytes16(), in + 3 * from, c0, c1, c2);
    if constexpr (kFlip) {
      c0 = Reverse16(c0);
      c1 = Reverse16(c1);
      c2 = Reverse16(c2);
    }
    PutChannel<kStream>(c0, a0, b0, out[0] + to);
    PutChannel<kStream>(c1, a1, b1, out[1] + to);
    PutChannel<kStream>(c2, a2, b2, out[2] + to);
  }
}

#endif

HWY_INLINE bool Aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % (sizeof(float) * kFloats) == 0;
}

void StorePlanes(const std::uint8_t* in, std::int64_t width, const Affine& affine, bool flip, bool stream,
                 float* const out[3]) {
  if (width < kStep) return PlanesPlain(in, width, affine, flip, out);
  const bool past = stream && width % kStep == 0 && Aligned(out[0]) && Aligned(out[1]) && Aligned(out[2]);
  if (flip) {
    if (past) return PlanesVectors<true, true>(in, width, affine, out);
    return PlanesVectors<true, false>(in, width, affine, out);
  }
  if (past) return PlanesVectors<false, true>(in, width, affine, out);
  PlanesVectors<false, false>(in, width, affine, out);
}

template <bool kStream>
HWY_INLINE void ValuesVectors(const std::uint8_t* in, std::int64_t count, const float* a, const float* b,
                              float* out) {
  // Coefficients repeat after 48 values for 1, 3 and 4 channels; a turn is 48 values.
  const Floats df;
  std::int64_t i = 0;
  for (; i + 48 <= count; i += 48) {
    for (std::int64_t k = 0; k < 48; k += kFloats) {
      const auto x = ToFloats(in + i + k);
      Put<kStream>(hn::Add(hn::Mul(x, hn::LoadU(df, a + k)), hn::LoadU(df, b + k)), out + i + k);
    }
  }
  for (; i < count; ++i) out[i] = static_cast<float>(in[i]) * a[i % 48] + b[i % 48];
}

void StoreValues(const std::uint8_t* in, std::int64_t count, int channels, const Affine& affine, bool stream,
                 float* out) {
  if (count < 48) return ValuesPlain(in, 0, count, channels, affine, out);
  alignas(64) float a[48];
  alignas(64) float b[48];
  for (std::size_t i = 0; i < 48; ++i) {
    a[i] = affine.a[i % static_cast<std::size_t>(channels)];
    b[i] = affine.b[i % static_cast<std::size_t>(channels)];
  }
  if (stream && Aligned(out)) return ValuesVectors<true>(in, count, a, b, out);
  ValuesVectors<false>(in, count, a, b, out);
}

void SplitPlanes(const std::uint8_t* in, std::int64_t width, bool flip, std::uint8_t* const out[3]) {
  if (width < kStep) return SplitPlain(in, width, flip, out);
  const Bytes16 d;
  for (std::int64_t x = 0; x < width; x += kStep) {
    const std::int64_t to = x + kStep <= width ? x : width - kStep;
    const std::int64_t from = flip ? width - kStep - to : to;
    V16 c0, c1, c2;
    hn::LoadInterleaved3(d, in + 3 * from, c0, c1, c2);
    hn::StoreU(flip ? Reverse16(c0) : c0, d, out[0] + to);
    hn::StoreU(flip ? Reverse16(c1) : c1, d, out[1] + to);
    hn::StoreU(flip ? Reverse16(c2) : c2, d, out[2] + to);
  }
}

#if HWY_TARGET == HWY_AVX3_DL

// Reverse 21 pixels (63 bytes) at a time; the masks leave out the 64th byte.
HWY_INLINE std::int64_t ReverseRgb(const std::uint8_t* in, std::int64_t width, std::uint8_t* out) {
  alignas(64) std::uint8_t lanes[64] = {};
  for (int i = 0; i < 63; ++i) lanes[i] = static_cast<std::uint8_t>(3 * (20 - i / 3) + i % 3);
  const __m512i index = _mm512_load_si512(lanes);
  constexpr __mmask64 kBytes63 = 0x7FFFFFFFFFFFFFFFULL;
  std::int64_t to = 0;
  for (; to + 21 <= width; to += 21) {
    const __m512i pixels = _mm512_maskz_loadu_epi8(kBytes63, in + 3 * (width - 21 - to));
    _mm512_mask_storeu_epi8(out + 3 * to, kBytes63, _mm512_permutexvar_epi8(index, pixels));
  }
  return to;
}

#else

// Reverse 5 pixels (15 bytes) at a time. The 16th byte that is read lies before them; the 16th that is written belongs
// to the next turn.
HWY_INLINE std::int64_t ReverseRgb(const std::uint8_t* in, std::int64_t width, std::uint8_t* out) {
  const Bytes16 d;
  alignas(16) static constexpr std::uint8_t kIndex[16] = {13, 14, 15, 10, 11, 12, 7, 8,
                                                          9,  4,  5,  6,  1,  2,  3, 0};
  const auto index = hn::Load(d, kIndex);
  std::int64_t to = 0;
  for (; to + 6 <= width; to += 5) {
    hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, in + 3 * (width - 5 - to) - 1), index), d, out + 3 * to);
  }
  return to;
}

#endif

void ReversePixels(const std::uint8_t* in, std::int64_t width, int channels, std::uint8_t* out) {
  if (channels == 4) return ReversePlain<4>(in, width, out);
  if (channels == 3) {
    const std::int64_t done = ReverseRgb(in, width, out);
    return ReversePlain<3>(in, width - done, out + 3 * done);
  }
  if (width < kStep) return ReversePlain<1>(in, width, out);
  const Bytes16 d;
  for (std::int64_t x = 0; x < width; x += kStep) {
    const std::int64_t to = x + kStep <= width ? x : width - kStep;
    hn::StoreU(Reverse16(hn::LoadU(d, in + width - kStep - to)), d, out + to);
  }
}

void StreamLines(const std::uint8_t* in, std::int64_t lines, std::uint8_t* out) {
  const hn::CappedTag<std::uint8_t, 64> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < 64 * lines; i += step) hn::Stream(hn::LoadU(d, in + i), d, out + i);
}

#else  // the fallback targets

void StreamLines(const std::uint8_t* in, std::int64_t lines, std::uint8_t* out) {
  std::memcpy(out, in, static_cast<std::size_t>(64 * lines));
}

void StorePlanes(const std::uint8_t* in, std::int64_t width, const Affine& affine, bool flip, bool,
                 float* const out[3]) {
  PlanesPlain(in, width, affine, flip, out);
}
void StoreValues(const std::uint8_t* in, std::int64_t count, int channels, const Affine& affine, bool,
                 float* out) {
  ValuesPlain(in, 0, count, channels, affine, out);
}
void SplitPlanes(const std::uint8_t* in, std::int64_t width, bool flip, std::uint8_t* const out[3]) {
  SplitPlain(in, width, flip, out);
}
void ReversePixels(const std::uint8_t* in, std::int64_t width, int channels, std::uint8_t* out) {
  if (channels == 1) return ReversePlain<1>(in, width, out);
  if (channels == 3) return ReversePlain<3>(in, width, out);
  ReversePlain<4>(in, width, out);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace carya::transforms
HWY_AFTER_NAMESPACE();

#endif  // include guard
