// The inverse DCT of libjpeg-turbo's "islow" method for several blocks at a time, one block in each 128 bits of a
// vector.
//
// The arithmetic is the published 13-bit fixed-point factorisation: two passes, rounding shifts of 11 and 18,
// saturation to 16 bits between them and to 8 bits after. libjpeg-turbo's own code wraps some sums at 16 bits. So that
// no such sum can differ, values near that range raise `doubt`, and libjpeg-turbo decodes the file (README, Widths).
// Source: Loeffler, Ligtenberg, Moschytz 1989; ITU-T T.81.
#if defined(CARYA_JPEG_IDCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_JPEG_IDCT_INL_H_
#undef CARYA_JPEG_IDCT_INL_H_
#else
#define CARYA_JPEG_IDCT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "transforms/jpeg/scan/lanes-inl.h"
#include "transforms/jpeg/work.h"

HWY_BEFORE_NAMESPACE();
namespace carya::jpeg::HWY_NAMESPACE {

// Pairs of factors, in units of 2^-13, for (row a, row b) of sums that libjpeg's factorisation reduces to.
struct Factors {
  int c04[2][2] = {{8192, 8192}, {8192, -8192}};
  int c26[2][2] = {{4433, -10704}, {10703, 4433}};
  int c13[4][2] = {{2260, -6436}, {6437, -11362}, {9633, -2259}, {11363, 9633}};
  int c57[4][2] = {{9633, -11363}, {2261, 9633}, {-11362, -6436}, {6437, 2260}};
};
inline constexpr Factors kFactors;

#if !CARYA_JPEG_PLAIN

HWY_INLINE V16 factor_pair(const int (&pair)[2]) {
  const std::uint32_t both = static_cast<std::uint16_t>(pair[0]) | static_cast<std::uint32_t>(pair[1]) << 16;
  return hn::BitCast(D16(), hn::Set(D32(), static_cast<std::int32_t>(both)));
}

inline constexpr int kShiftRows = 11;
inline constexpr int kShiftColumns = 18;
// The term that rounds the second shift and moves samples to 0..255, in units of the DC term to which it is added.
inline constexpr int kColumnsBias = (1 << (kShiftColumns - 1) >> 13) + (128 << (kShiftColumns - 13));

// One pass over half of the columns. Sparse: rows 4 to 7 are zero. The second pass expects its rounding term in row 0.
template <bool kSparse, int kShift>
HWY_INLINE void half_pass(V16 p04, V16 p26, V16 p13, V16 p57, V32* out) {
  const V32 round = hn::Set(D32(), 1 << (kShift - 1));
  constexpr bool kRound = kShift == kShiftRows;
  V32 e0 = mul_pairs(p04, factor_pair(kFactors.c04[0]));
  if (kRound) e0 = hn::Add(e0, round);
  V32 e1 = e0;
  if (!kSparse) e1 = mul_pairs(p04, factor_pair(kFactors.c04[1]));
  if (!kSparse && kRound) e1 = hn::Add(e1, round);
  const V32 e2 = mul_pairs(p26, factor_pair(kFactors.c26[0]));
  const V32 e3 = mul_pairs(p26, factor_pair(kFactors.c26[1]));
  V32 odd[4];
  for (int i = 0; i < 4; ++i) {
    odd[i] = mul_pairs(p13, factor_pair(kFactors.c13[i]));
    if (!kSparse) odd[i] = hn::Add(odd[i], mul_pairs(p57, factor_pair(kFactors.c57[i])));
  }
  const V32 even[4] = {hn::Add(e0, e3), hn::Add(e1, e2), hn::Sub(e1, e2), hn::Sub(e0, e3)};
  for (int i = 0; i < 4; ++i) {
    out[i] = hn::ShiftRight<kShift>(hn::Add(even[i], odd[3 - i]));
    out[7 - i] = hn::ShiftRight<kShift>(hn::Sub(even[i], odd[3 - i]));
  }
}

template <bool kSparse, int kShift>
HWY_INLINE void pass(V16* r) {
  const D16 d;
  const V16 zero = hn::Zero(d);
  V32 low[8];
  V32 high[8];
  half_pass<kSparse, kShift>(hn::InterleaveLower(d, r[0], kSparse ? zero : r[4]),
                             hn::InterleaveLower(d, r[2], kSparse ? zero : r[6]),
                             hn::InterleaveLower(d, r[1], r[3]),
                             kSparse ? zero : hn::InterleaveLower(d, r[5], r[7]), low);
  half_pass<kSparse, kShift>(hn::InterleaveUpper(d, r[0], kSparse ? zero : r[4]),
                             hn::InterleaveUpper(d, r[2], kSparse ? zero : r[6]),
                             hn::InterleaveUpper(d, r[1], r[3]),
                             kSparse ? zero : hn::InterleaveUpper(d, r[5], r[7]), high);
  for (int i = 0; i < 8; ++i) r[i] = pack32(low[i], high[i]);
}

// Transpose 8x8 values inside each 128-bit column of the eight vectors.
HWY_INLINE void transpose(V16* r) {
  const D16 d16;
  const D32 d32;
  const hn::CappedTag<std::int64_t, 4> d64;
  V32 a[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = hn::BitCast(d32, hn::InterleaveLower(d16, r[2 * i], r[2 * i + 1]));
    a[2 * i + 1] = hn::BitCast(d32, hn::InterleaveUpper(d16, r[2 * i], r[2 * i + 1]));
  }
  hn::Vec<decltype(d64)> b[8];
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 2; ++i) {
      b[4 * half + 2 * i] = hn::BitCast(d64, hn::InterleaveLower(d32, a[4 * half + i], a[4 * half + 2 + i]));
      b[4 * half + 2 * i + 1] =
          hn::BitCast(d64, hn::InterleaveUpper(d32, a[4 * half + i], a[4 * half + 2 + i]));
    }
  }
  for (int i = 0; i < 4; ++i) {
    r[2 * i] = hn::BitCast(d16, hn::InterleaveLower(d64, b[i], b[4 + i]));
    r[2 * i + 1] = hn::BitCast(d16, hn::InterleaveUpper(d64, b[i], b[4 + i]));
  }
}

