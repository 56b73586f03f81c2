// The inner loops of the colors for one SIMD target. color_simd.cc includes this file once for each (Highway's
// foreach_target).

#if defined(CARYA_TRANSFORMS_KERNELS_COLOR_SIMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_TRANSFORMS_KERNELS_COLOR_SIMD_INL
#undef CARYA_TRANSFORMS_KERNELS_COLOR_SIMD_INL
#else
#define CARYA_TRANSFORMS_KERNELS_COLOR_SIMD_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace carya::transforms {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline void GrayPlain(const std::uint8_t* in, std::int64_t width, std::uint8_t* out) {
  for (std::int64_t x = 0; x < width; ++x) out[x] = luma(in[3 * x], in[3 * x + 1], in[3 * x + 2]);
}

inline void SaturatePlain(const std::uint8_t* in, std::int64_t width, float factor, std::uint8_t* out) {
  for (std::int64_t x = 0; x < width; ++x) saturate_pixel(in + 3 * x, factor, out + 3 * x);
}

inline void HuePlain(const std::uint8_t* in, std::int64_t width, std::int32_t shift, std::uint8_t* out) {
  for (std::int64_t x = 0; x < width; ++x) turn_pixel(in + 3 * x, shift, out + 3 * x);
}

inline void BlendPlain(const std::uint8_t* in, std::int64_t count, int level, float factor,
                       std::uint8_t* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = blend(level, in[i], factor);
}

inline void SharpenPlain(const std::uint8_t* above, const std::uint8_t* row, const std::uint8_t* below,
                         std::int64_t begin, std::int64_t end, int channels, float factor,
                         std::uint8_t* out) {
  for (std::int64_t i = begin; i < end; ++i) out[i] = sharpen_value(above, row, below, i, channels, factor);
}

#if CARYA_SIMD_VECTORS

using Bytes16 = hn::Full128<std::uint8_t>;
using Ints = hn::CappedTag<std::int32_t, 16>;
using Uints = hn::Rebind<std::uint32_t, Ints>;
using Floats = hn::Rebind<float, Ints>;
using Words = hn::CappedTag<std::uint16_t, 16>;
using VInts = hn::Vec<Ints>;
constexpr std::int64_t kStep = 16;  // pixels or values per turn: one 128-bit vector of bytes per channel
constexpr std::int64_t kInts = static_cast<std::int64_t>(hn::MaxLanes(Ints()));
constexpr std::int64_t kWords = static_cast<std::int64_t>(hn::MaxLanes(Words()));

HWY_INLINE VInts Widen(const std::uint8_t* in) {
  return hn::PromoteTo(Ints(), hn::LoadU(hn::Rebind<std::uint8_t, Ints>(), in));
}

HWY_INLINE void Narrow(VInts v, std::uint8_t* out) {
  const hn::Rebind<std::uint8_t, Ints> d8;
  hn::StoreU(hn::DemoteTo(d8, v), d8, out);
}

HWY_INLINE VInts Luma(VInts r, VInts g, VInts b) {
  const Ints d;
  const VInts red_green = hn::Add(hn::Mul(r, hn::Set(d, 19595)), hn::Mul(g, hn::Set(d, 38470)));
  const VInts blue = hn::Add(hn::Mul(b, hn::Set(d, 7471)), hn::Set(d, 32768));
  return hn::ShiftRight<16>(hn::Add(red_green, blue));
}

HWY_INLINE VInts Blend(VInts from, VInts to, hn::Vec<Floats> factor) {
  const Floats df;
  const auto product = hn::Mul(factor, hn::ConvertTo(df, hn::Sub(to, from)));
  const auto value = hn::Add(hn::ConvertTo(df, from), product);
  return hn::ConvertTo(Ints(), hn::Min(hn::Max(value, hn::Zero(df)), hn::Set(df, 255.0F)));
}

// Call change(r, g, b) for all pixels of a row of at least kStep. The last turn overlaps the one before.
template <typename Change>
HWY_INLINE void EachPixel(const std::uint8_t* HWY_RESTRICT in, std::int64_t width,
                          std::uint8_t* HWY_RESTRICT out, Change change) {
  const Bytes16 d;
  for (std::int64_t x = 0; x < width; x += kStep) {
    const std::int64_t to = x + kStep <= width ? x : width - kStep;
    hn::Vec<Bytes16> r, g, b;
    hn::LoadInterleaved3(d, in + 3 * to, r, g, b);
    alignas(16) std::uint8_t lanes[3][kStep];
    hn::Store(r, d, lanes[0]);
    hn::Store(g, d, lanes[1]);
    hn::Store(b, d, lanes[2]);
    for (std::int64_t i = 0; i < kStep; i += kInts) {
      VInts wide_r = Widen(lanes[0] + i);
      VInts wide_g = Widen(lanes[1] + i);
      VInts wide_b = Widen(lanes[2] + i);
      change(wide_r, wide_g, wide_b);
      Narrow(wide_r, lanes[0] + i);
      Narrow(wide_g, lanes[1] + i);
      Narrow(wide_b, lanes[2] + i);
    }
    hn::StoreInterleaved3(hn::Load(d, lanes[0]), hn::Load(d, lanes[1]), hn::Load(d, lanes[2]), d,
                          out + 3 * to);
  }
}

