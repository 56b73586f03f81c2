#include "transforms/kernels/codec/inflate.h"

#include <algorithm>
#include <cstring>

#include "transforms/simd/config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/kernels/codec/inflate.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "transforms/kernels/codec/inflate-inl.h"

#if HWY_ONCE

namespace carya::transforms {
namespace {

HWY_EXPORT(RunCodes);
HWY_EXPORT(Adler);

using S = InflateState;

constexpr std::size_t kWindow = 32768;
constexpr std::size_t kPiece = std::size_t{64}
                               << 10;        // made at a time, so that it is in the cache when it is taken
constexpr std::size_t kOver = 3 + 258 + 32;  // what the inner loop may write behind its end
constexpr int kEmptyBlocksMax = 64;
constexpr int kSymbols = 286;   // 286 and 287 have codes among the fixed ones, but no meaning
constexpr int kDistances = 30;  // as have 30 and 31
constexpr int kFixedSymbols = 288;
constexpr int kFixedDistances = 32;

std::uint32_t special(std::uint32_t kind, int bits) {
  return S::kSpecial | kind | static_cast<std::uint32_t>(bits);
}

std::uint32_t with_extra(int base, int extra, int bits) {
  return static_cast<std::uint32_t>(base << 16 | bits << 8 | (bits + extra));
}

// What a code of `bits` bits is for. Source: RFC 1951, 3.2.5.
std::uint32_t symbol_entry(int symbol, int bits) {
  if (symbol < 256) return S::kLiteral | static_cast<std::uint32_t>(symbol << 16 | bits);
  if (symbol == 256) return special(S::kEnd, bits);
  if (symbol >= kSymbols) return special(0, bits);
  if (symbol == 285) return with_extra(258, 0, bits);
  const int nth = symbol - 257;
  if (nth < 8) return with_extra(3 + nth, 0, bits);
  const int extra = nth / 4 - 1;
  return with_extra(3 + ((4 + nth % 4) << extra), extra, bits);
}

std::uint32_t distance_entry(int symbol, int bits) {
  if (symbol >= kDistances) return special(0, bits);
  if (symbol < 4) return with_extra(1 + symbol, 0, bits);
  const int extra = symbol / 2 - 1;
  return with_extra(1 + ((2 + symbol % 2) << extra), extra, bits);
}

std::uint32_t length_entry(int symbol, int bits) {  // of the code of code lengths
  return static_cast<std::uint32_t>(symbol << 16 | bits);
}

// The codes of these lengths, as a first table of `first_bits` and second ones behind it. Returns false for lengths
// that make no complete code; `lone`: none at all, or one of a single bit, are all right, and the other bits are no
// code.
bool make_table(std::span<const std::uint8_t> lengths, int first_bits,
                std::uint32_t (*entry)(int symbol, int bits), bool lone, std::uint32_t* table) {
  std::array<int, S::kCodeBitsMax + 1> counts{};
  for (const std::uint8_t length : lengths) ++counts[length];
  int used = 0;  // of 2^15 codes of 15 bits
  int codes = 0;
  int longest = 0;
  for (int bits = 1; bits <= S::kCodeBitsMax; ++bits) {
    if (counts[static_cast<std::size_t>(bits)] == 0) continue;
    used += counts[static_cast<std::size_t>(bits)] << (S::kCodeBitsMax - bits);
    codes += counts[static_cast<std::size_t>(bits)];
    longest = bits;
  }
  if (used != 1 << S::kCodeBitsMax) {
    if (!lone || codes > 1 || longest > 1) return false;
    std::fill_n(table, 1 << first_bits, special(0, 1));
  }
  std::array<int, S::kCodeBitsMax + 1> starts{};
  for (std::size_t bits = 1; bits < S::kCodeBitsMax; ++bits) starts[bits + 1] = starts[bits] + counts[bits];
  std::array<std::uint16_t, kFixedSymbols> sorted{};
  for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
    if (lengths[symbol] != 0)
      sorted[static_cast<std::size_t>(starts[lengths[symbol]]++)] = static_cast<std::uint16_t>(symbol);
  }
  const int second_bits = std::max(0, longest - first_bits);
  std::uint32_t begun = 1U << first_bits;  // where the next second table begins
  std::uint32_t code = 0;                  // with its first bit lowest, as it stands in the stream
  std::uint32_t prefix = ~0U;
  std::uint32_t second = 0;
  for (int i = 0; i < codes; ++i) {
    const int symbol = sorted[static_cast<std::size_t>(i)];
    const int bits = lengths[static_cast<std::size_t>(symbol)];
    std::uint32_t* place = table;
    std::uint32_t at = code;
    int spread = first_bits;
    int step = bits;
    if (bits > first_bits) {
      if (const std::uint32_t head = code & ((1U << first_bits) - 1); head != prefix) {
        prefix = head;
        second = begun;
        begun += 1U << second_bits;
        table[head] = special(S::kSecond, 0) | second << 16 | static_cast<std::uint32_t>(second_bits << 8);
      }
      place = table + second;
      at >>= first_bits;
      spread = second_bits;
      step = bits - first_bits;
    }
    const std::uint32_t what = entry(symbol, bits);
    for (; at < 1U << spread; at += 1U << step) place[at] = what;
    std::uint32_t bit = 1U << (bits - 1);  // count up, from the highest bit of the mirrored code
    while ((code & bit) != 0) bit >>= 1;
    code = bit == 0 ? 0 : (code & (bit - 1)) | bit;
  }
  return true;
}

std::uint32_t big_endian(const std::uint8_t* p) {
  return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 | p[3];
}

}  // namespace