// Convert columns of 16-bit samples to rows of bytes: block b of rows[i] holds rows 2i and 2i + 1 of block b.
HWY_INLINE void to_byte_rows(const V16* column, V8* rows) {
  const D8 d8;
  const D16 d16;
  const D32 d32;
  V32 low[2];   // rows 0-3, columns 0-3 and 4-7
  V32 high[2];  // rows 4-7
  for (int i = 0; i < 2; ++i) {
    const V8 even = pack16(column[4 * i], column[4 * i + 2]);
    const V8 odd = pack16(column[4 * i + 1], column[4 * i + 3]);
    const V16 left = hn::BitCast(d16, hn::InterleaveLower(d8, even, odd));
    const V16 right = hn::BitCast(d16, hn::InterleaveUpper(d8, even, odd));
    low[i] = hn::BitCast(d32, hn::InterleaveLower(d16, left, right));
    high[i] = hn::BitCast(d32, hn::InterleaveUpper(d16, left, right));
  }
  rows[0] = hn::BitCast(d8, hn::InterleaveLower(d32, low[0], low[1]));
  rows[1] = hn::BitCast(d8, hn::InterleaveUpper(d32, low[0], low[1]));
  rows[2] = hn::BitCast(d8, hn::InterleaveLower(d32, high[0], high[1]));
  rows[3] = hn::BitCast(d8, hn::InterleaveUpper(d32, high[0], high[1]));
}

// A lane's sign bit is set in the result if a value of r is outside of [-16384, 16383].
HWY_INLINE V16 near_overflow(V16 r) {
  return hn::Xor(r, hn::Add(r, r));
}

// kChecked: products of coefficient and quantiser may exceed 14 bits (coarse tables), so they are checked too.
template <bool kSparse, bool kChecked>
HWY_INLINE V16 dequantise(const std::int16_t* const* source, const std::int16_t* quant, V16* r) {
  const D16 d;
  V16 bad = hn::Zero(d);
  load_rows(source, 0, r);
  if (!kSparse) load_rows(source, 4, r + 4);
  for (int i = 0; i < (kSparse ? 4 : 8); ++i) {
    const V16 q = hn::LoadDup128(d, quant + 8 * i);
    const V16 product = hn::Mul(r[i], q);
    if (kChecked) {
      const V16 wrapped = hn::Xor(hn::MulHigh(r[i], q), hn::ShiftRight<15>(product));
      bad = hn::Or(bad, hn::Or(near_overflow(product), near_overflow(hn::Add(product, product))));
      bad = hn::Or(bad, hn::VecFromMask(d, hn::Ne(wrapped, hn::Zero(d))));
    }
    r[i] = product;
  }
  for (int i = 4; kSparse && i < 8; ++i) r[i] = hn::Zero(d);
  return bad;
}

// Transform kBlocks blocks. Returns a vector whose sign bits are doubts.
template <bool kSparse, bool kChecked>
HWY_NOINLINE V16 idct_blocks(const IdctJob* jobs, const std::int16_t* quant, std::size_t stride, V16 doubt) {
  V16 r[8];
  const std::int16_t* source[kBlocks];
  std::uint8_t* at[kBlocks];
  for (int b = 0; b < kBlocks; ++b) {
    source[b] = jobs[b].source;
    at[b] = jobs[b].out;
  }
  const V16 bad = dequantise<kSparse, kChecked>(source, quant, r);
  if (kChecked) doubt = hn::Or(doubt, bad);
  pass<kSparse, kShiftRows>(r);
  for (int i = 0; i < 8; ++i) doubt = hn::Or(doubt, near_overflow(r[i]));
  transpose(r);
  r[0] = hn::Add(r[0], hn::Set(D16(), kColumnsBias));
  pass<kSparse, kShiftColumns>(r);
  V8 rows[4];
  to_byte_rows(r, rows);
  for (int i = 0; i < 4; ++i) {
    store_halves(rows[i], at, stride);
    for (int b = 0; b < kBlocks; ++b) at[b] += 2 * stride;
  }
  return doubt;
}

