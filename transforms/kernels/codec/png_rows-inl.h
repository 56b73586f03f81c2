// Undoing PNG's filters for one SIMD target. png_rows.cc includes this file once for each (Highway's foreach_target).

#if defined(CARYA_TRANSFORMS_KERNELS_CODEC_PNG_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_TRANSFORMS_KERNELS_CODEC_PNG_ROWS_INL
#undef CARYA_TRANSFORMS_KERNELS_CODEC_PNG_ROWS_INL
#else
#define CARYA_TRANSFORMS_KERNELS_CODEC_PNG_ROWS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace carya::transforms {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Source: PNG specification, 9.2. `a` is the sample to the left, `b` above, `c` above to the left; `x` is stored.
struct Left {
  static int from(int a, int /*b*/, int /*c*/) { return a; }
#if CARYA_SIMD_VECTORS
  template <typename D, typename V>
  static V from(D, V a, V, V) {
    return a;
  }
#endif
};

struct Average {
  static int from(int a, int b, int /*c*/) { return (a + b) >> 1; }
#if CARYA_SIMD_VECTORS
  template <typename D, typename V>
  static V from(D, V a, V b, V) {
    return hn::ShiftRight<1>(hn::Add(a, b));
  }
#endif
};

// The nearest of a, b and c to a + b - c, the first of those that are as near. With `to` = 3 c - a - b: the larger of
// a and b if the smaller is at least `to`, the smaller if the larger is at most `to`, else c. (The distances of a and
// b are each other's: |b - c| and |a - c|.)
struct Paeth {
  static int from(int a, int b, int c) {
    const int to = 3 * c - a - b;
    const int low = a < b ? a : b;
    const int high = a < b ? b : a;
    const int other = high <= to ? low : c;
    return low >= to ? high : other;
  }
#if CARYA_SIMD_VECTORS
  template <typename D, typename V>
  static V from(D, V a, V b, V c) {
    const V to = hn::Sub(hn::Sub(hn::Add(c, hn::Add(c, c)), b), a);
    const V low = hn::Min(a, b);
    const V high = hn::Max(a, b);
    return hn::IfThenElse(hn::Gt(to, low), hn::IfThenElse(hn::Gt(high, to), c, low), high);
  }
#endif
};

template <int kPixel, typename Filter>
HWY_INLINE void UndoPlain(const std::uint8_t* in, const std::uint8_t* above, std::size_t from,
                          std::size_t bytes, std::uint8_t* row) {
  int left[kPixel] = {};
  int corner[kPixel] = {};
  for (int k = 0; from > 0 && k < kPixel; ++k) {
    left[k] = row[from - kPixel + static_cast<std::size_t>(k)];
    corner[k] = above[from - kPixel + static_cast<std::size_t>(k)];
  }
  for (std::size_t i = from; i < bytes; i += kPixel) {
    for (std::size_t k = 0; k < kPixel; ++k) {
      const int b = above[i + k];
      left[k] = static_cast<std::uint8_t>(in[i + k] + Filter::from(left[k], b, corner[k]));
      row[i + k] = static_cast<std::uint8_t>(left[k]);
      corner[k] = b;
    }
  }
}

#if CARYA_SIMD_VECTORS

// Pixels of 3 or 4 bytes: all samples of one at the same time. Reads and writes 4 bytes, so that the last pixel of 3
// is left. Returns the bytes that are done.
template <int kPixel, typename Filter>
HWY_INLINE std::size_t UndoVectors(const std::uint8_t* in, const std::uint8_t* above, std::size_t bytes,
                                   std::uint8_t* row) {
  const hn::CappedTag<std::uint8_t, 4> d8;
  const hn::CappedTag<std::int16_t, 4> d16;
  const auto bytes_only = hn::Set(d16, 0xFF);
  auto a = hn::Zero(d16);
  auto c = a;
  std::size_t i = 0;
  for (; i + 4 <= bytes; i += kPixel) {
    const auto b = hn::PromoteTo(d16, hn::LoadU(d8, above + i));
    const auto x = hn::PromoteTo(d16, hn::LoadU(d8, in + i));
    a = hn::And(hn::Add(x, Filter::from(d16, a, b, c)), bytes_only);
    c = b;
    hn::StoreU(hn::DemoteTo(d8, a), d8, row + i);
  }
  return i;
}

#endif

template <int kPixel, typename Filter>
void Undo(const std::uint8_t* in, const std::uint8_t* above, std::size_t bytes, std::uint8_t* row) {
  std::size_t done = 0;
#if CARYA_SIMD_VECTORS
  if constexpr (kPixel == 3 || kPixel == 4) done = UndoVectors<kPixel, Filter>(in, above, bytes, row);
#endif
  UndoPlain<kPixel, Filter>(in, above, done, bytes, row);
}

template <int kPixel>
void UndoAny(int filter, const std::uint8_t* in, const std::uint8_t* above, std::size_t bytes,
             std::uint8_t* row) {
  if (filter == 1) return Undo<kPixel, Left>(in, above, bytes, row);
  if (filter == 3) return Undo<kPixel, Average>(in, above, bytes, row);
  Undo<kPixel, Paeth>(in, above, bytes, row);
}

void UndoFilter(int filter, std::size_t pixel_bytes, const std::uint8_t* in, const std::uint8_t* above,
                std::size_t bytes, std::uint8_t* row) {
  if (filter == 2) {
    for (std::size_t i = 0; i < bytes; ++i) row[i] = static_cast<std::uint8_t>(in[i] + above[i]);
    return;
  }
  switch (pixel_bytes) {
    case 1:
      return UndoAny<1>(filter, in, above, bytes, row);
    case 2:
      return UndoAny<2>(filter, in, above, bytes, row);
    case 3:
      return UndoAny<3>(filter, in, above, bytes, row);
    case 4:
      return UndoAny<4>(filter, in, above, bytes, row);
    case 6:
      return UndoAny<6>(filter, in, above, bytes, row);
    default:
      return UndoAny<8>(filter, in, above, bytes, row);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace carya::transforms
HWY_AFTER_NAMESPACE();

#endif  // include guard
