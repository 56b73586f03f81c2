#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "transforms/kernels/codec/image_codec.h"

namespace carya {
class BandRunner;
}

namespace carya::transforms {

/// Decodes a JPEG by the quicker of two decoders with the same pixels. Our own (transforms/jpeg/) takes ordinary files.
/// libjpeg-turbo takes all others, and every file in which ours meets a doubt.
///
/// Only libjpeg-turbo decides whether a file is broken, before and apart from decoding (TurboJpeg::open). So the choice
/// of decoder changes neither a verdict nor a bit. Packed coefficients that were made of a file have its pixels too. Contract: that of ImageDecoder. Threads: owner only.
class JpegDispatch {
 public:
  JpegDispatch();
  ~JpegDispatch();
  JpegDispatch(JpegDispatch&&) noexcept;
  JpegDispatch& operator=(JpegDispatch&&) noexcept;

  Result<ImageInfo> open(std::span<const std::byte> bytes, const ImageLimits& limits);
  /// Same contract as ImageDecoder::open_packed().
  Result<ImageInfo> open_packed(std::span<const std::byte> entry, const ImageLimits& limits,
                                FieldIndex& field);
  Status decode_region(const Region& region, ColorMode mode, const MutableImageView& out);
  Result<ImageView> decode_view(const Region& region, ColorMode mode);

  /// Use and extend this index in decodes of the opened picture; null: no index. The next open() forgets it.
  void set_index(FieldIndex* index);
  /// Same contract as ImageDecoder::set_patience().
  void set_patience(Patience* patience);
  /// Decode large ordinary pictures in bands on this runner from now on; null: no bands.
  void set_bands(BandRunner* runner);
  /// The decodes since the last call, by decoder, and libjpeg-turbo's warnings.
  DecodeCounts take_counts();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace carya::transforms
