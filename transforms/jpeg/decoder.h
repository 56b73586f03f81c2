#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "transforms/jpeg/header.h"

namespace carya::jpeg {

class Index;

/// A rectangle of pixels.
struct Region {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
};

enum class Mode : std::uint8_t {
  kRgb,   ///< interleaved R, G, B; a gray file gives R = G = B
  kGray,  ///< Y alone, as libjpeg-turbo's JCS_GRAYSCALE
};

constexpr int channels(Mode mode) {
  return mode == Mode::kRgb ? 3 : 1;
}

/// How a decode ended. Anything but kDone: decode again with libjpeg-turbo, and its pixels count.
enum class Outcome : std::uint8_t {
  kDone,
  kNotOrdinary,  ///< see recognise()
  kDamaged,      ///< a code that is none, a coefficient past its block, bits missing, a restart marker out of
                 ///< order
  kTail,         ///< the whole scan was read and something other than the end marker follows its last block
  kRange,        ///< coefficients so large that libjpeg-turbo's 16-bit sums could wrap
  kIndexLies,    ///< inside the decoder only: decode() then decodes without the index
};

std::string_view outcome_name(Outcome outcome);

/// Takes lines as they become complete, while they are in the cache: for a consumer that needs no whole
/// image.
class LineSink {
 public:
  virtual ~LineSink() = default;
  /// Lines [first, first + count) of the region, `stride` bytes apart; valid during the call. They come in
  /// order, at most kBandLines at a time. first = 0 again: forget what came before (an index was found to
  /// lie).
  virtual void take(const std::uint8_t* lines, std::size_t stride, int first, int count) = 0;
};
inline constexpr int kBandLines = 16;

/// Decodes ordinary JPEGs with libjpeg-turbo's pixels (islow, fancy upsampling), whole or in part, and hands
/// everything doubtful back.
///
/// Threads: owner only; one decoder per thread keeps its scratch memory.
class Decoder {
 public:
  Decoder();
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  /// Whether this file is one for decode(), by its header alone. After kOrdinary header() describes it.
  Ordinary recognise(std::span<const std::uint8_t> jpeg);
  const Header& header() const;

  /// Decode `region` into `out`.
  ///
  /// Shape:   out is (region.height, region.width, channels(mode)), row-major; nothing else is written.
  /// Units:   stride in bytes, >= region.width * channels(mode); values 0..255.
  /// Errors:  an Outcome other than kDone; then `out` is unspecified. A region that is empty or outside the
  ///          image is a bug. Damage below the region is not seen, damage above or inside it always is.
  /// Index:   `index` (may be null) is used where it fits this scan (length and hash); it saves the work
  ///          above and left of the region. `made` (may be null, may be the same object) gets the points of
  ///          what was read, on kDone only.
  /// Threads: owner only.
  /// Cost:    no allocation after the first call of a given size; ~3.6 ns per compressed byte down to the
  /// region's end +
  ///          1.3 ns per pixel (bench/jpeg.cc).
  /// Source:  ITU-T T.81; same pixels as libjpeg-turbo decoding all and cropping
  /// (tests/jpeg/decoder_test.cc).
  Outcome decode(std::span<const std::uint8_t> jpeg, const Region& region, Mode mode, std::uint8_t* out,
                 std::size_t stride, const Index* index = nullptr, Index* made = nullptr);

  /// The same, line by line into `sink`. What it got counts only if the answer is kDone.
  Outcome decode_bands(std::span<const std::uint8_t> jpeg, const Region& region, Mode mode, LineSink& sink,
                       const Index* index = nullptr, Index* made = nullptr);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace carya::jpeg
