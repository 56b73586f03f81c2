#pragma once

#include <array>
#include <cstdint>

#include "transforms/jpeg/header.h"

namespace carya::jpeg {

/// Finds any code of up to 16 bits by its length, for symbols that the tables below do not have. Invariant: limit[l] is
/// the first 16-bit left-aligned code word longer than l; limit[17] is beyond all.
struct Canonical {
  std::array<std::uint32_t, 18> limit;
  std::array<std::int32_t, 17> offset;  ///< symbol index = (code >> (16 - l)) + offset[l]
  std::array<std::uint8_t, 256> symbols;

  void build(const HuffmanSpec& spec);

  struct Found {
    int length;  ///< 0: no code starts with these bits
    int symbol;
  };
  Found find(std::uint32_t window16) const {
    int length = 1;
    while (length <= 16 && window16 >= limit[length]) ++length;
    if (length > 16) return {0, 0};
    return {length, symbols[static_cast<std::uint32_t>((window16 >> (16 - length)) + offset[length]) & 255]};
  }
};

/// One symbol: code, value bits and step, packed in 32 bits so that one load gives all. 0: not in the table.
///   bits 0-5 code and value bits together, 8-12 code bits, 16-22 step, 24-29 63 - value bits.
/// The step of an AC symbol is run + 1, 16 for ZRL, kStepEnd for the end of the block.
using Symbol = std::uint32_t;
inline constexpr std::uint32_t kStepEnd = 64;

constexpr Symbol dc_symbol(int code_bits, int size) {
  return static_cast<Symbol>(code_bits + size) | static_cast<Symbol>(code_bits) << 8 | 1u << 16 |
         static_cast<Symbol>(63 - size) << 24;
}
constexpr Symbol ac_symbol(int code_bits, int symbol) {
  const int size = symbol & 15;
  const std::uint32_t step =
      size != 0 ? static_cast<std::uint32_t>((symbol >> 4) + 1) : (symbol == 0xF0 ? 16 : kStepEnd);
  return static_cast<Symbol>(code_bits + size) | static_cast<Symbol>(code_bits) << 8 | step << 16 |
         static_cast<Symbol>(63 - size) << 24;
}

/// The table of DC differences. One look-up gives the size; the value follows by sign extension.
struct DcTable {
  static constexpr int kBits = 9;
  alignas(64) std::array<Symbol, 1 << kBits> symbol;
  Canonical canonical;

  void build(const HuffmanSpec& spec);
};

/// The position of the k-th coefficient in natural order. Behind the block is one dump slot for the values that an
/// entry writes past the end of its block (k reaches 62 + 16 + kEnd).
inline constexpr std::array<std::uint8_t, 224> kStoreAt = [] {
  std::array<std::uint8_t, 224> at{};
  for (int k = 0; k < 224; ++k) at[k] = k < 64 ? kZigzag[k] : 64;
  return at;
}();

/// One look-up of 11 bits gives up to two AC symbols. The 11 bits have the codes and the value of the first symbol. The
/// value of the second, or of a single one, stands behind its code, wherever that ends.
///
/// With k the index of the last coefficient, an entry says: block[k + run + 1] = first; k += advance; block[k] = the
/// value whose 63 - shift bits are the last of `bits`. A single symbol has advance run + 1. The end of the block adds
/// kEnd, so a block that ends well leaves k = 63, or kEnd + the index of its last coefficient. In all other cases bit 6
/// of k is set. Such an entry either has no symbol (bits 0, advance kSlow: a long code, a large value), or it reached
/// over the end of its block. Measured: 11 bits beats 10 and 12 (README).
struct PairTable {
  static constexpr int kBits = 11;
  static constexpr int kEnd = 129;    // with a last index of 63, which nothing can follow, bit 6 of k is set
  static constexpr int kSlow = 64;    // k from 0 to 62 becomes 64 to 126
  static constexpr int kReach = 18;   // the most bits of an entry: three of them fit a reader
  static constexpr int kSizeMax = 7;  // the most bits of a value; more would make more quantisers coarse
  static constexpr int kUnusual = 64;
  struct Pair {
    std::uint8_t bits;
    std::uint8_t run;
    std::int8_t first;
    std::uint8_t shift;
  };
  static_assert(kSizeMax <= 7, "Pair::first holds a value and its sign");
  alignas(64) std::array<Pair, 1 << kBits> pair;
  alignas(64) std::array<std::uint8_t, 1 << kBits> advance;
  std::array<std::uint8_t, 224> store_at = kStoreAt;  ///< here, so that the loop needs no other base register
};

/// Single symbols in the form that table_join.h joins into pairs.
struct Singles {
  alignas(64) std::array<std::uint32_t, 1 << PairTable::kBits> entry;

  void of_ac(const HuffmanSpec& spec);
};

/// The tables of AC coefficients: pairs of symbols, and single symbols that no pair has.
struct AcTable {
  static constexpr int kSymbolBits = 10;
  PairTable pairs;
  alignas(64) std::array<Symbol, 1 << kSymbolBits> symbol;
  Canonical canonical;

  void build(const HuffmanSpec& spec);
};

/// AC coefficients outside of the region: as many symbols as have their codes inside 12 bits, without values. `advance`
/// is the sum of the steps; from kSkipEnd on, the block has ended. `bits` counts codes and values; it is 0 for a long
/// code.
struct SkipTable {
  static constexpr int kBits = 12;
  static constexpr int kSkipEnd = 128;
  struct Entry {
    std::uint8_t bits;
    std::uint8_t advance;
  };
  alignas(64) std::array<Entry, 1 << kBits> entry;

  void build(const HuffmanSpec& spec);
};

/// The tables of one decoder. A table is rebuilt only if a file defines another one than the file before. Invariant:
/// slot i of a kind was built from exactly the bytes in built_[...][i].
class TableCache {
 public:
  const DcTable& dc(int slot, const HuffmanSpec& spec);
  const AcTable& ac(int slot, const HuffmanSpec& spec);
  const SkipTable& skip(int slot, const HuffmanSpec& spec);

 private:
  struct Built {
    int bytes = 0;
    std::array<std::uint8_t, 16 + 256> spec;
  };
  static bool same(Built& built, const HuffmanSpec& spec);

  std::array<DcTable, 4> dc_;
  std::array<AcTable, 4> ac_;
  std::array<SkipTable, 4> skip_;
  std::array<std::array<Built, 4>, 3> built_;
};

}  // namespace carya::jpeg
