#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace carya::transforms {

inline constexpr int kIndexSpacingMax = 65'535;  ///< of FieldIndex::spacing: an index has 16 bits for it

/// What became of the stored index in one decode.
enum class IndexUse : std::uint8_t {
  kNone,      ///< there was none, or the picture is not one for our own decoder
  kUsed,      ///< decoding began at its points
  kRefused,   ///< not an index, another file's, or one that says something else than the scan
  kMismatch,  ///< verification found other pixels or points than it led to; the right ones were delivered
};

/// Side information of one encoded field for one run: where decoding of its picture may begin, and what the
/// run learned about that. It can save time and cannot change a bit.
/// Bytes: transforms/jpeg/FORMAT.md; nothing in them is trusted.
struct FieldIndex {
  std::span<const std::byte> known;  ///< the stored index; empty: none
  /// MCUs between two points of an index made anew, 0: one point per MCU row. A stored one that is coarser is
  /// made anew; a finer one stays as it is.
  int spacing = 0;
  bool verify = false;  ///< decode once more without the index and compare

  std::vector<std::uint8_t> made;  ///< out: the index to be stored in place of `known`; empty: keep it
  IndexUse use = IndexUse::kNone;  ///< out
};

/// What an index's bytes say of themselves.
struct IndexFacts {
  int spacing = 0;
  std::uint64_t points = 0;      ///< known
  std::uint64_t points_max = 0;  ///< of a complete one
};

/// Reads indexes and completes them without delivering pixels. Threads: owner only.
class IndexMaker {
 public:
  IndexMaker();
  ~IndexMaker();
  IndexMaker(IndexMaker&&) noexcept;
  IndexMaker& operator=(IndexMaker&&) noexcept;

  /// Nothing when the bytes are not an index.
  std::optional<IndexFacts> facts(std::span<const std::byte> known);

  /// Extend `index.known` to all points of this file's scan, as a decode would. False: a file that gets no
  /// index (not ordinary, restart intervals, damage). `index.made` stays empty when `known` is complete.
  /// Cost:   ~2 ns per byte of the scan behind the last known point; no allocation in steady state.
  bool complete(std::span<const std::byte> file, FieldIndex& index);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace carya::transforms
