// Spectra for one SIMD target, one frame in each lane. spectrum_simd.cc includes this file once for each (Highway's
// foreach_target). No operation joins lanes and none is fused, so all targets give the same bits.

#if defined(CARYA_TRANSFORMS_AUDIO_SPECTRUM_SIMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_TRANSFORMS_AUDIO_SPECTRUM_SIMD_INL
#undef CARYA_TRANSFORMS_AUDIO_SPECTRUM_SIMD_INL
#else
#define CARYA_TRANSFORMS_AUDIO_SPECTRUM_SIMD_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace carya::transforms {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using SpectrumTag = hn::ScalableTag<float>;
using Lanes = hn::Vec<SpectrumTag>;
constexpr std::size_t kLanes = hn::MaxLanes(SpectrumTag());
static_assert(kLanes <= kSpectrumLanesMax);

HWY_INLINE Lanes LoadLanes(const float* at) {
  return hn::Load(SpectrumTag(), at);
}
HWY_INLINE void StoreLanes(Lanes v, float* at) {
  hn::Store(v, SpectrumTag(), at);
}
HWY_INLINE Lanes Same(float x) {
  return hn::Set(SpectrumTag(), x);
}

#if HWY_TARGET == HWY_SCALAR

HWY_INLINE void LoadFour(const float* from, std::size_t, float* to) {
  for (std::size_t i = 0; i < 4; ++i) to[i] = from[i];
}
HWY_INLINE void StoreFour(const float* from, float* to, std::size_t, std::size_t) {
  for (std::size_t i = 0; i < 4; ++i) to[i] = from[i];
}

#else

using Quad = hn::Full128<float>;

// The first of every four consecutive frames, four samples of each: block b is frame 4 b.
template <class Tag>
HWY_INLINE hn::Vec<Tag> Blocks(Tag tag, const float* from, std::size_t step) {
  if constexpr (hn::MaxLanes(Tag()) == 4) {
    return hn::LoadU(tag, from);
  } else {
    const hn::Half<Tag> half;
    return hn::Combine(tag, Blocks(half, from + hn::MaxLanes(half) * step, step), Blocks(half, from, step));
  }
}

HWY_INLINE void Transpose(Lanes& a, Lanes& b, Lanes& c, Lanes& d) {
  const SpectrumTag tag;
  const hn::RepartitionToWide<SpectrumTag> wide;
  const auto ac_low = hn::BitCast(wide, hn::InterleaveLower(tag, a, b));
  const auto ac_high = hn::BitCast(wide, hn::InterleaveUpper(tag, a, b));
  const auto bd_low = hn::BitCast(wide, hn::InterleaveLower(tag, c, d));
  const auto bd_high = hn::BitCast(wide, hn::InterleaveUpper(tag, c, d));
  a = hn::BitCast(tag, hn::InterleaveLower(wide, ac_low, bd_low));
  b = hn::BitCast(tag, hn::InterleaveUpper(wide, ac_low, bd_low));
  c = hn::BitCast(tag, hn::InterleaveLower(wide, ac_high, bd_high));
  d = hn::BitCast(tag, hn::InterleaveUpper(wide, ac_high, bd_high));
}

// Four samples of every frame; to[i * kLanes] gets sample i of all.
HWY_INLINE void LoadFour(const float* from, std::size_t step, float* to) {
  const SpectrumTag tag;
  Lanes a = Blocks(tag, from, step), b = Blocks(tag, from + step, step);
  Lanes c = Blocks(tag, from + 2 * step, step), d = Blocks(tag, from + 3 * step, step);
  Transpose(a, b, c, d);
  StoreLanes(a, to);
  StoreLanes(b, to + kLanes);
  StoreLanes(c, to + 2 * kLanes);
  StoreLanes(d, to + 3 * kLanes);
}

// Four values of the first `count` frames, to rows of values.
HWY_INLINE void StoreFour(const float* from, float* to, std::size_t step, std::size_t count) {
  Lanes v[4] = {LoadLanes(from), LoadLanes(from + kLanes), LoadLanes(from + 2 * kLanes),
                LoadLanes(from + 3 * kLanes)};
  Transpose(v[0], v[1], v[2], v[3]);
  alignas(64) float rows[4][kLanes];
  for (std::size_t f = 0; f < 4; ++f) StoreLanes(v[f], rows[f]);
  const Quad q;
  for (std::size_t f = 0; f < count; ++f) hn::StoreU(hn::Load(q, rows[f % 4] + f / 4 * 4), q, to + f * step);
}