std::uint32_t adler32(std::uint32_t before, const std::uint8_t* bytes, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(Adler)(before, bytes, count);
}

bool Inflater::begin(std::span<const std::uint8_t> in, std::uint64_t bytes, std::size_t longest) {
  phase_ = Phase::kDone;
  taken_ = made_ = 0;
  left_ = bytes;
  if (in.size() < 2) return false;
  const unsigned method = in[0];
  const unsigned flags = in[1];
  if ((method & 15) != 8 || (method * 256 + flags) % 31 != 0 || (flags & 0x20) != 0) return false;
  if (method >> 4 > 7 || std::min<std::uint64_t>(bytes, kWindow) > std::uint64_t{256} << (method >> 4))
    return false;
  const std::size_t wanted = kWindow + longest + 2 * kPiece + kOver;
  capacity_ = static_cast<std::size_t>(std::min<std::uint64_t>(wanted, bytes + kOver));
  if (!buffer_.reserve(capacity_)) return false;
  s_.next = in.data() + 2;
  s_.end = in.data() + in.size();
  s_.bits = 0;
  s_.count = 0;
  phase_ = Phase::kHeader;
  last_block_ = false;
  empty_blocks_ = 0;
  adler_ = 1;
  return true;
}

// Make at least `count` bytes behind taken_.
bool Inflater::fill(std::size_t count) {
  const std::size_t piece = std::max(count - (made_ - taken_), kPiece);
  if (made_ + piece + kOver > capacity_) {
    const std::size_t from = std::min(taken_, made_ > kWindow ? made_ - kWindow : 0);
    std::memmove(buffer_.data(), buffer_.data() + from, made_ - from);
    taken_ -= from;
    made_ -= from;
  }
  // Near the end it goes on to it, and one byte more would be too many.
  const bool all = piece + kOver >= left_;
  const std::size_t wanted = all ? static_cast<std::size_t>(left_) + 1 : piece;
  if (made_ + (all ? left_ : piece) + kOver > capacity_) return false;
  const std::uint8_t* const begun = buffer_.data() + made_;
  const std::uint8_t* const until = begun + wanted;
  s_.out = buffer_.data() + made_;
  while (phase_ != Phase::kDone && s_.out < until) {
    const std::uint8_t* const before = s_.out;
    if (phase_ == Phase::kHeader) {
      if (!header()) return false;
    } else if (phase_ == Phase::kChecksum) {
      adler_ = adler32(adler_, begun, static_cast<std::size_t>(s_.out - begun));
      if (!checksum()) return false;
    } else if (phase_ == Phase::kStored) {
      if (!copy_stored(until)) return false;
    } else {
      const int result = HWY_DYNAMIC_DISPATCH(RunCodes)(s_, buffer_.data(), until);
      if (result < 0) return false;
      if (result > 0) phase_ = last_block_ ? Phase::kChecksum : Phase::kHeader;
      if (result > 0 && s_.out == before && ++empty_blocks_ > kEmptyBlocksMax) return false;
    }
  }
  const auto made = static_cast<std::size_t>(s_.out - begun);
  if (phase_ == Phase::kDone ? made != left_ : all) return false;  // too few, or too many
  if (phase_ != Phase::kDone) adler_ = adler32(adler_, begun, made);
  left_ -= made;
  made_ += made;
  return true;
}

void Inflater::refill() {
  std::uint64_t more;
  std::memcpy(&more, s_.next, 8);
  s_.bits |= more << s_.count;
  s_.next += (63 - s_.count) >> 3;
  s_.count |= 56;
}

std::uint32_t Inflater::pull(std::uint32_t count) {
  const auto value = static_cast<std::uint32_t>(s_.bits & ((std::uint64_t{1} << count) - 1));
  s_.bits >>= count;
  s_.count -= count;
  return value;
}

// Go to the next whole byte of the stream, with no bits kept. Returns false behind its end.
bool Inflater::begin_bytes() {
  s_.next -= s_.count / 8;
  s_.bits = 0;
  s_.count = 0;
  return s_.next <= s_.end;
}

