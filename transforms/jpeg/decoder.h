#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "transforms/jpeg/header.h"

namespace carya {
class BandRunner;
class Patience;
}  // namespace carya

namespace carya::jpeg {

class CoefficientSink;
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
  kGray,  ///< only Y, as libjpeg-turbo's JCS_GRAYSCALE
};

constexpr int channels(Mode mode) {
  return mode == Mode::kRgb ? 3 : 1;
}

/// The end of a decode. After anything but kDone and kGivenUp, the caller decodes again with libjpeg-turbo, whose
/// pixels count.
enum class Outcome : std::uint8_t {
  kDone,
  kNotOrdinary,  ///< see Decoder::recognise()
  /// An invalid code, a coefficient past its block, missing bits, or a restart marker out of order.
  kDamaged,
  kTail,       ///< the whole scan was read, but its last block is not followed by the end marker
  kRange,      ///< coefficients so large that libjpeg-turbo's 16-bit sums could wrap
  kIndexLies,  ///< only inside the decoder: decode() then decodes without the index
  kGivenUp,    ///< nobody wants the picture any more (set_patience()); nothing is known of it
};

std::string_view outcome_name(Outcome outcome);

/// Takes lines as they become complete, while they are in the cache. It is for consumers that need no whole image.
class LineSink {
 public:
  virtual ~LineSink() = default;
  /// Take lines [first, first + count) of the region, `stride` bytes apart. They are valid during the call. Lines come
  /// in order, at most kBandLines at a time. If first is 0 again, earlier lines are void, since an index was found to
  /// be wrong.
  virtual void take(const std::uint8_t* lines, std::size_t stride, int first, int count) = 0;
};
inline constexpr int kBandLines = 16;

/// Decodes ordinary JPEGs, whole or in part, with libjpeg-turbo's pixels (islow, fancy upsampling). It returns
/// everything doubtful to the caller.
///
/// Threads: owner only; one decoder per thread keeps its scratch memory.
class Decoder {
 public:
  Decoder();
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  /// Whether decode() takes this file, by its header alone. If kOrdinary, header() describes it.
  Ordinary recognise(std::span<const std::uint8_t> jpeg);
  const Header& header() const;

  /// Decode `region` into `out`.
  ///
  /// Shape:   out is (region.height, region.width, channels(mode)), row-major; nothing else is written.
  /// Units:   stride in bytes, >= region.width * channels(mode); values 0..255.
  /// Errors:  an Outcome other than kDone; then `out` is unspecified. A region that is empty or outside the image is a
  ///          bug. Damage below the region is not seen; damage above or inside it always is.
  /// Index:   `index` (may be null) is used if it fits this scan (length and hash). It saves the work above and left of
  ///          the region. `made` (may be null, may be the same object) gets the points of the part that was read, on
  ///          kDone only.
  /// Threads: owner only.
  /// Cost:    no allocation after the first call of a given size; ~3.6 ns per compressed byte down to the region's end
  ///          + 1.3 ns per pixel (bench/jpeg.cc).
  /// Source:  ITU-T T.81; same pixels as libjpeg-turbo decoding all and cropping (tests/jpeg/decoder_test.cc).
  Outcome decode(std::span<const std::uint8_t> jpeg, const Region& region, Mode mode, std::uint8_t* out,
                 std::size_t stride, const Index* index = nullptr, Index* made = nullptr);

  /// Make decode() cut large regions into bands from now on, which `runner` (null: no bands) may run at the same time.
  /// Outcome, pixels and points stay the same: what is not kDone in bands is decoded again without them. The runner
  /// must outlive the decodes.
  void set_bands(BandRunner* runner);

  /// Decode as decode() does, line by line into `sink`. The lines count only if the result is kDone.
  Outcome decode_bands(std::span<const std::uint8_t> jpeg, const Region& region, Mode mode, LineSink& sink,
                       const Index* index = nullptr, Index* made = nullptr);

  /// Give all coefficients of the file to `sink`, row by row. kDone means that pixels made from them, of any region,
  /// are libjpeg-turbo's. Otherwise the rows that `sink` got are void. Cost: that of a whole decode without colour.
  Outcome read_coefficients(std::span<const std::uint8_t> jpeg, CoefficientSink& sink);

  /// Asked after each row of MCUs from now on, which changes nothing until it says no: then decode() ends with
  /// kGivenUp. Null: none. Bands ask nobody, since several threads make them. It must outlive the decodes.
  void set_patience(Patience* patience);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace carya::jpeg