#endif

struct Complex {
  Lanes r;
  Lanes i;
};
HWY_INLINE Complex operator+(Complex a, Complex b) {
  return {hn::Add(a.r, b.r), hn::Add(a.i, b.i)};
}
HWY_INLINE Complex operator-(Complex a, Complex b) {
  return {hn::Sub(a.r, b.r), hn::Sub(a.i, b.i)};
}
HWY_INLINE Complex Scaled(Complex a, Lanes s) {
  return {hn::Mul(a.r, s), hn::Mul(a.i, s)};
}
// a - i b
HWY_INLINE Complex MinusTurned(Complex a, Complex b) {
  return {hn::Add(a.r, b.i), hn::Sub(a.i, b.r)};
}
// a + i b
HWY_INLINE Complex PlusTurned(Complex a, Complex b) {
  return {hn::Sub(a.r, b.i), hn::Add(a.i, b.r)};
}
HWY_INLINE Complex Turned(Complex a, const float* turn) {
  const Lanes r = Same(turn[0]), i = Same(turn[1]);
  return {hn::Sub(hn::Mul(a.r, r), hn::Mul(a.i, i)), hn::Add(hn::Mul(a.r, i), hn::Mul(a.i, r))};
}
HWY_INLINE Complex LoadComplex(const float* at) {
  return {LoadLanes(at), LoadLanes(at + kLanes)};
}
HWY_INLINE void StoreComplex(Complex a, float* at) {
  StoreLanes(a.r, at);
  StoreLanes(a.i, at + kLanes);
}

template <std::size_t kRadix>
HWY_INLINE void Butterfly(Complex (&x)[kRadix]) {
  if constexpr (kRadix == 2) {
    const Complex sum = x[0] + x[1];
    x[1] = x[0] - x[1];
    x[0] = sum;
  } else if constexpr (kRadix == 3) {
    const Complex sum = x[1] + x[2];
    const Complex turn = Scaled(x[1] - x[2], Same(0.866025403784438647F));
    const Complex middle = x[0] - Scaled(sum, Same(0.5F));
    x[0] = x[0] + sum;
    x[1] = MinusTurned(middle, turn);
    x[2] = PlusTurned(middle, turn);
  } else if constexpr (kRadix == 4) {
    const Complex even = x[0] + x[2], even_turn = x[0] - x[2], odd = x[1] + x[3], odd_turn = x[1] - x[3];
    x[0] = even + odd;
    x[1] = MinusTurned(even_turn, odd_turn);
    x[2] = even - odd;
    x[3] = PlusTurned(even_turn, odd_turn);
  } else {
    const Lanes cos1 = Same(0.309016994374947424F), cos2 = Same(-0.809016994374947424F);
    const Lanes sin1 = Same(0.951056516295153572F), sin2 = Same(0.587785252292473129F);
    const Complex sum1 = x[1] + x[4], sum2 = x[2] + x[3], turn1 = x[1] - x[4], turn2 = x[2] - x[3];
    const Complex middle1 = x[0] + Scaled(sum1, cos1) + Scaled(sum2, cos2);
    const Complex middle2 = x[0] + Scaled(sum1, cos2) + Scaled(sum2, cos1);
    const Complex side1 = Scaled(turn1, sin1) + Scaled(turn2, sin2);
    const Complex side2 = Scaled(turn1, sin2) - Scaled(turn2, sin1);
    x[0] = x[0] + sum1 + sum2;
    x[1] = MinusTurned(middle1, side1);
    x[2] = MinusTurned(middle2, side2);
    x[3] = PlusTurned(middle2, side2);
    x[4] = PlusTurned(middle1, side1);
  }
}

