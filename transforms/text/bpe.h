#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "transforms/text/pretokens.h"

namespace carya::text {

/// One rule: `left` and `right` side by side become `result`. Where several rules apply, the one of the lowest rank does,
/// and of equal ranks the leftmost.
struct BpeMerge {
  std::uint32_t left = 0, right = 0, rank = 0, result = 0;
};

/// A byte-level vocabulary as a tokenizer's file has it, which is checked.
struct BpeVocabulary {
  Pretokens pretokens = Pretokens::kGpt2;
  std::array<std::uint32_t, 256> byte_ids{};  ///< the token of each byte
  std::span<const BpeMerge> merges{};
  /// Tokens that a whole pretoken is before any rule applies: their bytes one behind the other, where each ends, and
  /// their ids. Empty where rules alone count.
  std::string_view whole{};
  std::span<const std::uint64_t> whole_ends{};
  std::span<const std::uint32_t> whole_ids{};
};

/// Byte-level byte-pair encoding. Threads: immutable.
class Bpe {
 public:
  static constexpr std::uint32_t kIdsMax = (1 << 21) - 1, kRanksMax = (1 << 22) - 1;

  /// Errors: kInvalidArgument: an id or a rank beyond the limits, two rules of one pair, two results of one rank, ends
  /// that do not rise or lie outside.
  static Result<std::shared_ptr<const Bpe>> create(const BpeVocabulary& vocabulary);

  Pretokens pretokens() const { return pretokens_; }
  /// Write the ids of one pretoken, which has at least one byte and less than 2^31, to `ids`, which has room for one per
  /// byte. Returns how many. Cost: n log n. May throw std::bad_alloc.
  std::size_t merge(std::string_view pretoken, std::uint32_t* ids) const;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  Bpe() = default;
  Status add_merges(std::span<const BpeMerge> merges);
  Status add_whole(const BpeVocabulary& vocabulary);
  std::uint32_t rank(std::uint32_t left, std::uint32_t right) const;
  std::uint32_t find_whole(std::string_view pretoken) const;
  std::size_t merge_short(std::string_view pretoken, std::uint32_t* ids) const;
  std::size_t merge_long(std::string_view pretoken, std::uint32_t* ids) const;

  Pretokens pretokens_ = Pretokens::kGpt2;
  std::array<std::uint32_t, 256> byte_ids_{};
  std::vector<std::uint32_t> byte_ranks_;  // of pairs of bytes
  std::vector<std::uint64_t> pairs_;       // by the pair's hash: left, right, rank; all ones: free
  unsigned pair_shift_ = 0;
  std::vector<std::uint32_t> results_;  // by rank
  struct Whole {
    std::uint64_t begin = 0;
    std::uint32_t bytes = 0, id = kNone;
  };
  std::vector<char> whole_bytes_;
  std::vector<Whole> wholes_;  // by the bytes' hash; no id: free
};

/// Encodes texts, and remembers what pretokens have come to. At most 28 MiB, of which only what is used counts.
/// Threads: one at a time.
class BpeEncoder {
 public:
  /// Remembers up to two short pretokens in each of 2^`set_bits` places. May throw std::bad_alloc.
  explicit BpeEncoder(std::shared_ptr<const Bpe> bpe, unsigned set_bits = 18);

  /// The first `most` ids of `text`, which stay until the next call. Errors: kCorrupt: it is no UTF-8, with the place;
  /// kExhausted: more than 1 GiB. May throw std::bad_alloc, and can go on then.
  Result<std::span<const std::uint32_t>> encode(std::string_view text, std::size_t most = SIZE_MAX);

 private:
  static constexpr std::size_t kShortBytes = 16, kShortIds = 3, kSpare = kShortIds;
  static constexpr std::size_t kAhead = 16;  ///< pretokens that are looked for together
  /// A pretoken of few bytes and ids. Free while it has no bytes.
  struct Short {
    std::uint64_t low = 0, high = 0;
    std::array<std::uint32_t, kShortIds> ids{};
    std::uint16_t bytes = 0, count = 0;
  };
  /// Any other one, whose bytes and ids lie elsewhere.
  struct Long {
    std::uint64_t hash = 0;
    std::uint32_t bytes = 0, count = 0, bytes_at = 0, ids_at = 0;
  };

  /// A pretoken, and where it is remembered if it is short, as far as that is on its way to the cache.
  struct Found {
    std::string_view pretoken{};
    std::array<std::uint64_t, 2> key{};
    std::uint64_t hash = 0;
    Short* set = nullptr;  ///< none: it is long
  };

  template <Pretokens kKind>
  std::uint32_t* encode_as(std::string_view text, std::size_t most);
  Found found(std::string_view pretoken, const char* end);  // the text ends at `end`
  // They write ids to `to`, where there is room for one per byte and kSpare more, and return the end of the ids.
  std::uint32_t* add(const Found& found, std::uint32_t* to);
  std::uint32_t* add_other(const Found& found, std::uint32_t* to);  // which is in no set

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  const std::shared_ptr<const Bpe> bpe_;
  const std::size_t sets_;
  std::unique_ptr<Short[], Free>
      shorts_;  // sets of two, in pages that the system makes when they are written to
  std::vector<Long> longs_;
  std::vector<char> long_bytes_;
  std::vector<std::uint32_t> long_ids_;
  std::unique_ptr<std::uint32_t[]> ids_;  // of the last text
  std::size_t room_ = 0;
};

}  // namespace carya::text
