// The inner loops of unpacking for one SIMD target. inflate.cc includes this file once for each (Highway's
// foreach_target).

#if defined(CARYA_TRANSFORMS_KERNELS_CODEC_INFLATE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_TRANSFORMS_KERNELS_CODEC_INFLATE_INL
#undef CARYA_TRANSFORMS_KERNELS_CODEC_INFLATE_INL
#else
#define CARYA_TRANSFORMS_KERNELS_CODEC_INFLATE_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace carya::transforms {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Copy `length` bytes (3 to 258) from `distance` before `out`. Writes up to 31 bytes more.
HWY_INLINE void CopyMatch(std::uint8_t* out, std::size_t distance, std::size_t length) {
  const std::uint8_t* from = out - distance;
  const std::uint8_t* const end = out + length;
  if (HWY_LIKELY(distance >= 32)) {
    do {
      std::memcpy(out, from, 32);
      out += 32;
      from += 32;
    } while (out < end);
  } else if (distance == 1) {
    std::memset(out, *from, length);
  } else {
    // The first `distance` bytes of each copy are right, and the next one begins behind them.
    const std::size_t step = distance < 16 ? distance : 16;
    do {
      std::uint64_t some[2];  // the two places overlap
      std::memcpy(some, from, 16);
      std::memcpy(out, some, 16);
      out += step;
      from += step;
    } while (out < end);
  }
}

// Decode symbols until `until` is reached, or passed by at most one match and three bytes. Returns 1 at the end of
// the block, 0 at `until`, -1 for what is no such stream.
int RunCodes(InflateState& state, const std::uint8_t* begin, const std::uint8_t* until) {
  using S = InflateState;
  constexpr std::uint64_t kSymbolMask = (1U << S::kSymbolBits) - 1;
  constexpr std::uint64_t kDistanceMask = (1U << S::kDistanceBits) - 1;
  const std::uint32_t* const symbols = state.symbols.data();
  const std::uint32_t* const distances = state.distances.data();
  // With all bytes of `bits` counted off, what was taken ends at most 8 bytes before `next`.
  const std::uint8_t* const input_end = state.end + 8;
  const std::uint8_t* next = state.next;
  std::uint8_t* out = state.out;
  std::uint64_t bits = state.bits;
  std::uint32_t count = state.count;
  int result = 0;
  const auto refill = [&] {
    std::uint64_t more;
    std::memcpy(&more, next, 8);
    bits |= more << count;
    next += (63 - count) >> 3;
    count |= 56;
  };
  const auto drop = [&](std::uint32_t entry) {
    bits >>= entry & 63;
    count -= entry & 63;
  };
  const auto value = [&](std::uint32_t entry) {  // with the extra bits; before drop()
    const std::uint64_t with = bits & ((std::uint64_t{1} << (entry & 63)) - 1);
    return (entry >> 16) + static_cast<std::uint32_t>(with >> ((entry >> 8) & 15));
  };
  while (out < until) {
    if (HWY_UNLIKELY(next > input_end)) {
      result = -1;
      break;
    }
    refill();
    std::uint32_t entry = symbols[bits & kSymbolMask];
    if (entry & S::kLiteral) {  // three of them take at most 33 bits
      drop(entry);
      *out++ = static_cast<std::uint8_t>(entry >> 16);
      entry = symbols[bits & kSymbolMask];
      if (entry & S::kLiteral) {
        drop(entry);
        *out++ = static_cast<std::uint8_t>(entry >> 16);
        entry = symbols[bits & kSymbolMask];
        if (entry & S::kLiteral) {
          drop(entry);
          *out++ = static_cast<std::uint8_t>(entry >> 16);
          continue;
        }
      }
      refill();
    }
    if (HWY_UNLIKELY(entry & S::kSpecial)) {
      if (entry & S::kSecond) {
        entry = symbols[(entry >> 16) + ((bits >> S::kSymbolBits) & ((1U << ((entry >> 8) & 15)) - 1))];
        if (entry & S::kLiteral) {
          drop(entry);
          *out++ = static_cast<std::uint8_t>(entry >> 16);
          continue;
        }
      }
      if (entry & S::kSpecial) {
        result = (entry & S::kEnd) ? 1 : -1;
        drop(entry);
        break;
      }
    }
    const std::uint32_t length = value(entry);  // 20 bits at most, and 28 for its distance
    drop(entry);
    entry = distances[bits & kDistanceMask];
    if (HWY_UNLIKELY(entry & S::kSpecial)) {
      if (entry & S::kSecond)
        entry = distances[(entry >> 16) + ((bits >> S::kDistanceBits) & ((1U << ((entry >> 8) & 15)) - 1))];
      if (entry & S::kSpecial) {
        result = -1;
        break;
      }
    }
    const std::uint32_t distance = value(entry);
    drop(entry);
    if (HWY_UNLIKELY(distance > static_cast<std::size_t>(out - begin))) {
      result = -1;
      break;
    }
    CopyMatch(out, distance, length);
    out += length;
  }
  // Bits above `count` are what the next refill puts there once more.
  state.next = next;
  state.out = out;
  state.bits = bits;
  state.count = count;
  return result;
}

