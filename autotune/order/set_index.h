#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "autotune/order/chain.h"

namespace carya::autotune {

/// Numbers for sets of ops, in the order of their first appearance: a hash table with open addressing.
/// Threads: owner only.
class SetIndex {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  SetIndex() : places_(kPlacesMin, kNone) {}
  std::size_t size() const { return sets_.size(); }
  /// The number of the set, or kNone.
  std::uint32_t find(OpSet ops) const { return places_[place(ops)]; }
  /// The number of the set; size() before the call if it is new.
  std::uint32_t find_or_add(OpSet ops) {
    const std::size_t at = place(ops);
    if (places_[at] != kNone) return places_[at];
    const auto number = static_cast<std::uint32_t>(sets_.size());
    places_[at] = number;
    sets_.push_back(ops);
    if (2 * sets_.size() > places_.size()) grow();
    return number;
  }

 private:
  static constexpr std::size_t kPlacesMin = 64;  // a power of two, as every size of places_

  /// Where the set is, or the free place where it belongs. Half of the places are free, so there is one.
  std::size_t place(OpSet ops) const {
    const std::size_t mask = places_.size() - 1;
    // Both ends of the set must reach the low bits: fold, multiply, fold. Source: MurmurHash3's fmix64.
    std::uint64_t mixed = (ops ^ (ops >> 33)) * 0xFF51AFD7ED558CCDu;
    mixed ^= mixed >> 33;
    std::size_t at = static_cast<std::size_t>(mixed) & mask;
    while (places_[at] != kNone && sets_[places_[at]] != ops) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    places_.assign(2 * places_.size(), kNone);
    for (std::uint32_t number = 0; number < sets_.size(); ++number) places_[place(sets_[number])] = number;
  }

  std::vector<std::uint32_t> places_;
  std::vector<OpSet> sets_;
};

}  // namespace carya::autotune
