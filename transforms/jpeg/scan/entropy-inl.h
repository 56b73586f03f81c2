// Decodes one block of entropy-coded coefficients: the DC difference, and the AC coefficients with or without values.
#if defined(CARYA_JPEG_ENTROPY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_JPEG_ENTROPY_INL_H_
#undef CARYA_JPEG_ENTROPY_INL_H_
#else
#define CARYA_JPEG_ENTROPY_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "transforms/jpeg/scan/bits-inl.h"
#include "transforms/jpeg/work.h"

HWY_BEFORE_NAMESPACE();
namespace carya::jpeg::HWY_NAMESPACE {

// The doubts of a decode. They are collected without branches and checked now and then.
struct Doubt {
  std::uint32_t damage = 0;  // not 0: an invalid code, or a coefficient past its block
  std::uint32_t range = 0;   // not 0: a coefficient over its limit
};

// The value whose `size` bits are at the top of `window`; `shift` is 63 - size. It is 0 for size 0.
HWY_INLINE int extend(std::uint64_t window, std::uint32_t shift) {
  // Positive values start with a 1. Negative ones are stored plus the largest value of their size.
  const std::uint64_t positive = static_cast<std::uint64_t>(static_cast<std::int64_t>(window) >> 63);
  const std::uint64_t raw = (window >> 1) >> (shift & 63);
  const std::uint64_t largest = (~std::uint64_t{0} >> 1) >> (shift & 63);
  return static_cast<int>(raw - (largest & ~positive));
}

// Find codes that are longer than the tables' bits. Arguments and results are passed in registers, so that the reader
// can stay in its own.
HWY_NOINLINE Symbol find_dc(std::uint64_t window, const Canonical& canonical) {
  const Canonical::Found found = canonical.find(static_cast<std::uint32_t>(window >> 48));
  return found.length == 0 ? 0 : dc_symbol(found.length, found.symbol & 15);
}
HWY_NOINLINE Symbol find_ac(std::uint64_t window, const Canonical& canonical) {
  const Canonical::Found found = canonical.find(static_cast<std::uint32_t>(window >> 48));
  return found.length == 0 ? 0 : ac_symbol(found.length, found.symbol);
}

// Decode the DC difference. It needs 31 bits in the reader.
HWY_INLINE int decode_dc(BitReader& in, const DcTable& table, Doubt& doubt) {
  Symbol symbol = table.symbol[in.peek<DcTable::kBits>()];
  if (HWY_UNLIKELY(symbol == 0)) {
    symbol = find_dc(in.window, table.canonical);
    doubt.damage |= symbol == 0;
  }
  const int value = extend(in.window << ((symbol >> 8) & 31), symbol >> 24);
  in.consume(symbol & 63);
  return value;
}

// One AC symbol of any length; 0 if no code starts like this. It needs 16 bits.
HWY_INLINE Symbol ac_symbol_at(std::uint64_t window, const AcTable& table) {
  const Symbol symbol = table.symbol[window >> (64 - AcTable::kSymbolBits)];
  return HWY_LIKELY(symbol != 0) ? symbol : find_ac(window, table.canonical);
}
HWY_INLINE std::uint32_t step_of(Symbol symbol) {
  return (symbol >> 16) & 127;
}

// Returns k after one symbol that has no entry, or whose entry reached too far.
HWY_INLINE std::uint32_t skip_one(BitReader& in, const AcTable& table, std::uint32_t k, Doubt& doubt) {
  in.refill();
  const Symbol symbol = ac_symbol_at(in.window, table);
  in.consume(symbol & 63);
  doubt.damage |= symbol == 0;
  return step_of(symbol) == kStepEnd || symbol == 0 ? 63 : k + step_of(symbol);
}

// Pass over the AC coefficients of a block.
HWY_INLINE void skip_ac(BitReader& in, const SkipTable& skip, const AcTable& table, Doubt& doubt) {
  std::uint32_t k = 0;
  SkipTable::Entry entry;
  for (;;) {
    in.refill();
    bool slow = false;
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {  // 2 x 27 of 56 bits
      entry = skip.entry[in.peek<SkipTable::kBits>()];
      if (HWY_UNLIKELY(entry.bits == 0)) {
        slow = true;
        break;
      }
      in.consume(entry.bits);
      k += entry.advance;
      if (k >= 63) goto ended;
    }
    if (slow) {
      k = skip_one(in, table, k, doubt);
      if (HWY_UNLIKELY(k >= 63)) {
        doubt.damage |= k > 63;
        return;
      }
    }
  }
ended:
  if (HWY_LIKELY(k == 63 || (k >= SkipTable::kSkipEnd && k <= SkipTable::kSkipEnd + 62))) return;
  // The entry ran over the end of the block, so its symbols are read again one by one.
  in.rewind(entry.bits);
  k -= entry.advance;
  while (k < 63) k = skip_one(in, table, k, doubt);
  doubt.damage |= k > 63;
}

HWY_INLINE void skip_block(BitReader& in, const BlockKind& kind, std::int32_t* dc, Doubt& doubt) {
  in.refill();
  const std::uint32_t value = static_cast<std::uint32_t>(dc[kind.component]) +
                              static_cast<std::uint32_t>(decode_dc(in, *kind.dc, doubt));
  dc[kind.component] = static_cast<std::int32_t>(value);
  doubt.range |= value + kind.quant->dc_limit > 2 * kind.quant->dc_limit;
  skip_ac(in, *kind.skip, *kind.ac, doubt);
}

}  // namespace carya::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
