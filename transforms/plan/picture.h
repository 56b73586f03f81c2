#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/error.h"
#include "transforms/kernels/codec/image_codec.h"
#include "transforms/kernels/store/store.h"
#include "transforms/ops/color.h"
#include "transforms/ops/geometry.h"
#include "transforms/plan/plan.h"
#include "transforms/plan/scratch.h"

namespace carya::transforms {

/// Where a picture's pixels come from.
struct PictureSource {
  ImageDecoder* decoder = nullptr;  ///< opened; or, if null, the pixels are in `pixels`
  ColorMode mode = ColorMode::kRgb;
  int orientation = 1;  ///< to be applied: the source's size is the turned one
  ImageView pixels;     ///< of the source from (pixels_top, pixels_left) on
  std::int64_t pixels_top = 0;
  std::int64_t pixels_left = 0;
  ImageSize size;
  std::int64_t channels = 3;
  SampleId id;              ///< whose random numbers color ops draw
  std::uint64_t field = 1;  ///< the bit of this picture's field in Step::fields
};

/// One picture of one sample on its way through its steps, with as little work as gives the same bits as one
/// step after the other, each whole:
///  1. Windows inside the picture only narrow the region that is still to be read, and flips only turn a flag
///     (a flip passes a window, at the mirrored place).
///  2. The region is decoded when a step needs pixels: a resize, a window that reaches outside, or the end.
///  3. A resize whose later steps are only windows inside and flips goes row by row into the store.
///  4. A color op whose values depend on their own pixel only waits for the windows and flips behind it and
///     for others like it: a large picture goes through all of them band by band, while a band is in the
///     cache. Any other is applied to the whole picture; flips that came before it may wait until after it.
///  5. A warp waits for the windows behind it, makes no more than they leave, and reads no more than that
///     takes.
/// Threads: owner only; lives on the stack. Errors: kCorrupt (the codec refuses), kExhausted.
class Picture {
 public:
  Picture(Scratch::Impl& scratch, const PictureSource& source)
      : scratch_(scratch), source_(source), size_(source.size), channels_(source.channels) {
    region_ = {0, 0, size_.height, size_.width};
  }

  /// Run `steps` and store the result by `spec` (its size and flips are set here). `extra`: not the main
  /// image.
  Status render(std::span<const Step> steps, bool extra, StoreSpec spec, std::byte* out);
  /// What of the source `steps` can read.
  Region needed(std::span<const Step> steps) const;
  /// Decode `region` of the source to where no picture on its way is written; valid until the next open().
  Status read_apart(const Region& region, ImageView& view);
  /// Note in `trace` when the source was decoded, when stages ended, and what each gave; `trace` outlives
  /// this.
  void set_trace(PictureTrace* trace) { trace_ = trace; }

 private:
  struct Change {
    std::optional<ColorStep> step;  // none: nothing that waits, only the end of an op
    const Step* ends = nullptr;     // the op that ends here, for the trace
    std::int64_t ns = 0;            // taken in all bands, for the trace
  };

  void mark(const Step& step);
  Status materialize();
  Status read_pixels();
  Status decode_region(const Region& region, ImageView& view);
  Status pad(const Step& step, const Region& window);
  Status unflip();
  Status resize(const Step& step, Interpolation interpolation);
  Status wait_with(const Step& step, Interpolation interpolation);
  Status warp_waiting();
  Status recolor(const Step& step);
  Status wait_with(const Change& change);
  Status change_waiting();
  Status change_in_bands(RowStore* store);
  ImageView change_rows(ImageView band, std::uint8_t* to);
  void mark_changes(std::int64_t at_ns);
  /// Whether the steps that this picture takes only cut and mirror one of this size.
  bool only_cuts(std::span<const Step> steps, ImageSize size) const;
  void stream(const Step& step, Interpolation interpolation, std::span<const Step> rest, StoreSpec spec,
              std::byte* out);
  /// The window of a picture of this size where the flips that wait leave it.
  Region mirrored(Region window, ImageSize size) const;
  void narrow(const Region& window);
  /// How many rows of the picture one band of the changes that wait has; all of them where bands do not pay.
  std::int64_t band_rows() const;
  /// The next free picture buffer as a view of this size.
  Status next_buffer(ImageSize size, std::int64_t channels, MutableImageView& view);

  Scratch::Impl& scratch_;
  const PictureSource& source_;
  ImageSize size_;         // of the picture after the steps so far
  std::int64_t channels_;  // of it, after the changes that wait too
  Region region_;  // of the source, while decoded_ is false; of view_, after; of the last warp waiting
  ImageView view_;
  bool decoded_ = false;  // view_ holds the pixels
  // Warps still to be done, each with what region_ and the flips are before it.
  struct Waiting {
    const Step* step;
    Interpolation interpolation;
    Region region;
    bool flip_horizontal;
    bool flip_vertical;
  };
  std::array<Waiting, 4> waiting_;
  std::size_t waiting_count_ = 0;
  // Changes of single pixels still to be done, behind those warps.
  std::array<Change, 12> changes_;
  std::size_t changes_count_ = 0;
  bool flip_horizontal_ = false;
  bool flip_vertical_ = false;
  int buffer_ = 0;
  PictureTrace* trace_ = nullptr;
};

}  // namespace carya::transforms
