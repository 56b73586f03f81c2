#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transforms/jpeg/header.h"

namespace carya::coefficients {

/// The zigzag index of each natural place.
alignas(64) inline constexpr std::array<std::uint8_t, 64> kNaturalToZigzag = [] {
  std::array<std::uint8_t, 64> table{};
  for (std::size_t k = 0; k < 64; ++k) table[jpeg::kZigzag[k]] = static_cast<std::uint8_t>(k);
  return table;
}();

/// For each quarter of a block in zigzag order, which of its 16 bytes belongs to each natural place; 128: none.
alignas(64) inline constexpr std::array<std::uint8_t, 256> kQuarters = [] {
  std::array<std::uint8_t, 256> table{};
  for (std::size_t quarter = 0; quarter < 4; ++quarter)
    for (std::size_t i = 0; i < 64; ++i)
      table[64 * quarter + i] = kNaturalToZigzag[i] / 16 == quarter ? kNaturalToZigzag[i] % 16 : 128;
  return table;
}();

/// A byte of ones for each bit.
alignas(64) inline constexpr std::array<std::uint64_t, 256> kByteMasks = [] {
  std::array<std::uint64_t, 256> table{};
  for (std::size_t bits = 0; bits < 256; ++bits)
    for (std::size_t i = 0; i < 8; ++i)
      if ((bits >> i & 1) != 0) table[bits] |= std::uint64_t{255} << (8 * i);
  return table;
}();

}  // namespace carya::coefficients
