// Packs the blocks of a segment. The profile of each block is the one that takes the fewest bits, of all 256: what each
// group of values costs at each width is added up once per block, and looked up for many profiles at a time.
#if defined(CARYA_COEFFICIENTS_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_COEFFICIENTS_PACK_INL_H_
#undef CARYA_COEFFICIENTS_PACK_INL_H_
#else
#define CARYA_COEFFICIENTS_PACK_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <hwy/highway.h>

#include "transforms/coefficients/pack_tables.h"
#include "transforms/coefficients/profile.h"
#include "transforms/coefficients/segment.h"
#include "transforms/coefficients/zigzag_tables.h"
#include "transforms/jpeg/header.h"
#include "transforms/simd/config.h"

HWY_BEFORE_NAMESPACE();
namespace carya::coefficients::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The AC coefficients of one block in zigzag order, and which are not zero: bit i for place i, as in `value`.
struct ZigzagBlock {
  std::int16_t value[63];
  std::uint64_t set = 0;
};

// Returns false if a coefficient is too large for the format.
HWY_INLINE bool to_zigzag(const std::int16_t* block, ZigzagBlock& out) {
  out.set = 0;
#if CARYA_SIMD_VECTORS
  // Most are zero: only the others are moved one by one.
  const hn::CappedTag<std::int16_t, 32> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto most = hn::Set(d, static_cast<std::int16_t>(kExceptionMax));
  const auto least = hn::Set(d, static_cast<std::int16_t>(-kExceptionMax));
  std::uint8_t bits[64 / 8 + 8];  // Highway may write eight bytes at a time
  bool fits = true;
  for (std::size_t i = 0; i < 64; i += lanes) {
    auto v = hn::LoadU(d, block + i);
    if (i == 0) v = hn::IfThenZeroElse(hn::FirstN(d, 1), v);  // DC
    hn::StoreMaskBits(d, hn::Ne(v, hn::Zero(d)), bits + i / 8);
    fits = fits && hn::AllFalse(d, hn::Or(hn::Gt(v, most), hn::Lt(v, least)));
  }
  std::uint64_t rest;
  std::memcpy(&rest, bits, sizeof rest);
  if constexpr (std::endian::native == std::endian::big) rest = __builtin_bswap64(rest);
  if (rest == 0) return true;
  std::memset(out.value, 0, sizeof out.value);
  for (; rest != 0; rest &= rest - 1) {
    const auto natural = static_cast<std::size_t>(std::countr_zero(rest));
    const std::size_t place = kNaturalToZigzag[natural] - 1U;
    out.value[place] = block[natural];
    out.set |= std::uint64_t{1} << place;
  }
  return fits;
#else
  int largest = 0;
  for (std::size_t i = 0; i < 64; ++i) largest = std::max(largest, i == 0 ? 0 : std::abs(int{block[i]}));
  if (largest == 0) return true;
  for (std::size_t i = 0; i < 63; ++i) {
    const int value = block[jpeg::kZigzag[i + 1]];
    out.value[i] = static_cast<std::int16_t>(value);
    out.set |= std::uint64_t{value != 0} << i;
  }
  return largest <= kExceptionMax;
#endif
}

// Add 16 bytes to 16 others, at most to 255.
HWY_INLINE void add_costs(std::uint8_t* to, const std::uint8_t* costs) {
#if CARYA_SIMD_VECTORS
  const hn::Full128<std::uint8_t> d;
  hn::Store(hn::SaturatedAdd(hn::Load(d, to), hn::Load(d, costs)), d, to);
#else
  for (int i = 0; i < 16; ++i) to[i] = static_cast<std::uint8_t>(std::min(255, to[i] + costs[i]));
#endif
}

// What each group of a block costs by each number of a profile, in bits and at most 255.
struct GroupCosts {
  alignas(16) std::uint8_t dense[kGroups][16];
  alignas(16) std::uint8_t sparse[kGroups][16];
};

HWY_INLINE void add_up_costs(const ZigzagBlock& block, const PackTables& tables, GroupCosts& costs) {
  const Widths& widths = pack_widths();
  std::memcpy(costs.dense, tables.dense_empty, sizeof(costs.dense));
  std::memcpy(costs.sparse, tables.sparse_empty, sizeof(costs.sparse));
  std::size_t rank = 0;
  for (std::uint64_t rest = block.set; rest != 0; rest &= rest - 1, ++rank) {
    const auto place = static_cast<std::size_t>(std::countr_zero(rest));
    const std::size_t value = Widths::place(block.value[place]);
    add_costs(costs.dense[kGroupOfPlace[place]], tables.dense_value[widths.dense[value]]);
    add_costs(costs.sparse[kGroupOfRank[rank]], tables.sparse_value[widths.sparse[value]]);
    add_costs(costs.sparse[kGroups - 1], tables.beyond_bitmap[place]);
  }
}