std::uint32_t Adler(std::uint32_t before, const std::uint8_t* bytes, std::size_t count) {
  constexpr std::uint32_t kModulus = 65521;
  constexpr std::size_t kSome = 5536;  // whole steps; the sums of 5552 bytes are below 2^32
  std::uint32_t a = before & 0xFFFF;
  std::uint32_t b = before >> 16;
  while (count > 0) {
    const std::size_t some = count < kSome ? count : kSome;
    std::size_t done = 0;
#if CARYA_SIMD_VECTORS
    // Of a step of n bytes a grows by their sum, and b by n times the a before it and by n x0 + (n-1) x1 + ... + 1
    // x(n-1).
    const hn::CappedTag<std::uint8_t, 32> d8;
    const hn::RepartitionToWide<decltype(d8)> d16;
    const hn::Repartition<std::int16_t, decltype(d8)> d16s;
    const hn::Repartition<std::uint64_t, decltype(d8)> d64;
    const hn::Repartition<std::int32_t, decltype(d8)> d32;
    const hn::Half<decltype(d8)> half;
    constexpr std::size_t kStep = hn::MaxLanes(d8);
    alignas(32) static constexpr std::int16_t kWeights[32] = {32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22,
                                                              21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11,
                                                              10, 9,  8,  7,  6,  5,  4,  3,  2,  1};
    const auto first = hn::LoadU(d16s, kWeights + 32 - kStep);
    const auto second = hn::LoadU(d16s, kWeights + 32 - kStep / 2);
    auto sums = hn::Zero(d64);  // of the bytes
    auto earlier = sums;        // of all values that `sums` had before a step
    auto weighted = hn::Zero(d32);
    auto weighted_more = weighted;
    for (; done + kStep <= some; done += kStep) {
      const auto v = hn::LoadU(d8, bytes + done);
      earlier = hn::Add(earlier, sums);
      sums = hn::Add(sums, hn::SumsOf8(v));
      const auto low = hn::BitCast(d16s, hn::PromoteTo(d16, hn::LowerHalf(half, v)));
      const auto high = hn::BitCast(d16s, hn::PromoteTo(d16, hn::UpperHalf(half, v)));
      weighted = hn::ReorderWidenMulAccumulate(d32, low, first, weighted, weighted_more);
      weighted = hn::ReorderWidenMulAccumulate(d32, high, second, weighted, weighted_more);
    }
    const auto lanes = [](auto d, auto v) {
      return static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(d, v)));
    };
    const auto steps = static_cast<std::uint32_t>(done / kStep);
    b += kStep * (steps * a + lanes(d64, earlier)) + lanes(d32, hn::Add(weighted, weighted_more));
    a += lanes(d64, sums);
#endif
    for (; done < some; ++done) {
      a += bytes[done];
      b += a;
    }
    a %= kModulus;
    b %= kModulus;
    bytes += some;
    count -= some;
  }
  return b << 16 | a;
}

}  // namespace HWY_NAMESPACE
}  // namespace carya::transforms
HWY_AFTER_NAMESPACE();

#endif  // include guard
