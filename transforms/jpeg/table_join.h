#pragma once

#include <cstdint>

#include "transforms/jpeg/huffman.h"

// The last step of building a table, which takes most of the time: each entry of single symbols is joined with the
// entries behind it. It runs on the best SIMD target.
namespace carya::jpeg {

/// The bits of one symbol: 0-7 code and value bits, 8-11 value bits, 12-15 run, 16-23 advance (PairTable), 24-31 the
/// value if the table's bits hold all of it.
struct PairBits {
  static constexpr int kSizeShift = 8;
  static constexpr int kRunShift = 12;
  static constexpr int kAdvanceShift = 16;
  static constexpr int kValueShift = 24;
};

/// Fill `table` with symbols, each joined with the next one if both fit.
void join_pairs(const Singles& singles, PairTable& table);

/// Fill table.entry from 1 << SkipTable::kBits single symbols (64-byte aligned): bits 0-7 code and value bits, 8-15
/// code bits, 16-23 advance. 0: no symbol.
void join_skips(const std::uint32_t* singles, SkipTable& table);

}  // namespace carya::jpeg
