// Unpacks the blocks of a segment. With byte permutes of AVX-512 a block takes a dozen instructions and no loop over its
// values; with BMI2 eight values are taken at a time; other targets take one value after the other.
//
// Reads are not checked one by one: a block takes at most 72 bytes of the stream, whatever its bytes say, so that what
// all blocks of a segment can read is known before (kStreamReach). What they did take is checked at the end.
#if defined(CARYA_COEFFICIENTS_UNPACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_COEFFICIENTS_UNPACK_INL_H_
#undef CARYA_COEFFICIENTS_UNPACK_INL_H_
#else
#define CARYA_COEFFICIENTS_UNPACK_INL_H_
#endif

#include <bit>
#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

#include "transforms/coefficients/profile.h"
#include "transforms/coefficients/segment.h"
#include "transforms/coefficients/zigzag_tables.h"
#include "transforms/jpeg/header.h"

HWY_BEFORE_NAMESPACE();
namespace carya::coefficients::HWY_NAMESPACE {

HWY_INLINE std::uint64_t load64(const std::uint8_t* at) {
  std::uint64_t value;
  std::memcpy(&value, at, 8);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
  return value;
}

// At least 57 bits of the stream from `bit` on.
HWY_INLINE std::uint64_t bits_at(const std::uint8_t* stream, std::uint64_t bit) {
  return load64(stream + (bit >> 3)) >> (bit & 7);
}

// The place of one block's values in the stream, and where the next block begins.
struct BlockPlace {
  std::uint64_t places;  // bit i: zigzag place i + 1 has a value
  std::uint64_t values;  // the bit where they begin
};

HWY_INLINE BlockPlace enter_block(const std::uint8_t* stream, const UnpackTable& table, std::uint64_t& bit) {
  BlockPlace place;
  place.places = (bits_at(stream, bit) & table.bitmap_mask) | table.dense_mask;
  place.values = bit + table.bitmap_bits;
  bit = place.values + table.bits[static_cast<std::size_t>(std::popcount(place.places))];
  return place;
}

#if HWY_TARGET <= HWY_AVX3_DL

// Unpack one block's AC coefficients. Returns the zigzag index of the last one that is not zero.
HWY_INLINE unsigned unpack_block(const std::uint8_t* stream, const UnpackTable& table,
                                 const BlockPlace& place, std::int16_t* block) {
  const std::uint8_t* const at = stream + (place.values >> 3);
  const __m512i to_first = _mm512_set1_epi64(static_cast<long long>(place.values & 7));
  __m512i x = _mm512_shrdv_epi64(_mm512_loadu_si512(at), _mm512_loadu_si512(at + 8), to_first);
  x = _mm512_permutexvar_epi8(_mm512_load_si512(table.byte.data()), x);
  x = _mm512_and_si512(_mm512_multishift_epi64_epi8(_mm512_load_si512(table.shift.data()), x),
                       _mm512_load_si512(table.mask.data()));
  const __m512i one = _mm512_set1_epi8(1);
  const __m512i sign = _mm512_sub_epi8(_mm512_setzero_si512(), _mm512_and_si512(x, one));
  const __mmask64 positive = _mm512_testn_epi8_mask(x, one) & (0 - std::uint64_t{table.is_sparse});
  x = _mm512_and_si512(_mm512_srli_epi16(x, 1), _mm512_set1_epi8(127));
  x = _mm512_xor_si512(x, sign);
  x = _mm512_mask_add_epi8(x, positive, x, one);
  x = _mm512_maskz_expand_epi8(place.places << 1, x);
  const std::uint64_t set = _mm512_test_epi8_mask(x, x);
  x = _mm512_permutexvar_epi8(_mm512_load_si512(kNaturalToZigzag.data()), x);
  _mm512_store_si512(block, _mm512_cvtepi8_epi16(_mm512_castsi512_si256(x)));
  _mm512_store_si512(block + 32, _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(x, 1)));
  return 63U - static_cast<unsigned>(std::countl_zero(set | 1));
}

