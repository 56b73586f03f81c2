#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transforms/kernels/image/row_buffer.h"

namespace carya::transforms {

/// The tables and the place of an Inflater, as its inner loop sees them.
struct InflateState {
  // An entry: bits 0 to 7 are what it takes (its code and the extra bits behind it), 8 to 11 the code alone, 16 to 30
  // its value: a byte, the least length or distance, or where a second table begins (8 to 11: for how many bits).
  static constexpr std::uint32_t kLiteral = 1U << 31;
  static constexpr std::uint32_t kSpecial = 1U << 15;  ///< with one of the next two, or no code at all
  static constexpr std::uint32_t kSecond = 1U << 14;
  static constexpr std::uint32_t kEnd = 1U << 13;
  static constexpr int kSymbolBits = 11;  ///< of the first table; longer codes have a second one
  static constexpr int kDistanceBits = 8;
  static constexpr int kCodeBitsMax = 15;

  const std::uint8_t* next = nullptr;  ///< the first byte that `bits` does not count
  const std::uint8_t* end = nullptr;   ///< of the stream; kSlack bytes behind it can be read
  std::uint64_t bits = 0;  ///< the lowest `count` are the next ones; those above are right or zero
  std::uint32_t count = 0;
  std::uint8_t* out = nullptr;
  // Second tables: each begins at two codes or more, so that half as many as there are codes are the most.
  std::array<std::uint32_t, (1 << kSymbolBits) + (144 << (kCodeBitsMax - kSymbolBits))> symbols{};
  std::array<std::uint32_t, (1 << kDistanceBits) + (16 << (kCodeBitsMax - kDistanceBits))> distances{};
};

/// Unpacks a zlib stream (RFC 1950 and 1951) of which it is known how many bytes it gives, piece by piece.
///
/// It is stricter than zlib: what it unpacks to the end, zlib unpacks to the same bytes. What it refuses may still be
/// a stream for zlib, so that a caller asks zlib then. It refuses, beyond what is wrong, windows that are smaller
/// than they may have to be, codes that zlib takes although they are not complete (but for distances, where encoders
/// write them), and many blocks without a byte.
///
/// Threads: owner only.
/// Cost:    1.1 to 1.25 times that of libdeflate 1.14 (masks, photos; AVX2), half of zlib's for photos; memory for a
///          piece and the 32 KiB before it, taken once.
class Inflater {
 public:
  static constexpr std::size_t kSlack = 64;

  /// Begin a stream that gives `bytes`, of which take() wants at most `longest` at a time. `in` has kSlack bytes
  /// behind it that can be read, and stays valid until the last take(). Returns false if there is no memory, or the
  /// stream is refused.
  bool begin(std::span<const std::uint8_t> in, std::uint64_t bytes, std::size_t longest);

  /// The next `count` bytes, valid until the next call; null: refused. The last byte is not given before the stream's
  /// end and checksum were found right. All calls together ask for `bytes`. They may be written to once nothing is
  /// left.
  std::uint8_t* take(std::size_t count) {
    if (made_ - taken_ < count && !fill(count)) return nullptr;
    taken_ += count;
    return buffer_.data() + (taken_ - count);
  }

 private:
  enum class Phase : std::uint8_t { kHeader, kCodes, kStored, kChecksum, kDone };

  bool fill(std::size_t count);
  bool header();
  bool read_codes();
  void fixed_codes();
  bool stored();
  bool copy_stored(const std::uint8_t* until);
  bool checksum();
  void refill();
  std::uint32_t pull(std::uint32_t count);
  bool begin_bytes();

  InflateState s_;
  RowBuffer buffer_;
  std::size_t capacity_ = 0;
  // Places in buffer_: taken_ <= made_ <= capacity_. The 32 KiB before made_ are there, or all that was made.
  std::size_t taken_ = 0;
  std::size_t made_ = 0;
  std::uint64_t left_ = 0;  // bytes that the stream still has to give, behind made_
  Phase phase_ = Phase::kDone;
  bool last_block_ = false;
  bool fixed_ready_ = false;  // the tables are those of fixed codes
  int empty_blocks_ = 0;
  std::uint32_t stored_left_ = 0;
  std::uint32_t adler_ = 1;
};

/// Adler-32 of more bytes behind those that gave `before` (1 for none).
std::uint32_t adler32(std::uint32_t before, const std::uint8_t* bytes, std::size_t count);

}  // namespace carya::transforms