// Transform all jobs of a list. The last group is filled up with copies that write to `spare`.
template <bool kSparse, bool kChecked>
HWY_INLINE V16 idct_list(IdctJob* jobs, int count, const std::int16_t* quant, std::size_t stride,
                         std::uint8_t* spare, V16 doubt) {
  if (count == 0) return doubt;
  for (; count % kBlocks != 0; ++count) jobs[count] = {jobs[count - 1].source, spare};
  for (int i = 0; i < count; i += kBlocks)
    doubt = idct_blocks<kSparse, kChecked>(jobs + i, quant, stride, doubt);
  return doubt;
}

inline bool idct_jobs(const Quant& quant, JobList& full, JobList& sparse, std::size_t stride,
                      std::uint8_t* spare) {
  const D16 d;
  V16 doubt = hn::Zero(d);
  const std::int16_t* q = quant.natural.data();
  if (quant.coarse) {
    doubt = idct_list<false, true>(full.jobs.data(), full.count, q, stride, spare, doubt);
    doubt = idct_list<true, true>(sparse.jobs.data(), sparse.count, q, stride, spare, doubt);
  } else {
    doubt = idct_list<false, false>(full.jobs.data(), full.count, q, stride, spare, doubt);
    doubt = idct_list<true, false>(sparse.jobs.data(), sparse.count, q, stride, spare, doubt);
  }
  return hn::AllFalse(d, hn::Lt(doubt, hn::Zero(d)));
}

#else  // CARYA_JPEG_PLAIN

inline int saturate(std::int32_t value, int low, int high) {
  return std::clamp(value, low, high);
}

// Transform one column (stride 8) or row (stride 1) of 8 values.
template <int kShift>
inline void pass_1d(const std::int32_t* in, int step, std::int32_t* out) {
  const auto pair = [&](int a, int b, const int(&f)[2]) { return in[a * step] * f[0] + in[b * step] * f[1]; };
  const std::int32_t round = 1 << (kShift - 1);
  const std::int32_t e0 = pair(0, 4, kFactors.c04[0]) + round;
  const std::int32_t e1 = pair(0, 4, kFactors.c04[1]) + round;
  const std::int32_t e2 = pair(2, 6, kFactors.c26[0]);
  const std::int32_t e3 = pair(2, 6, kFactors.c26[1]);
  const std::int32_t even[4] = {e0 + e3, e1 + e2, e1 - e2, e0 - e3};
  for (int i = 0; i < 4; ++i) {
    const std::int32_t odd = pair(1, 3, kFactors.c13[3 - i]) + pair(5, 7, kFactors.c57[3 - i]);
    out[i * step] = saturate((even[i] + odd) >> kShift, -32768, 32767);
    out[(7 - i) * step] = saturate((even[i] - odd) >> kShift, -32768, 32767);
  }
}

inline bool idct_one(const IdctJob& job, const Quant& quant, std::size_t stride) {
  std::int32_t in[64];
  std::int32_t middle[64];
  std::int32_t out[64];
  bool good = true;
  for (int i = 0; i < 64; ++i) {
    in[i] = job.source[i] * quant.natural[i];
    const std::int32_t limit = quant.coarse ? 8191 : 16383;
    if (in[i] < -limit - 1 || in[i] > limit) return false;
  }
  for (int i = 0; i < 8; ++i) pass_1d<11>(in + i, 8, middle + i);
  for (int i = 0; i < 64; ++i) good &= middle[i] >= -16384 && middle[i] <= 16383;
  if (!good) return false;
  for (int i = 0; i < 8; ++i) pass_1d<18>(middle + 8 * i, 1, out + 8 * i);
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 8; ++x) {
      job.out[static_cast<std::size_t>(y) * stride + static_cast<std::size_t>(x)] =
          static_cast<std::uint8_t>(saturate(out[8 * y + x], -128, 127) + 128);
    }
  }
  return true;
}

inline bool idct_jobs(const Quant& quant, JobList& full, JobList& sparse, std::size_t stride, std::uint8_t*) {
  bool good = true;
  for (int i = 0; i < full.count; ++i) good &= idct_one(full.jobs[i], quant, stride);
  for (int i = 0; i < sparse.count; ++i) good &= idct_one(sparse.jobs[i], quant, stride);
  return good;
}

#endif  // CARYA_JPEG_PLAIN

}  // namespace carya::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
