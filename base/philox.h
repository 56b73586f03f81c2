#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

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

/// Which epochs have the same random numbers: groups of some that follow each other, each with those of its first one.
/// From some epochs on groups may have other lengths; where such a part begins, a group ends. By default each epoch is a
/// group. Threads: const is thread-safe.
class EpochGroups {
 public:
  struct Part {
    std::uint64_t from = 0;    ///< the epoch
    std::uint64_t epochs = 1;  ///< of a group, at least 1
    bool operator==(const Part&) const = default;
  };
  static constexpr std::uint64_t kNoEnd = ~std::uint64_t{0};

  EpochGroups() = default;
  /// `parts`: at least one, ascending, the first from epoch 0 on.
  explicit EpochGroups(std::vector<Part> parts);

  const std::vector<Part>& parts() const { return parts_; }
  /// Whether each epoch is a group.
  bool each_alone() const;
  /// The first epoch of the group in which an epoch lies.
  std::uint64_t first(std::uint64_t epoch) const;
  /// The first one behind that group; kNoEnd: there is none.
  std::uint64_t end(std::uint64_t epoch) const;
  /// The part in which an epoch lies, as its index.
  std::size_t part_at(std::uint64_t epoch) const;

 private:
  std::vector<Part> parts_{Part{}};
};

/// The key of one op, and which epochs share its random numbers.
struct DrawKey {
  Philox4x32::Key key{};
  const EpochGroups* groups = nullptr;  ///< the pipeline's, which outlives this; null: each epoch is one

  SampleRng at(std::uint64_t epoch, std::uint64_t record, std::uint64_t occurrence) const {
    return {key, groups ? groups->first(epoch) : epoch, record, occurrence};
  }
};

}  // namespace carya
