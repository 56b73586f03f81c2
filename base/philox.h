#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace carya {

/// Philox4x32-10, a counter-based random function. The same key and counter give the same four words on every machine.
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; known answers of Random123. Threads:
/// pure.
struct Philox4x32 {
  using Counter = std::array<std::uint32_t, 4>;
  using Key = std::array<std::uint32_t, 2>;
  static Counter block(Counter counter, Key key);
};

/// The key of one op: H(seed, op name, occurrence of that name in the chain) (DESIGN section 4).
Philox4x32::Key op_key(std::uint64_t seed, std::string_view op_name, std::uint32_t name_occurrence);

/// The random numbers of one op for one sample: a function of (key, epoch, record, occurrence, draw).
///
/// `occurrence` is 0 at a record's own position and 1 + position for a substitute. Draw k does not depend on earlier
/// draws. Epoch, record, occurrence and draw have 224 bits, but a counter has 128. So one extra block folds two of them
/// into the key:
///     fold  = Philox(counter = (epoch low, epoch high, occurrence low, occurrence high), key)
///     words = Philox(counter = (record low, record high, fold[2], block), key = (fold[0], fold[1]))
/// and draw k is word k % 4 of block k / 4. Two (epoch, occurrence) pairs of one op share their numbers only if 96 bits
/// of their folds agree. Range: 2^34 words per sample. Threads: owner only; a plain value, no allocation.
class SampleRng {
 public:
  SampleRng(Philox4x32::Key key, std::uint64_t epoch, std::uint64_t record, std::uint64_t occurrence);

  std::uint32_t next_u32();
  /// A uniform number in [0, 1), with the top 53 bits of two draws (the first is the low half).
  double next_double();
  /// A uniform number in [low, high).
  double next_between(double low, double high) { return low + (high - low) * next_double(); }
  /// A uniform number in [0, bound), bound >= 1, without bias. Lemire's rejection on 64 bits takes at least two draws.
  std::uint64_t next_below(std::uint64_t bound);

 private:
  std::uint64_t next_u64();

  Philox4x32::Key key_;
  Philox4x32::Counter counter_;  // the last word is the block number and counts up
  Philox4x32::Counter words_{};
  int used_ = 4;  // how many of words_ were returned
};

/// The key of one op with the number of epochs that share its random numbers.
struct DrawKey {
  Philox4x32::Key key{};
  std::uint64_t epochs = 1;  ///< epoch e has the numbers of e - e mod epochs; at least 1

  SampleRng at(std::uint64_t epoch, std::uint64_t record, std::uint64_t occurrence) const {
    return {key, epoch - epoch % epochs, record, occurrence};
  }
};

}  // namespace carya