template <std::size_t kRadix>
HWY_INLINE void RunPass(const SpectrumPlan::Pass& pass, std::size_t points, float* z) {
  const std::size_t part = pass.length / kRadix;
  for (std::size_t j = 0; j < part; ++j) {
    const float* const turns = pass.twiddles.data() + j * 2 * (kRadix - 1);
    for (std::size_t at = j; at < points; at += pass.length) {
      Complex x[kRadix];
      for (std::size_t k = 0; k < kRadix; ++k) x[k] = LoadComplex(z + (at + k * part) * 2 * kLanes);
      Butterfly(x);
      StoreComplex(x[0], z + at * 2 * kLanes);
      for (std::size_t k = 1; k < kRadix; ++k)
        StoreComplex(j == 0 ? x[k] : Turned(x[k], turns + 2 * (k - 1)), z + (at + k * part) * 2 * kLanes);
    }
  }
}

// ln(x) for normal x > 0: the mantissa m in [sqrt(1/2), sqrt(2)), and twice the series of artanh((m - 1) / (m + 1)).
HWY_INLINE Lanes Ln(Lanes x) {
  const SpectrumTag tag;
  const hn::RebindToSigned<SpectrumTag> ints;
  const auto bits = hn::BitCast(ints, x);
  const auto from_half = hn::Sub(bits, hn::Set(ints, 0x3f3504f3));
  const Lanes e = hn::ConvertTo(tag, hn::ShiftRight<23>(from_half));
  const Lanes m =
      hn::BitCast(tag, hn::Add(hn::And(from_half, hn::Set(ints, 0x007fffff)), hn::Set(ints, 0x3f3504f3)));
  const Lanes one = Same(1.0F);
  const Lanes s = hn::Div(hn::Sub(m, one), hn::Add(m, one));
  const Lanes q = hn::Mul(s, s);
  Lanes p = Same(2.0F / 9.0F);
  for (const float c : {2.0F / 7.0F, 2.0F / 5.0F, 2.0F / 3.0F}) p = hn::Add(hn::Mul(p, q), Same(c));
  p = hn::Add(hn::Mul(hn::Mul(p, q), s), hn::Add(s, s));
  return hn::Add(hn::Mul(e, Same(0.693147180559945309F)), p);
}

// The frame's samples, window and all, as n_fft / 2 complex numbers.
HWY_INLINE void LoadFrames(const SpectrumPlan& plan, const float* samples, float* in, float* z) {
  const SpectrumOptions& options = plan.options();
  const std::size_t length = options.window_length;
  const float* const window = options.window.data();
  for (std::size_t i = 0; i < length; i += 4)
    LoadFour(samples + options.window_at + i, options.hop, in + i * kLanes);
  if (options.subtract_mean || options.preemphasis != 0.0F) {
    Lanes mean = Same(0.0F);
    if (options.subtract_mean) {
      Lanes sums[4] = {mean, mean, mean, mean};
      for (std::size_t i = 0; i + 4 <= length; i += 4)
        for (std::size_t k = 0; k < 4; ++k) sums[k] = hn::Add(sums[k], LoadLanes(in + (i + k) * kLanes));
      for (std::size_t i = length / 4 * 4; i < length; ++i)
        sums[0] = hn::Add(sums[0], LoadLanes(in + i * kLanes));
      mean = hn::Mul(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])),
                     Same(1.0F / static_cast<float>(length)));
    }
    const Lanes factor = Same(options.preemphasis);
    Lanes before = hn::Sub(LoadLanes(in), mean);
    for (std::size_t i = 0; i < length; ++i) {
      const Lanes now = hn::Sub(LoadLanes(in + i * kLanes), mean);
      const Lanes value = hn::Sub(now, hn::Mul(factor, before));
      StoreLanes(hn::Mul(value, Same(window[i])), z + (options.window_at + i) * kLanes);
      before = now;
    }
  } else {
    for (std::size_t i = 0; i < length; ++i)
      StoreLanes(hn::Mul(LoadLanes(in + i * kLanes), Same(window[i])), z + (options.window_at + i) * kLanes);
  }
  const Lanes zero = Same(0.0F);
  for (std::size_t i = 0; i < options.window_at; ++i) StoreLanes(zero, z + i * kLanes);
  for (std::size_t i = options.window_at + length; i < options.n_fft; ++i) StoreLanes(zero, z + i * kLanes);
}