void GrayRow(const std::uint8_t* in, std::int64_t width, std::uint8_t* out) {
  if (width < kStep) return GrayPlain(in, width, out);
  const Bytes16 d;
  for (std::int64_t x = 0; x < width; x += kStep) {
    const std::int64_t to = x + kStep <= width ? x : width - kStep;
    hn::Vec<Bytes16> r, g, b;
    hn::LoadInterleaved3(d, in + 3 * to, r, g, b);
    alignas(16) std::uint8_t lanes[3][kStep];
    hn::Store(r, d, lanes[0]);
    hn::Store(g, d, lanes[1]);
    hn::Store(b, d, lanes[2]);
    for (std::int64_t i = 0; i < kStep; i += kInts)
      Narrow(Luma(Widen(lanes[0] + i), Widen(lanes[1] + i), Widen(lanes[2] + i)), out + to + i);
  }
}

void SaturateRow(const std::uint8_t* in, std::int64_t width, float factor, std::uint8_t* out) {
  if (width < kStep) return SaturatePlain(in, width, factor, out);
  const auto factors = hn::Set(Floats(), factor);
  EachPixel(in, width, out, [=](VInts& r, VInts& g, VInts& b) HWY_ATTR {
    const VInts gray = Luma(r, g, b);
    r = Blend(gray, r, factors);
    g = Blend(gray, g, factors);
    b = Blend(gray, b, factors);
  });
}

// turn_pixel() with every branch as a mask.
HWY_INLINE void Turn(VInts shift, VInts& r, VInts& g, VInts& b) {
  const Ints d;
  const VInts zero = hn::Zero(d);
  const VInts high = hn::Max(r, hn::Max(g, b));
  const VInts low = hn::Min(r, hn::Min(g, b));
  const VInts range = hn::Sub(high, low);
  const VInts twice = hn::Add(range, range);
  const VInts from_green = hn::Add(twice, hn::Sub(b, r));
  const VInts from_blue = hn::Add(hn::Add(twice, twice), hn::Sub(r, g));
  const VInts place =
      hn::IfThenElse(hn::Eq(r, high), hn::Sub(g, b), hn::IfThenElse(hn::Eq(g, high), from_green, from_blue));
  const VInts sextant = hn::ShiftLeft<16>(range);
  const VInts two = hn::Add(sextant, sextant);
  const VInts three = hn::Add(two, sextant);
  const VInts four = hn::Add(two, two);
  const VInts five = hn::Add(three, two);
  const VInts six = hn::Add(three, three);
  // Red's place may be below 0, and the shift takes it further: by up to one sextant and a half turn.
  VInts hue = hn::Add(hn::ShiftLeft<16>(place), hn::Mul(shift, range));
  hue = hn::IfThenElse(hn::Lt(hue, zero), hn::Add(hue, six), hue);
  hue = hn::IfThenElse(hn::Lt(hue, six), hue, hn::Sub(hue, six));
  const auto in0 = hn::Lt(hue, sextant);
  const auto to1 = hn::Lt(hue, two);
  const auto to2 = hn::Lt(hue, three);
  const auto to3 = hn::Lt(hue, four);
  const auto to4 = hn::Lt(hue, five);
  const VInts high16 = hn::ShiftLeft<16>(high);
  const VInts low16 = hn::ShiftLeft<16>(low);
  // The middle value rises in the even sextants and falls in the odd ones.
  VInts middle = hn::Sub(hn::Add(high16, five), hue);
  middle = hn::IfThenElse(to4, hn::Add(low16, hn::Sub(hue, four)), middle);
  middle = hn::IfThenElse(to3, hn::Sub(hn::Add(high16, three), hue), middle);
  middle = hn::IfThenElse(to2, hn::Add(low16, hn::Sub(hue, two)), middle);
  middle = hn::IfThenElse(to1, hn::Sub(hn::Add(high16, sextant), hue), middle);
  middle = hn::IfThenElse(in0, hn::Add(low16, hue), middle);
  const auto part = hn::BitCast(Uints(), middle);
  const auto more = hn::ShiftRight<16>(hn::Add(hn::ShiftLeft<8>(part), part));
  const VInts level = hn::BitCast(d, hn::ShiftRight<16>(hn::Add(part, more)));
  // By sextant, red is high, level, low, low, level, high. Green is level, high, high, level, low, low. Blue is low,
  // low, level, high, high, level.
  const VInts red_after_1 = hn::IfThenElse(to3, low, hn::IfThenElse(to4, level, high));
  r = hn::IfThenElse(in0, high, hn::IfThenElse(to1, level, red_after_1));
  g = hn::IfThenElse(in0, level, hn::IfThenElse(to2, high, hn::IfThenElse(to3, level, low)));
  b = hn::IfThenElse(to1, low, hn::IfThenElse(to2, level, hn::IfThenElse(to4, high, level)));
}

