#include "transforms/jpeg/table_join.h"

#include "transforms/simd/config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/jpeg/table_join.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace carya::jpeg::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kSkipRounds = 3;  // a fourth symbol rarely fits

#if HWY_TARGET <= HWY_AVX2  // only there gathers and shifts by lane pay

using D = hn::CappedTag<std::int32_t, 8>;
using V = hn::Vec<D>;

HWY_INLINE V splat(std::uint32_t value) {
  return hn::Set(D(), static_cast<std::int32_t>(value));
}

void join_pairs(const Singles& singles, PairTable& table) {
  const D d;
  const auto* from = reinterpret_cast<const std::int32_t*>(singles.entry.data());
  const V window = splat(PairTable::kBits + 1);
  for (std::size_t i = 0; i < table.pair.size(); i += hn::Lanes(d)) {
    const V first = hn::Load(d, from + i);
    const V first_bits = hn::And(first, splat(255));
    const V first_size = hn::And(hn::ShiftRight<PairBits::kSizeShift>(first), splat(15));
    const V slot = hn::And(hn::Shl(hn::Iota(d, static_cast<std::int32_t>(i)), first_bits),
                           splat((1u << PairTable::kBits) - 1));
    const V second = hn::GatherIndex(d, from, slot);
    const V second_bits = hn::And(second, splat(255));
    const V second_size = hn::And(hn::ShiftRight<PairBits::kSizeShift>(second), splat(15));
    const V bits = hn::Add(first_bits, second_bits);
    const V advance = hn::And(hn::ShiftRight<PairBits::kAdvanceShift>(first), splat(255));
    const auto known = hn::Lt(first_bits, window);
    const auto fits =
        hn::And(hn::Lt(hn::Sub(bits, second_size), window), hn::Lt(bits, splat(PairTable::kReach + 1)));
    const auto both = hn::And(hn::Ne(first_bits, hn::Zero(d)), hn::Ne(second_bits, hn::Zero(d)));
    const auto joins = hn::And(hn::And(known, fits), hn::And(both, hn::Lt(advance, splat(PairTable::kEnd))));
    const V second_advance = hn::And(hn::ShiftRight<PairBits::kAdvanceShift>(second), splat(255));
    const V run = hn::And(hn::ShiftRight<PairBits::kRunShift>(first), splat(15));
    const V value = hn::And(hn::ShiftRight<PairBits::kValueShift>(first), splat(255));
    const V all_bits = hn::IfThenElse(joins, bits, first_bits);
    const V shift = hn::Sub(splat(63), hn::IfThenElse(joins, second_size, first_size));
    // The bytes of PairTable::Pair in memory order: bits, run, first, shift.
    hn::StoreU(hn::Or(hn::Or(all_bits, hn::ShiftLeft<8>(run)),
                      hn::Or(hn::ShiftLeft<16>(value), hn::ShiftLeft<24>(shift))),
               d, reinterpret_cast<std::int32_t*>(table.pair.data() + i));
    const hn::Rebind<std::uint8_t, D> d8;
    hn::StoreU(hn::DemoteTo(d8, hn::Add(advance, hn::IfThenElseZero(joins, second_advance))), d8,
               table.advance.data() + i);
  }
}

void join_skips(const std::uint32_t* singles, SkipTable& table) {
  const D d;
  const auto* from = reinterpret_cast<const std::int32_t*>(singles);
  const V window = splat(SkipTable::kBits);
  for (std::size_t i = 0; i < table.entry.size(); i += hn::Lanes(d)) {
    const V index = hn::Iota(d, static_cast<std::int32_t>(i));
    const V first = hn::Load(d, from + i);
    V bits = hn::And(first, splat(255));
    V advance = hn::ShiftRight<16>(first);
    auto open = hn::Ne(first, hn::Zero(d));
    for (int round = 0; round < kSkipRounds; ++round) {
      open = hn::And(open, hn::And(hn::Lt(bits, window), hn::Lt(advance, splat(64))));
      const V shift = hn::Min(bits, window);  // closed lanes look at slot 0
      const V next =
          hn::GatherIndex(d, from, hn::And(hn::Shl(index, shift), splat((1u << SkipTable::kBits) - 1)));
      const V code_bits = hn::And(hn::ShiftRight<8>(next), splat(255));
      open = hn::And(open, hn::And(hn::Ne(next, hn::Zero(d)),
                                   hn::Lt(hn::Add(bits, code_bits), splat(SkipTable::kBits + 1))));
      bits = hn::Add(bits, hn::IfThenElseZero(open, hn::And(next, splat(255))));
      advance = hn::Add(advance, hn::IfThenElseZero(open, hn::ShiftRight<16>(next)));
    }
    const hn::Rebind<std::uint16_t, D> d16;
    const V entry = hn::Or(bits, hn::ShiftLeft<8>(advance));
    hn::StoreU(hn::DemoteTo(d16, entry), d16, reinterpret_cast<std::uint16_t*>(table.entry.data() + i));
  }
}

#else

struct Single {
  std::uint32_t bits, size, run, advance;
  std::int8_t value;
  explicit Single(std::uint32_t entry)
      : bits(entry & 255),
        size((entry >> PairBits::kSizeShift) & 15),
        run((entry >> PairBits::kRunShift) & 15),
        advance((entry >> PairBits::kAdvanceShift) & 255),
        value(static_cast<std::int8_t>(entry >> PairBits::kValueShift)) {}
};

void join_pairs(const Singles& singles, PairTable& table) {
  constexpr std::uint32_t kWindow = PairTable::kBits;
  for (std::uint32_t i = 0; i < table.pair.size(); ++i) {
    const Single first(singles.entry[i]);
    const Single second(singles.entry[(i << first.bits) & ((1u << kWindow) - 1)]);
    const std::uint32_t bits = first.bits + second.bits;
    const bool known = first.bits <= kWindow;
    const bool joins = known && first.bits != 0 && second.bits != 0 && first.advance < PairTable::kEnd &&
                       bits - second.size <= kWindow && bits <= PairTable::kReach;
    table.pair[i] = {static_cast<std::uint8_t>(joins ? bits : first.bits),
                     static_cast<std::uint8_t>(first.run), first.value,
                     static_cast<std::uint8_t>(63 - (joins ? second.size : first.size))};
    table.advance[i] = static_cast<std::uint8_t>(first.advance + (joins ? second.advance : 0));
  }
}

void join_skips(const std::uint32_t* singles, SkipTable& table) {
  for (std::uint32_t i = 0; i < table.entry.size(); ++i) {
    std::uint32_t bits = singles[i] & 255;
    std::uint32_t advance = singles[i] >> 16;
    for (int round = 0; round < kSkipRounds && bits != 0 && bits < SkipTable::kBits && advance < 64;
         ++round) {
      const std::uint32_t next = singles[(i << bits) & ((1u << SkipTable::kBits) - 1)];
      if (next == 0 || ((next >> 8) & 255) + bits > SkipTable::kBits) break;
      bits += next & 255;
      advance += next >> 16;
    }
    table.entry[i] = {static_cast<std::uint8_t>(bits), static_cast<std::uint8_t>(advance)};
  }
}

#endif

}  // namespace carya::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace carya::jpeg {

HWY_EXPORT(join_pairs);
HWY_EXPORT(join_skips);

void join_pairs(const Singles& singles, PairTable& table) {
  HWY_DYNAMIC_DISPATCH(join_pairs)(singles, table);
}
void join_skips(const std::uint32_t* singles, SkipTable& table) {
  HWY_DYNAMIC_DISPATCH(join_skips)(singles, table);
}

}  // namespace carya::jpeg
#endif