#elif HWY_TARGET <= HWY_AVX2

HWY_INLINE unsigned unpack_block(const std::uint8_t* stream, const UnpackTable& table,
                                 const BlockPlace& place, std::int16_t* block) {
  alignas(32) std::uint8_t values[64 + 8];
  const int groups = (std::popcount(place.places) + 7) / 8;
  const __m256i zero = _mm256_setzero_si256();
  _mm256_store_si256(reinterpret_cast<__m256i*>(values), zero);
  _mm256_store_si256(reinterpret_cast<__m256i*>(values + 32), zero);
  for (int g = 0; g < groups; ++g) {
    const std::uint64_t bit = place.values + 8U * table.byte[8 * g] + table.shift[8 * g];
    const std::uint8_t* const at = stream + (bit >> 3);
    const std::uint64_t raw = load64(at) >> (bit & 7) | (std::uint64_t{at[8]} << 1) << (63 - (bit & 7));
    std::uint64_t mask;
    std::memcpy(&mask, table.mask.data() + 8 * g, 8);
    const std::uint64_t eight = _pdep_u64(raw, mask);
    std::memcpy(values + 8 * g, &eight, 8);
  }
  const __m256i one = _mm256_set1_epi8(1);
  const __m256i sparse = _mm256_set1_epi8(static_cast<char>(table.is_sparse));
  for (int half = 0; half < 2; ++half) {
    auto* const at = reinterpret_cast<__m256i*>(values + 32 * half);
    const __m256i x = _mm256_load_si256(at);
    const __m256i sign = _mm256_sub_epi8(zero, _mm256_and_si256(x, one));
    const __m256i size = _mm256_and_si256(_mm256_srli_epi16(x, 1), _mm256_set1_epi8(127));
    _mm256_store_si256(at, _mm256_add_epi8(_mm256_xor_si256(size, sign), _mm256_andnot_si256(x, sparse)));
  }
  // Move the values to their places, eight places at a time.
  alignas(32) std::uint8_t zigzag[64];
  const std::uint64_t places = place.places << 1;
  const std::uint8_t* from = values;
  const int eights = places >> 32 == 0 ? 4 : 8;
  _mm256_store_si256(reinterpret_cast<__m256i*>(zigzag + 32), zero);
  for (int i = 0; i < eights; ++i) {
    const std::size_t here = static_cast<std::uint8_t>(places >> (8 * i));
    const std::uint64_t eight = _pdep_u64(load64(from), kByteMasks[here]);
    std::memcpy(zigzag + 8 * i, &eight, 8);
    from += std::popcount(static_cast<unsigned>(here));
  }
  __m256i rows[2] = {zero, zero};  // rows 0 to 3 and 4 to 7, in natural order
  std::uint64_t set = 0;
  for (int half = 0; half < 2; ++half) {
    const __m256i x = _mm256_load_si256(reinterpret_cast<const __m256i*>(zigzag + 32 * half));
    const auto empty = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, zero)));
    set |= std::uint64_t{~empty} << (32 * half);
  }
  for (int quarter = 0; quarter < 4; ++quarter) {
    const __m256i x =
        _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(zigzag + 16 * quarter)));
    for (int half = 0; half < 2; ++half) {
      const auto* const from_quarter =
          reinterpret_cast<const __m256i*>(kQuarters.data() + 64 * quarter + 32 * half);
      rows[half] = _mm256_or_si256(rows[half], _mm256_shuffle_epi8(x, _mm256_load_si256(from_quarter)));
    }
  }
  for (int half = 0; half < 2; ++half) {
    auto* const to = reinterpret_cast<__m256i*>(block + 32 * half);
    _mm256_store_si256(to, _mm256_cvtepi8_epi16(_mm256_castsi256_si128(rows[half])));
    _mm256_store_si256(to + 1, _mm256_cvtepi8_epi16(_mm256_extracti128_si256(rows[half], 1)));
  }
  return 63U - static_cast<unsigned>(std::countl_zero(set | 1));
}