// The first profile with the least cost.
HWY_INLINE std::size_t cheapest(const GroupCosts& costs, const PackTables& tables) {
#if CARYA_SIMD_VECTORS
  const hn::CappedTag<std::uint8_t, 64> d8;
  const hn::Repartition<std::uint16_t, decltype(d8)> d16;
  const std::size_t lanes = hn::Lanes(d8);
  alignas(64)
      std::uint16_t sums[kProfiles];  // of each vector: those of even profiles, then those of odd ones
  const auto low = hn::Set(d16, 255);
  auto least = hn::Set(d16, 65535);
  for (std::size_t p = 0; p < kProfiles; p += lanes) {
    const std::uint8_t(*groups)[16] = p < kDenseProfiles ? costs.dense : costs.sparse;
    auto even = hn::Zero(d16);
    auto odd = hn::Zero(d16);
    for (std::size_t g = 0; g < kGroups; ++g) {
      const auto table = hn::LoadDup128(d8, groups[g]);
      const auto cost = hn::BitCast(d16, hn::TableLookupBytes(table, hn::Load(d8, tables.numbers[g] + p)));
      even = hn::Add(even, hn::And(cost, low));
      odd = hn::Add(odd, hn::ShiftRight<8>(cost));
    }
    hn::Store(even, d16, sums + p);
    hn::Store(odd, d16, sums + p + lanes / 2);
    least = hn::Min(least, hn::Min(even, odd));
  }
  alignas(64) std::uint16_t mins[32];
  hn::Store(least, d16, mins);
  std::uint16_t best = mins[0];
  for (std::size_t i = 1; i < lanes / 2; ++i) best = std::min(best, mins[i]);
  const auto wanted = hn::Set(d16, best);
  for (std::size_t p = 0; p < kProfiles; p += lanes) {
    const auto even = hn::Eq(hn::Load(d16, sums + p), wanted);
    const auto odd = hn::Eq(hn::Load(d16, sums + p + lanes / 2), wanted);
    if (hn::AllFalse(d16, hn::Or(even, odd))) continue;
    std::size_t first = lanes;
    for (std::size_t i = lanes; i-- > 0;)
      if (sums[p + i] == best) first = std::min(first, i < lanes / 2 ? 2 * i : 2 * (i - lanes / 2) + 1);
    if (first < lanes) return p + first;
  }
  return 0;
#else
  std::size_t best = 0;
  unsigned least = ~0U;
  for (std::size_t p = 0; p < kProfiles; ++p) {
    const std::uint8_t(*groups)[16] = p < kDenseProfiles ? costs.dense : costs.sparse;
    unsigned sum = 0;
    for (std::size_t g = 0; g < kGroups; ++g) sum += groups[g][tables.numbers[g][p]];
    if (sum < least) best = p, least = sum;
  }
  return best;
#endif
}

// Writes bits, the lowest first, into memory that is large enough.
class BitWriter {
 public:
  explicit BitWriter(std::uint8_t* to) : to_(to) {}
  // Append `count` (0 to 64) bits. Those of `bits` beyond them are zero.
  HWY_INLINE void put(std::uint64_t bits, unsigned count) {
    word_ |= bits << fill_;
    if (fill_ + count < 64) {
      fill_ += count;
      return;
    }
    store();
    to_ += 8;
    word_ = fill_ == 0 ? 0 : bits >> (64 - fill_);
    fill_ = fill_ + count - 64;
  }
  // Returns the end of what was written.
  std::uint8_t* finish() {
    store();
    return to_ + (fill_ + 7) / 8;
  }

 private:
  void store() {
    std::uint64_t word = word_;
    if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
    std::memcpy(to_, &word, 8);
  }
  std::uint8_t* to_;
  std::uint64_t word_ = 0;
  unsigned fill_ = 0;
};

// The exceptions of a segment.
struct Exceptions {
  std::uint8_t bytes[kExceptionBytes * kExceptionsMax];
  int count = 0;

  bool add(int block, std::size_t place, int value) {
    if (count == kExceptionsMax) return false;
    const auto word = static_cast<std::uint32_t>(block) | static_cast<std::uint32_t>(place + 1) << 5 |
                      (static_cast<std::uint32_t>(value) & 0x1FFF) << 11;
    std::uint8_t* const at = bytes + kExceptionBytes * static_cast<std::size_t>(count++);
    for (std::size_t i = 0; i < kExceptionBytes; ++i) at[i] = static_cast<std::uint8_t>(word >> (8 * i));
    return true;
  }
};

