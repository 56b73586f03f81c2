#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace carya::transforms {

/// The largest FieldIndex::spacing: an index has 16 bits for it.
inline constexpr int kIndexSpacingMax = 65'535;

/// What happened to the stored index in one decode.
enum class IndexUse : std::uint8_t {
  kNone,      ///< there was none, or our own decoder does not take the picture
  kUsed,      ///< decoding began at its points
  kRefused,   ///< it is no index, that of another file, or it disagrees with the scan
  kMismatch,  ///< verification found that it led to wrong pixels or points; the right pixels were delivered
};

/// Side information of one encoded field for one run: where decoding may begin, and what the run learned about that. It
/// can save time and cannot change a bit. The bytes are those of transforms/jpeg/FORMAT.md; nothing in them is trusted.
struct FieldIndex {
  std::span<const std::byte> known;  ///< the stored index; empty: none
  /// The MCUs between two points of a new index; 0: one point per MCU row. A coarser stored index is made anew, a finer
  /// one stays.
  int spacing = 0;
  bool verify = false;  ///< decode once more without the index, and compare
  /// The field's bytes are packed coefficients of a JPEG (transforms/coefficients), not the file. They have its pixels.
  bool packed = false;

  std::vector<std::uint8_t> made;  ///< out: the index to store in place of `known`; empty: keep that
  IndexUse use = IndexUse::kNone;  ///< out
  bool damaged = false;  ///< out: the packed coefficients are not whole, so that the file itself is needed
};

/// The properties of an index, from its bytes.
struct IndexInfo {
  int spacing = 0;
  std::uint64_t points = 0;      ///< the number of known points
  std::uint64_t points_max = 0;  ///< the number of points of the complete index
};

/// Reads indexes, and completes them without decoding pixels. Threads: owner only.
class IndexMaker {
 public:
  IndexMaker();
  ~IndexMaker();
  IndexMaker(IndexMaker&&) noexcept;
  IndexMaker& operator=(IndexMaker&&) noexcept;

  /// The properties of the index `known`; nothing if the bytes are no index.
  std::optional<IndexInfo> facts(std::span<const std::byte> known);

  /// Extend `index.known` to all points of this file's scan, as a decode would do, into `index.made`; that stays empty
  /// if `known` is complete. Returns false if the file gets no index (not ordinary, restart intervals, damage). Cost:
  /// ~2 ns per byte of the scan behind the last known point; no allocation in steady state.
  bool complete(std::span<const std::byte> file, FieldIndex& index);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace carya::transforms