void HueRow(const std::uint8_t* in, std::int64_t width, std::int32_t shift, std::uint8_t* out) {
  if (width < kStep) return HuePlain(in, width, shift, out);
  const VInts shifts = hn::Set(Ints(), shift);
  EachPixel(in, width, out, [=](VInts& r, VInts& g, VInts& b) HWY_ATTR { Turn(shifts, r, g, b); });
}

void BlendRow(const std::uint8_t* in, std::int64_t count, int level, float factor, std::uint8_t* out) {
  if (count < kStep) return BlendPlain(in, count, level, factor, out);
  const VInts levels = hn::Set(Ints(), level);
  const auto factors = hn::Set(Floats(), factor);
  for (std::int64_t x = 0; x < count; x += kStep) {
    const std::int64_t to = x + kStep <= count ? x : count - kStep;
    for (std::int64_t i = to; i < to + kStep; i += kInts)
      Narrow(Blend(levels, Widen(in + i), factors), out + i);
  }
}

void SharpenRow(const std::uint8_t* above, const std::uint8_t* row, const std::uint8_t* below,
                std::int64_t begin, std::int64_t end, int channels, float factor, std::uint8_t* out) {
  if (end - begin < kStep) return SharpenPlain(above, row, below, begin, end, channels, factor, out);
  const Words d;
  const hn::Rebind<std::uint8_t, Words> d8;
  const auto factors = hn::Set(Floats(), factor);
  const auto load = [&](const std::uint8_t* from) HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(d8, from)); };
  const auto three = [&](const std::uint8_t* at) HWY_ATTR {
    return hn::Add(hn::Add(load(at - channels), load(at)), load(at + channels));
  };
  for (std::int64_t i = begin; i < end; i += kWords) {
    const std::int64_t to = i + kWords <= end ? i : end - kWords;
    const auto middle = load(row + to);
    auto sum = hn::Add(hn::Add(three(above + to), three(row + to)), three(below + to));
    sum = hn::Add(sum, hn::ShiftLeft<2>(middle));
    // This is (2 sum + 13) / 26 for sums up to 13 x 255: the product is too large by less than 1 / 26.
    const auto numerator = hn::Add(hn::Add(sum, sum), hn::Set(d, std::uint16_t{13}));
    const auto smooth = hn::ShiftRight<2>(hn::MulHigh(numerator, hn::Set(d, std::uint16_t{10083})));
    alignas(64) std::uint16_t lanes[kWords];
    hn::Store(smooth, d, lanes);
    for (std::int64_t k = 0; k < kWords; k += kInts) {
      const hn::Rebind<std::uint16_t, Ints> d16;
      const VInts from = hn::PromoteTo(Ints(), hn::LoadU(d16, lanes + k));
      Narrow(Blend(from, Widen(row + to + k), factors), out + to + k);
    }
  }
}

#else  // the fallback targets

void GrayRow(const std::uint8_t* in, std::int64_t width, std::uint8_t* out) {
  GrayPlain(in, width, out);
}
void SaturateRow(const std::uint8_t* in, std::int64_t width, float factor, std::uint8_t* out) {
  SaturatePlain(in, width, factor, out);
}
void HueRow(const std::uint8_t* in, std::int64_t width, std::int32_t shift, std::uint8_t* out) {
  HuePlain(in, width, shift, out);
}
void BlendRow(const std::uint8_t* in, std::int64_t count, int level, float factor, std::uint8_t* out) {
  BlendPlain(in, count, level, factor, out);
}
void SharpenRow(const std::uint8_t* above, const std::uint8_t* row, const std::uint8_t* below,
                std::int64_t begin, std::int64_t end, int channels, float factor, std::uint8_t* out) {
  SharpenPlain(above, row, below, begin, end, channels, factor, out);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace carya::transforms
HWY_AFTER_NAMESPACE();

#endif  // include guard
