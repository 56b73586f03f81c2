#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "transforms/kernels/codec/image_codec.h"

namespace carya::transforms {

/// JPEG by the quicker of two decoders with the same pixels: our own (transforms/jpeg/) for ordinary files,
/// libjpeg-turbo for all others and for every file in which ours meets a doubt.
///
/// Whether a file is broken is libjpeg-turbo's answer alone, before and apart from decoding
/// (JpegTurbo::open), so the choice of decoder can change neither a verdict nor a bit. Contract: as
/// ImageDecoder. Threads: owner only.
class JpegReader {
 public:
  JpegReader();
  ~JpegReader();
  JpegReader(JpegReader&&) noexcept;
  JpegReader& operator=(JpegReader&&) noexcept;

  Result<ImageInfo> open(std::span<const std::byte> bytes, const ImageLimits& limits);
  Status decode_region(const Region& region, ColorMode mode, const MutableImageView& out);
  Result<ImageView> decode_view(const Region& region, ColorMode mode);

  /// Use and extend this index in the decodes of the opened picture; null: none. Forgotten at the next
  /// open().
  void set_index(FieldIndex* index);
  /// Decodes since the last call, by path, and libjpeg-turbo's warnings.
  DecodeCounts take_counts();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace carya::transforms