#else

HWY_INLINE unsigned unpack_block(const std::uint8_t* stream, const UnpackTable& table,
                                 const BlockPlace& place, std::int16_t* block) {
  std::memset(block, 0, 64 * sizeof(std::int16_t));
  unsigned last = 0;
  std::size_t rank = 0;
  for (std::uint64_t rest = place.places; rest != 0; rest &= rest - 1, ++rank) {
    const std::uint64_t bit = place.values + 8U * table.byte[rank & ~std::size_t{7}] + table.shift[rank];
    const unsigned raw = static_cast<unsigned>(bits_at(stream, bit)) & table.mask[rank];
    const int size = static_cast<int>(raw >> 1);
    const int value = (raw & 1) != 0 ? -size - 1 : size + static_cast<int>(table.is_sparse);
    const unsigned zigzag = static_cast<unsigned>(std::countr_zero(rest)) + 1;
    // The byte that vectors hold: 128 becomes -128.
    block[jpeg::kZigzag[zigzag]] = static_cast<std::int8_t>(value);
    if (value != 0) last = zigzag;
  }
  return last;
}

#endif

// Sum up the DC differences of the first `end` blocks into `dc`. Returns the bit behind those of all blocks.
HWY_INLINE std::uint64_t unpack_dc(const Segment& segment, int end, std::int16_t* dc) {
  std::uint64_t bit = 0;
  std::uint32_t sum = static_cast<std::uint32_t>(std::int32_t{segment.dc});
  dc[0] = segment.dc;
  for (int i = 1; i < segment.blocks; ++i) {
    const unsigned width = segment.dc_widths >> (4 * (i / kDcGroup)) & 15;
    const auto raw = static_cast<std::uint32_t>(bits_at(segment.stream, bit)) & ((1U << width) - 1);
    sum += (raw >> 1) ^ (0 - (raw & 1));
    bit += width;
    if (i < end) dc[i] = static_cast<std::int16_t>(sum);
  }
  return bit;
}

inline bool unpack(const Segment& segment, int begin, int end, std::int16_t* blocks, std::uint8_t* last) {
  const UnpackTable* const tables = unpack_tables().data();
  const std::uint8_t* const stream = segment.stream;
  const std::uint8_t* const profiles = segment.profiles;
  std::int16_t dc[kSegmentBlocks];
  std::uint64_t bit = unpack_dc(segment, end, dc);
  int i = 0;
  for (; i < begin; ++i) enter_block(stream, tables[profiles[i]], bit);
  std::int16_t* block = blocks;
  for (; i < end; ++i, block += 64) {
    const UnpackTable& table = tables[profiles[i]];
    const BlockPlace place = enter_block(stream, table, bit);
    last[i - begin] = static_cast<std::uint8_t>(unpack_block(stream, table, place, block));
    block[0] = dc[i];
  }
  if ((bit + 7) / 8 > segment.stream_bytes) return false;
  if (end == segment.blocks && (bit + 7) / 8 != segment.stream_bytes) return false;
  for (int e = 0; e < segment.exceptions; ++e) {
    const std::uint8_t* const at = segment.exception + kExceptionBytes * static_cast<std::size_t>(e);
    const std::uint32_t word = at[0] | at[1] << 8 | at[2] << 16;
    const int number = static_cast<int>(word & 31);
    const unsigned zigzag = word >> 5 & 63;
    if (zigzag == 0) return false;
    if (number < begin || number >= end) continue;
    // 13 bits with a sign
    const auto value = static_cast<std::int16_t>(static_cast<std::int32_t>(word << 8) >> 19);
    blocks[64 * (number - begin) + jpeg::kZigzag[zigzag]] = value;
    std::uint8_t& its_last = last[number - begin];
    if (zigzag > its_last) its_last = static_cast<std::uint8_t>(zigzag);
  }
  return true;
}

}  // namespace carya::coefficients::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
