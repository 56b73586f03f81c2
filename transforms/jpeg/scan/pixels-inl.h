// Turns planes of samples into lines of the output: fancy upsampling and colour, with libjpeg-turbo's rounding.
#if defined(CARYA_JPEG_PIXELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_JPEG_PIXELS_INL_H_
#undef CARYA_JPEG_PIXELS_INL_H_
#else
#define CARYA_JPEG_PIXELS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "transforms/jpeg/scan/lanes-inl.h"
#include "transforms/jpeg/work.h"

HWY_BEFORE_NAMESPACE();
namespace carya::jpeg::HWY_NAMESPACE {

// Colour factors of libjpeg-turbo's 16-bit code:
//   R = Y + Cr + 0.402 Cr     B = Y + 2 Cb - 0.228 Cb     G = Y - Cr - 0.34414 Cb + 0.28586 Cr
inline constexpr int kRedFromCr = 26345;     // 0.40200 * 65536
inline constexpr int kBlueFromCb = -14942;   // -0.22800 * 65536
inline constexpr int kGreenFromCb = -22554;  // -0.34414 * 65536
inline constexpr int kGreenFromCr = 18734;   // 0.28586 * 65536

#if CARYA_JPEG_PLAIN

inline std::uint8_t clamp8(int value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0, 255));
}

inline void rgb_line(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, std::uint8_t* out,
                     int n) {
  for (int i = 0; i < n; ++i) {
    const int b = cb[i] - 128;
    const int r = cr[i] - 128;
    out[3 * i] = clamp8(y[i] + r + ((((2 * r * kRedFromCr) >> 16) + 1) >> 1));
    out[3 * i + 1] = clamp8(y[i] - r + ((b * kGreenFromCb + r * kGreenFromCr + 32768) >> 16));
    out[3 * i + 2] = clamp8(y[i] + 2 * b + ((((2 * b * kBlueFromCb) >> 16) + 1) >> 1));
  }
}

inline void gray_to_rgb_line(const std::uint8_t* y, std::uint8_t* out, int n) {
  for (int i = 0; i < n; ++i) out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = y[i];
}

inline void widen_line(const std::uint8_t* near, const std::uint8_t* far, int n, std::int16_t* sums) {
  for (int i = 0; i < n; ++i)
    sums[i] = static_cast<std::int16_t>(far == nullptr ? near[i] : 3 * near[i] + far[i]);
}

template <bool kTwoLines>
inline void double_line(const std::int16_t* sums, int n, std::uint8_t* out) {
  for (int i = 0; i < n; ++i) {
    out[2 * i] =
        static_cast<std::uint8_t>((3 * sums[i] + sums[i - 1] + (kTwoLines ? 8 : 1)) >> (kTwoLines ? 4 : 2));
    out[2 * i + 1] =
        static_cast<std::uint8_t>((3 * sums[i] + sums[i + 1] + (kTwoLines ? 7 : 2)) >> (kTwoLines ? 4 : 2));
  }
}

#else  // !CARYA_JPEG_PLAIN

struct Rgb16 {
  V16 r, g, b;
};

HWY_INLINE Rgb16 to_rgb(V16 y, V16 cb, V16 cr) {
  const D16 d;
  const D32 d32;
  const V16 one = hn::Set(d, 1);
  cb = hn::Sub(cb, hn::Set(d, 128));
  cr = hn::Sub(cr, hn::Set(d, 128));
  const V16 cb2 = hn::Add(cb, cb);
  const V16 red = hn::ShiftRight<1>(hn::Add(hn::MulHigh(hn::Add(cr, cr), hn::Set(d, kRedFromCr)), one));
  const V16 blue = hn::ShiftRight<1>(hn::Add(hn::MulHigh(cb2, hn::Set(d, kBlueFromCb)), one));
  const std::uint32_t pair =
      static_cast<std::uint16_t>(kGreenFromCb) | static_cast<std::uint32_t>(kGreenFromCr) << 16;
  const V16 factors = hn::BitCast(d, hn::Set(d32, static_cast<std::int32_t>(pair)));
  const V32 half = hn::Set(d32, 32768);
  const V32 low = hn::ShiftRight<16>(hn::Add(mul_pairs(hn::InterleaveLower(d, cb, cr), factors), half));
  const V32 high = hn::ShiftRight<16>(hn::Add(mul_pairs(hn::InterleaveUpper(d, cb, cr), factors), half));
  return {hn::Add(hn::Add(y, cr), red), hn::Add(hn::Sub(y, cr), pack32(low, high)),
          hn::Add(hn::Add(y, cb2), blue)};
}

HWY_INLINE V16 widen(const std::uint8_t* p) {
  const hn::Half<D8> half;
  const D16 d;
  return hn::PromoteTo(d, hn::LoadU(half, p));
}