// Write the values of one block by its profile. Returns false if there are too many exceptions.
HWY_INLINE bool write_block(const ZigzagBlock& block, int number, const UnpackTable& table, BitWriter& out,
                            Exceptions& exceptions) {
  const bool is_sparse = table.is_sparse != 0;
  const std::uint64_t places = (block.set & table.bitmap_mask) | table.dense_mask;
  for (std::uint64_t rest = block.set & ~places; rest != 0; rest &= rest - 1) {
    const auto place = static_cast<std::size_t>(std::countr_zero(rest));
    if (!exceptions.add(number, place, block.value[place])) return false;
  }
  if (is_sparse) out.put(places, table.bitmap_bits);
  const auto count = static_cast<std::size_t>(std::popcount(places));
  std::uint64_t rest = places;
  for (std::size_t begin = 0; begin < count; begin += 8) {
    const std::size_t end = std::min(begin + 8, count);
    const unsigned at = 8U * table.byte[begin];
    std::uint64_t group = 0;
    for (std::size_t rank = begin; rank < end; ++rank, rest &= rest - 1) {
      const auto place = static_cast<std::size_t>(std::countr_zero(rest));
      const int value = block.value[place];
      const int size = is_sparse ? std::abs(value) - 1 : value ^ (value >> 15);
      const unsigned bits = 2U * static_cast<unsigned>(size) | (value < 0 ? 1U : 0U);
      if (std::abs(value) <= kPackedMax && (bits & ~unsigned{table.mask[rank]}) == 0)
        group |= std::uint64_t{bits} << table.shift[rank];
      else if (!exceptions.add(number, place, value))
        return false;
    }
    // The group, and the gap behind it if the next one begins at a byte of its own.
    const unsigned first = at + table.shift[begin];
    const unsigned here = table.bits[end] - first;
    out.put(group >> table.shift[begin], here);
    if (end < count) out.put(0, 8U * table.byte[end] + table.shift[end] - table.bits[end]);
  }
  return true;
}

// Write the DC differences of a segment. Returns false if one is too large.
HWY_INLINE bool write_dc(const std::int16_t* const* blocks, int count, BitWriter& out,
                         std::uint16_t& widths) {
  std::uint32_t folded[kSegmentBlocks] = {};
  for (int i = 1; i < count; ++i) {
    const std::int32_t difference = blocks[i][0] - blocks[i - 1][0];
    folded[i] = static_cast<std::uint32_t>(difference) << 1 ^ static_cast<std::uint32_t>(difference >> 31);
  }
  widths = 0;
  for (int begin = 0; begin < count; begin += kDcGroup) {
    const int end = std::min(begin + kDcGroup, count);
    std::uint32_t all = 0;
    for (int i = begin; i < end; ++i) all |= folded[i];
    const int width = std::bit_width(all);
    if (width > kDcWidthMax) return false;
    widths = static_cast<std::uint16_t>(widths | width << (4 * (begin / kDcGroup)));
    for (int i = std::max(begin, 1); i < end; ++i) out.put(folded[i], static_cast<unsigned>(width));
  }
  return true;
}

inline bool pack(const std::int16_t* const* blocks, int count, std::vector<std::uint8_t>& out) {
  const PackTables& tables = pack_tables();
  const std::array<UnpackTable, kProfiles>& unpack = unpack_tables();
  alignas(8) std::uint8_t stream[kStreamBytesMax + 16];
  BitWriter bits(stream);
  Exceptions exceptions;
  std::uint8_t profiles[kSegmentBlocks];
  std::uint16_t dc_widths = 0;
  if (!write_dc(blocks, count, bits, dc_widths)) return false;
  ZigzagBlock block;
  GroupCosts costs;
  for (int i = 0; i < count; ++i) {
    if (!to_zigzag(blocks[i], block)) return false;
    profiles[i] = 0;
    if (block.set == 0) continue;
    add_up_costs(block, tables, costs);
    const std::size_t profile = cheapest(costs, tables);
    profiles[i] = static_cast<std::uint8_t>(profile);
    if (!write_block(block, i, unpack[profile], bits, exceptions)) return false;
  }
  const std::uint8_t* const end = bits.finish();
  const auto exception_bytes = kExceptionBytes * static_cast<std::size_t>(exceptions.count);
  const std::size_t size = kSegmentHeadBytes + static_cast<std::size_t>(count) + exception_bytes +
                           static_cast<std::size_t>(end - stream);
  const auto dc = static_cast<std::uint16_t>(blocks[0][0]);
  const std::uint8_t head[kSegmentHeadBytes] = {static_cast<std::uint8_t>(size),
                                                static_cast<std::uint8_t>(size >> 8),
                                                static_cast<std::uint8_t>(dc),
                                                static_cast<std::uint8_t>(dc >> 8),
                                                static_cast<std::uint8_t>(dc_widths),
                                                static_cast<std::uint8_t>(dc_widths >> 8),
                                                static_cast<std::uint8_t>(exceptions.count)};
  out.insert(out.end(), head, head + kSegmentHeadBytes);
  out.insert(out.end(), profiles, profiles + count);
  out.insert(out.end(), exceptions.bytes, exceptions.bytes + exception_bytes);
  out.insert(out.end(), static_cast<const std::uint8_t*>(stream), end);
  return true;
}

}  // namespace carya::coefficients::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
