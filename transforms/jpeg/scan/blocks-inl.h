// Stores the coefficients of blocks, one look-up at a time and without a branch at their ends.
//
// The end of a block cannot be predicted. So after every look-up the place in the block, the block and the table of the
// next look-up are selected without a test. Several lanes in one loop hide each other's latency.
#if defined(CARYA_JPEG_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_JPEG_BLOCKS_INL_H_
#undef CARYA_JPEG_BLOCKS_INL_H_
#else
#define CARYA_JPEG_BLOCKS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "transforms/jpeg/scan/entropy-inl.h"
#include "transforms/jpeg/work.h"

HWY_BEFORE_NAMESPACE();
namespace carya::jpeg::HWY_NAMESPACE {

// One run of blocks in the order of the scan, from the first block of an MCU. `block` must be zero from here to the end
// of the run. DC coefficients are stored as differences; sum_dc() adds them up.
struct BlockRun {
  BitReader in;
  const PairTable* table = nullptr;
  const BlockKind* kind = nullptr;
  std::int16_t* block = nullptr;
  std::uint8_t* last = nullptr;
  std::int64_t k = -1;
  std::uint32_t slot = 0;               // the slot of the last look-up
  const std::uint8_t* limit = nullptr;  // if `in.next` is beyond it, the data are exceeded
  std::int16_t* end = nullptr;

  void start(const Work& work, CoefficientRow& row, std::size_t begin, std::size_t count) {
    kind = work.kinds.data();
    block = row.blocks.data() + 64 * begin;
    last = row.last.data() + begin;
    end = block + 64 * count;
    k = -1;
    std::memset(block, 0, 64 * sizeof(std::int16_t) * count);
  }
  bool done() const { return block == end; }
};

// The limit for a reader's `next`: a reader beyond it has taken more than the data.
HWY_INLINE const std::uint8_t* data_limit(const std::uint8_t* base, std::uint64_t end_bit) {
  return base + (end_bit >> 3) + 9;
}

// Look up, store, consume. Afterwards k may be unusual. The second value is not in the table: it is taken from the
// window while the next look-up is under way.
HWY_INLINE void look_up(BlockRun& run) {
  run.slot = run.in.peek<PairTable::kBits>();
  const PairTable& table = *run.table;
  const PairTable::Pair pair = table.pair[run.slot];
  const std::int64_t advance = table.advance[run.slot];
  const int value = extend(run.in.window << ((pair.bits + pair.shift + 1u) & 63), pair.shift);
  run.in.consume(pair.bits);
  run.block[table.store_at[static_cast<std::size_t>(run.k + 1 + pair.run)]] = pair.first;
  run.k += advance;
  run.block[table.store_at[static_cast<std::size_t>(run.k)]] = static_cast<std::int16_t>(value);
}

// Read the DC difference of the block at run.block; its AC coefficients come next.
HWY_INLINE void begin_block(BlockRun& run, Doubt& doubt) {
  const BlockKind& kind = *run.kind;
  run.in.refill();
  run.block[0] = static_cast<std::int16_t>(decode_dc(run.in, *kind.dc, doubt));
  run.table = &kind.ac->pairs;
  run.k = 0;
}

// Read the one symbol that a look-up with an unusual k should have taken.
HWY_INLINE void take_one(BlockRun& run, Doubt& doubt) {
  const std::uint32_t bits = run.table->pair[run.slot].bits;
  run.k -= run.table->advance[run.slot];
  if (bits != 0) {
    run.in.rewind(bits);
  } else {
    run.in.refill();
  }
  const BlockKind& kind = *run.kind;
  const Symbol symbol = ac_symbol_at(run.in.window, *kind.ac);
  if (HWY_UNLIKELY(symbol == 0)) {
    doubt.damage = 1;
    return;
  }
  const int value = extend(run.in.window << ((symbol >> 8) & 31), symbol >> 24);
  run.in.consume(symbol & 63);
  if (step_of(symbol) == kStepEnd) {
    run.k += PairTable::kEnd;
    return;
  }
  run.k += step_of(symbol);
  run.block[run.table->store_at[static_cast<std::size_t>(run.k)]] = static_cast<std::int16_t>(value);
  doubt.damage |= run.k > 63;
  doubt.range |= (value < 0 ? -value : value) > kind.quant->limit[run.k & 63];
}

// Interpret a look-up that left k at 63 or beyond. Returns false if the run is done or in doubt.
HWY_INLINE bool attend(BlockRun& run, Doubt& doubt) {
  if (HWY_UNLIKELY((run.k & PairTable::kUnusual) != 0)) {
    take_one(run, doubt);
    if (HWY_UNLIKELY(doubt.damage != 0)) return false;
    if (run.k < 63) return true;
  }
  *run.last++ = static_cast<std::uint8_t>(run.k);
  run.kind += run.kind->to_next;
  run.block += 64;
  run.k = -1;
  if (HWY_UNLIKELY(run.done())) return false;
  doubt.damage |= run.in.next > run.limit;
  begin_block(run, doubt);
  return doubt.damage == 0;
}

// Read one run until it is done or in doubt.
HWY_NOINLINE void read_blocks(BlockRun& at, Doubt& all_doubt) {
  BlockRun run = at;
  Doubt doubt;
  if (run.k < 0) begin_block(run, doubt);
  while (doubt.damage == 0) {
    run.in.refill();
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {  // 3 x 18 of 56 bits
      look_up(run);
      if (run.k >= 63) break;
    }
    if (run.k >= 63 && !attend(run, doubt)) break;
  }
  at = run;
  all_doubt.damage |= doubt.damage;
  all_doubt.range |= doubt.range;
}

// Read two runs until one of them is done or in doubt.
HWY_NOINLINE void read_two(BlockRun& first, BlockRun& second, Doubt& all_doubt) {
  BlockRun a = first;
  BlockRun b = second;
  Doubt doubt;
  if (a.k < 0) begin_block(a, doubt);
  if (b.k < 0) begin_block(b, doubt);
  while (doubt.damage == 0) {
    a.in.refill();
    b.in.refill();
    bool a_waits = false;
    bool b_waits = false;
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      look_up(a);
      a_waits = a.k >= 63;
      if (a_waits) break;
      look_up(b);
      b_waits = b.k >= 63;
      if (b_waits) break;
    }
    if (a_waits && !attend(a, doubt)) break;
    if (b_waits && !attend(b, doubt)) break;
  }
  first = a;
  second = b;
  all_doubt.damage |= doubt.damage;
  all_doubt.range |= doubt.range;
}

// Turn the DC differences of `mcus` MCUs into values.
inline void sum_dc(const Work& work, CoefficientRow& row, std::size_t begin, int mcus, std::int32_t* dc,
                   Doubt& doubt) {
  std::int16_t* block = row.blocks.data() + 64 * begin;
  const BlockKind* const kinds_end = work.kinds.data() + work.kind_count;
  for (int i = 0; i < mcus; ++i) {
    for (const BlockKind* kind = work.kinds.data(); kind != kinds_end; ++kind, block += 64) {
      const std::uint32_t value =
          static_cast<std::uint32_t>(dc[kind->component]) + static_cast<std::uint32_t>(int{block[0]});
      dc[kind->component] = static_cast<std::int32_t>(value);
      doubt.range |= value + kind->quant->dc_limit > 2 * kind->quant->dc_limit;
      block[0] = static_cast<std::int16_t>(value);
    }
  }
}

}  // namespace carya::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