// Store one vector of pixels: 3 * Lanes(D8) bytes.
HWY_INLINE void store_rgb(V8 r, V8 g, V8 b, std::uint8_t* out) {
#if HWY_TARGET <= HWY_AVX3_DL
  // Three permutes take R|G, then B goes into its places: byte j of the output is channel j % 3 of pixel j / 3.
  alignas(64) static constexpr struct Order {
    std::uint8_t rg[3][32];
    std::uint8_t b[3][32];
    std::uint32_t is_b[3];
    constexpr Order() : rg(), b(), is_b() {
      for (int j = 0; j < 96; ++j) {
        rg[j / 32][j % 32] = static_cast<std::uint8_t>(j / 3 + (j % 3 == 1 ? 32 : 0));
        b[j / 32][j % 32] = static_cast<std::uint8_t>(j / 3);
        if (j % 3 == 2) is_b[j / 32] |= 1u << (j % 32);
      }
    }
  } kOrder;
  const D8 d;
  for (int i = 0; i < 3; ++i) {
    const __m256i rg = _mm256_permutex2var_epi8(r.raw, hn::Load(d, kOrder.rg[i]).raw, g.raw);
    const __m256i rgb = _mm256_mask_permutexvar_epi8(rg, kOrder.is_b[i], hn::Load(d, kOrder.b[i]).raw, b.raw);
    hn::StoreU(V8{rgb}, d, out + 32 * i);
  }
#else
  hn::StoreInterleaved3(r, g, b, D8(), out);
#endif
}

HWY_INLINE void rgb_vector(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr,
                           std::uint8_t* out) {
  constexpr int kHalf = kByteLanes / 2;
  const Rgb16 low = to_rgb(widen(y), widen(cb), widen(cr));
  const Rgb16 high = to_rgb(widen(y + kHalf), widen(cb + kHalf), widen(cr + kHalf));
  store_rgb(pack16_ordered(low.r, high.r), pack16_ordered(low.g, high.g), pack16_ordered(low.b, high.b), out);
}

HWY_INLINE void gray_vector(const std::uint8_t* y, std::uint8_t* out) {
  const V8 v = hn::LoadU(D8(), y);
  store_rgb(v, v, v, out);
}

// Call f(x, out) for vectors of pixels that together cover n. The last one overlaps, or goes through a buffer.
template <typename F>
HWY_INLINE void cover_line(std::uint8_t* out, int n, const F& f) {
  constexpr int kLanes = kByteLanes;
  int x = 0;
  for (; x + kLanes <= n; x += kLanes) f(x, out + 3 * x);
  if (x == n) return;
  if (n >= kLanes) {
    f(n - kLanes, out + 3 * (n - kLanes));
    return;
  }
  alignas(64) std::uint8_t buffer[3 * kLanes];
  f(0, buffer);
  std::memcpy(out, buffer, static_cast<std::size_t>(3 * n));
}

inline void rgb_line(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, std::uint8_t* out,
                     int n) {
  cover_line(out, n, [&](int x, std::uint8_t* at) HWY_ATTR { rgb_vector(y + x, cb + x, cr + x, at); });
}

inline void gray_to_rgb_line(const std::uint8_t* y, std::uint8_t* out, int n) {
  cover_line(out, n, [&](int x, std::uint8_t* at) HWY_ATTR { gray_vector(y + x, at); });
}

// Widen samples to 16 bits, or compute 3 * near + far. Writes whole vectors.
inline void widen_line(const std::uint8_t* near, const std::uint8_t* far, int n, std::int16_t* sums) {
  const D16 d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int i = 0; i < n; i += lanes) {
    V16 sum = widen(near + i);
    if (far != nullptr) sum = hn::Add(hn::Add(hn::Add(sum, sum), sum), widen(far + i));
    hn::StoreU(sum, d, sums + i);
  }
}

// Make twice as many samples from n sums and one on either side. Writes whole vectors.
template <bool kTwoLines>
inline void double_line(const std::int16_t* sums, int n, std::uint8_t* out) {
  const D16 d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  constexpr int kShift = kTwoLines ? 4 : 2;
  const V16 round_even = hn::Set(d, kTwoLines ? 8 : 1);
  const V16 round_odd = hn::Set(d, kTwoLines ? 7 : 2);
  for (int i = 0; i < n; i += lanes) {
    const V16 sum = hn::LoadU(d, sums + i);
    const V16 three = hn::Add(hn::Add(sum, sum), sum);
    const V16 even = hn::ShiftRight<kShift>(hn::Add(hn::Add(three, hn::LoadU(d, sums + i - 1)), round_even));
    const V16 odd = hn::ShiftRight<kShift>(hn::Add(hn::Add(three, hn::LoadU(d, sums + i + 1)), round_odd));
    const V16 both = hn::Or(even, hn::ShiftLeft<8>(odd));
    hn::StoreU(hn::BitCast(D8(), both), D8(), out + 2 * i);
  }
}

#endif  // CARYA_JPEG_PLAIN

}  // namespace carya::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