bool Inflater::header() {
  if (s_.next > s_.end + 8) return false;
  refill();
  last_block_ = pull(1) != 0;
  switch (pull(2)) {
    case 0:
      return stored();
    case 1:
      fixed_codes();
      break;
    case 2:
      fixed_ready_ = false;
      if (!read_codes()) return false;
      break;
    default:
      return false;
  }
  phase_ = Phase::kCodes;
  return true;
}

bool Inflater::stored() {
  if (!begin_bytes() || s_.end - s_.next < 4) return false;
  const unsigned size = s_.next[0] | s_.next[1] << 8;
  if ((size ^ 0xFFFF) != static_cast<unsigned>(s_.next[2] | s_.next[3] << 8)) return false;
  s_.next += 4;
  stored_left_ = size;
  phase_ = Phase::kStored;
  return size > 0 || ++empty_blocks_ <= kEmptyBlocksMax;
}

bool Inflater::copy_stored(const std::uint8_t* until) {
  const std::size_t some = std::min<std::size_t>(stored_left_, static_cast<std::size_t>(until - s_.out));
  if (static_cast<std::size_t>(s_.end - s_.next) < some) return false;
  std::memcpy(s_.out, s_.next, some);
  s_.out += some;
  s_.next += some;
  stored_left_ -= static_cast<std::uint32_t>(some);
  if (stored_left_ == 0) phase_ = last_block_ ? Phase::kChecksum : Phase::kHeader;
  return true;
}

void Inflater::fixed_codes() {
  if (fixed_ready_) return;
  std::array<std::uint8_t, kFixedSymbols> lengths;
  std::fill_n(lengths.begin(), 144, std::uint8_t{8});
  std::fill_n(lengths.begin() + 144, 112, std::uint8_t{9});
  std::fill_n(lengths.begin() + 256, 24, std::uint8_t{7});
  std::fill_n(lengths.begin() + 280, 8, std::uint8_t{8});
  make_table(lengths, S::kSymbolBits, symbol_entry, false, s_.symbols.data());
  std::array<std::uint8_t, kFixedDistances> fives;
  fives.fill(5);
  make_table(fives, S::kDistanceBits, distance_entry, false, s_.distances.data());
  fixed_ready_ = true;
}

// The codes at the head of a block that has its own.
bool Inflater::read_codes() {
  const int symbols = 257 + static_cast<int>(pull(5));
  const int distances = 1 + static_cast<int>(pull(5));
  const std::uint32_t given = 4 + pull(4);
  if (symbols > kSymbols || distances > kDistances) return false;
  static constexpr std::uint8_t kOrder[19] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                              11, 4,  12, 3, 13, 2, 14, 1, 15};
  constexpr int kBits = 7;
  std::array<std::uint8_t, 19> code_lengths{};
  for (std::uint32_t i = 0; i < given; ++i) {
    if (i % 16 == 0) refill();
    code_lengths[kOrder[i]] = static_cast<std::uint8_t>(pull(3));
  }
  std::array<std::uint32_t, 1 << kBits> codes;
  if (!make_table(code_lengths, kBits, length_entry, false, codes.data())) return false;
  std::array<std::uint8_t, kSymbols + kDistances> lengths;
  const auto count = static_cast<std::uint32_t>(symbols + distances);
  for (std::uint32_t i = 0; i < count;) {
    if (s_.next > s_.end + 8) return false;
    refill();
    const std::uint32_t entry = codes[s_.bits & ((1U << kBits) - 1)];
    pull(entry & 15);
    const std::uint32_t symbol = entry >> 16;
    if (symbol < 16) {
      lengths[i++] = static_cast<std::uint8_t>(symbol);
      continue;
    }
    if (symbol == 16 && i == 0) return false;
    const std::uint8_t value = symbol == 16 ? lengths[i - 1] : std::uint8_t{0};
    const std::uint32_t times = symbol == 16 ? 3 + pull(2) : symbol == 17 ? 3 + pull(3) : 11 + pull(7);
    if (times > count - i) return false;
    std::fill_n(lengths.begin() + i, times, value);
    i += times;
  }
  if (lengths[256] == 0) return false;  // such a block would not end
  const std::span all(lengths);
  return make_table(all.first(static_cast<std::size_t>(symbols)), S::kSymbolBits, symbol_entry, false,
                    s_.symbols.data()) &&
         make_table(all.subspan(static_cast<std::size_t>(symbols), static_cast<std::size_t>(distances)),
                    S::kDistanceBits, distance_entry, true, s_.distances.data());
}

bool Inflater::checksum() {
  if (!begin_bytes() || s_.end - s_.next < 4 || big_endian(s_.next) != adler_) return false;
  phase_ = Phase::kDone;
  return true;
}

}  // namespace carya::transforms

#endif  // HWY_ONCE
