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
#include "transforms/ops/decode.h"
#include "transforms/ops/geometry.h"
#include "transforms/plan/plan.h"
#include "transforms/plan/scratch.h"

namespace carya::transforms {

/// The pixels that a picture starts from.
struct PictureSource {
  ImageDecoder* decoder = nullptr;      ///< opened; null: the pixels are in `pixels`
  const DecodeImage* decode = nullptr;  ///< the op of `decoder`; the next two belong to it too
  const ImageInfo* info = nullptr;      ///< the header of the opened file
  std::int64_t file_bytes = 0;
  int orientation = 1;  ///< still to be applied: `size` is the turned one
  ImageView pixels;     ///< the part of the source from (pixels_top, pixels_left) on
  std::int64_t pixels_top = 0;
  std::int64_t pixels_left = 0;
  ImageSize size;
  std::int64_t channels = 3;
  SampleId id;              ///< color ops draw its random numbers
  std::uint64_t field = 1;  ///< the bit of this picture's field in Step::fields
  bool extra = false;       ///< not the main image
};

/// One picture of one sample during its steps. The result has the bits of running each step on the whole picture, with
/// as little work as possible:
///
/// 1. Windows inside the picture only narrow the region that is still to be read. Flips only change a flag (a flip
///    passes a window, which moves to the mirrored place).
/// 2. The region is decoded when a step needs pixels: a resize, a window that reaches outside, or the end. Flips before
///    a nearest resize are done by the columns and rows that it takes.
/// 3. A resize that is followed only by windows inside and flips goes row by row into the store.
/// 4. A color op whose values depend on their own pixel waits for the windows and flips after it, and for other color
///    ops like it. A large picture then goes through all of them band by band, while a band is in the cache. Any other
///    color op is applied to the whole picture; flips before it may wait until after it.
/// 5. A warp waits for the windows after it, makes only what they leave, and reads only the pixels for that.
///
/// Threads: owner only; lives on the stack. Errors: kCorrupt (the codec refuses), kExhausted.
class Picture {
 public:
  Picture(Scratch::Impl& scratch, const PictureSource& source)
      : scratch_(scratch), source_(source), size_(source.size), channels_(source.channels) {
    region_ = {0, 0, size_.height, size_.width};
  }

  /// Run `steps` and store the result as `spec` says, whose size and flips this call sets.
  Status render(std::span<const Step> steps, StoreSpec spec, std::byte* out);
  /// The part of the source that `steps` can read.
  Region needed(std::span<const Step> steps) const;
  /// Decode `region` of the source into memory that no picture in progress uses. `view` is valid until the next open().
  /// Record in `trace` when the source was decoded, when stages ended, and the bytes of each result. `trace` outlives
  /// this object.
  Status read_apart(const Region& region, ImageView& view);
  /// Note in `trace` when the source was decoded, when stages ended, and what each gave; `trace` outlives
  /// this.
  void set_trace(PictureTrace* trace) { trace_ = trace; }

 private:
  class ChangeParts;
  struct Change {
    std::optional<ColorStep> step;  // none: no change, only the end of an op
    const Step* ends = nullptr;     // the op that ends with this change, for the trace
    std::int64_t ns = 0;            // its time in all bands, for the trace
  };

  void mark(const Step& step);
  /// Errors: kTimeout if the sample was given up.
  Status still_wanted() const;
  Status materialize();
  Status read_pixels();
  Status decode_region(const Region& region, ImageView& view);
  Status pad(const Step& step, const Region& window);
  Status before_resize(const Step& step, ResizeSpec& spec);
  Status unflip();
  Status resize(const ResizeSpec& spec);
  /// Whether view_ is large, and may go through its next pass in bands on several cores.
  bool wants_bands() const;
  Status wait_with(const Step& step);
  Status warp_waiting();
  Status recolor(const Step& step);
  Status wait_with(const Change& change);
  Status change_waiting();
  Status change_in_bands(RowStore* store);
  Status change_on_lanes();
  ImageView change_rows(ImageView band, std::uint8_t* to, std::array<RowBuffer, 2>& memory);
  void mark_changes(std::int64_t at_ns);
  /// Whether `steps`, for a picture of this size, only crop and mirror.
  bool only_cuts(std::span<const Step> steps, ImageSize size) const;
  Status stream(const ResizeSpec& resize_spec, std::span<const Step> rest, StoreSpec spec, std::byte* out);
  /// The place of `window` in a picture of this size, before the flips that wait.
  Region mirrored(Region window, ImageSize size) const;
  void narrow(const Region& window);
  /// The number of steps among the changes that wait.
  std::int64_t steps_waiting() const;
  /// The rows in one band of the changes that wait; all rows if bands do not pay.
  std::int64_t band_rows() const;
  /// Set `view` to the next free picture buffer, with this size.
  Status next_buffer(ImageSize size, std::int64_t channels, MutableImageView& view);

  Scratch::Impl& scratch_;
  const PictureSource& source_;
  ImageSize size_;         // of the picture after the steps so far
  std::int64_t channels_;  // of the picture, after the changes that wait too
  Region region_;  // in the source, while decoded_ is false; then in view_; of the last warp that waits
  ImageView view_;
  bool decoded_ = false;  // view_ holds the pixels
  // The warps that wait, each with region_ and the flips as they were before it.
  struct Waiting {
    const Step* step;
    Region region;
    bool flip_horizontal;
    bool flip_vertical;
  };
  std::array<Waiting, 4> waiting_;
  std::size_t waiting_count_ = 0;
  // The changes of single pixels that wait; they follow those warps.
  std::array<Change, 12> changes_;
  std::size_t changes_count_ = 0;
  bool flip_horizontal_ = false;
  bool flip_vertical_ = false;
  int buffer_ = 0;
  PictureTrace* trace_ = nullptr;
};

}  // namespace carya::transforms