// The powers of the real signal's bins, from the transform of its even and odd samples as one complex signal.
HWY_INLINE void Powers(const SpectrumPlan& plan, const float* z, float* power) {
  const std::size_t half = plan.options().n_fft / 2;
  const std::uint16_t* const places = plan.places().data();
  const Lanes h = Same(0.5F);
  for (std::size_t k = 0; k <= half / 2; ++k) {
    const Complex a = LoadComplex(z + places[k] * 2 * kLanes);
    const Complex b = LoadComplex(z + places[k == 0 ? 0 : half - k] * 2 * kLanes);
    const Complex even = {hn::Mul(h, hn::Add(a.r, b.r)), hn::Mul(h, hn::Sub(a.i, b.i))};
    const Complex odd = {hn::Mul(h, hn::Add(a.i, b.i)), hn::Mul(h, hn::Sub(b.r, a.r))};
    const Complex turned = Turned(odd, plan.turns().data() + 2 * k);
    const Complex low = even + turned, high = even - turned;
    StoreLanes(hn::Add(hn::Mul(low.r, low.r), hn::Mul(low.i, low.i)), power + k * kLanes);
    StoreLanes(hn::Add(hn::Mul(high.r, high.r), hn::Mul(high.i, high.i)), power + (half - k) * kLanes);
  }
}

HWY_INLINE Lanes Finished(const SpectrumOptions& options, Lanes value) {
  if (options.logarithm == Logarithm::kNone) return value;
  const Lanes floor = Same(options.floor);
  return Ln(options.logarithm == Logarithm::kFloor ? hn::Max(value, floor) : hn::Add(value, floor));
}

HWY_INLINE void Filtered(const SpectrumPlan& plan, float* power, float* values) {
  const SpectrumOptions& options = plan.options();
  if (options.magnitude)
    for (std::size_t k = 0; k < plan.bins(); ++k)
      StoreLanes(hn::Sqrt(LoadLanes(power + k * kLanes)), power + k * kLanes);
  if (!options.bank) {
    for (std::size_t k = 0; k < plan.bins(); ++k)
      StoreLanes(Finished(options, LoadLanes(power + k * kLanes)), values + k * kLanes);
    return;
  }
  const MelBank& bank = *options.bank;
  for (std::size_t f = 0; f < bank.size(); ++f) {
    const float* const weights = bank.weights.data() + bank.offset[f];
    const float* const from = power + bank.first[f] * kLanes;
    Lanes sum = Same(0.0F);
    for (std::size_t i = 0; i < bank.count[f]; ++i)
      sum = hn::Add(sum, hn::Mul(Same(weights[i]), LoadLanes(from + i * kLanes)));
    StoreLanes(Finished(options, sum), values + f * kLanes);
  }
}

void SpectrumFrames(const SpectrumPlan& plan, const float* samples, std::size_t frames, float* work,
                    float* out, std::size_t frame_step, std::size_t value_step) {
  const SpectrumOptions& options = plan.options();
  const std::size_t width = plan.width();
  float* const z = work;
  float* const in = z + options.n_fft * kLanes;
  float* const power = in;  // the samples are not needed any more
  float* const values = in + (options.n_fft + 4) * kLanes;
  for (std::size_t first = 0; first < frames; first += kLanes) {
    const std::size_t count = frames - first < kLanes ? frames - first : kLanes;
    LoadFrames(plan, samples + first * options.hop, in, z);
    for (const SpectrumPlan::Pass& pass : plan.passes()) {
      const std::size_t points = options.n_fft / 2;
      if (pass.radix == 4) RunPass<4>(pass, points, z);
      if (pass.radix == 2) RunPass<2>(pass, points, z);
      if (pass.radix == 3) RunPass<3>(pass, points, z);
      if (pass.radix == 5) RunPass<5>(pass, points, z);
    }
    Powers(plan, z, power);
    Filtered(plan, power, values);
    float* const to = out + first * frame_step;
    if (frame_step == 1) {
      for (std::size_t w = 0; w < width; ++w)
        for (std::size_t f = 0; f < count; ++f) to[w * value_step + f] = values[w * kLanes + f];
      continue;
    }
    std::size_t w = 0;
    for (; w + 4 <= width; w += 4) StoreFour(values + w * kLanes, to + w, frame_step, count);
    for (; w < width; ++w)
      for (std::size_t f = 0; f < count; ++f) to[f * frame_step + w] = values[w * kLanes + f];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace carya::transforms
HWY_AFTER_NAMESPACE();

#endif  // include guard
