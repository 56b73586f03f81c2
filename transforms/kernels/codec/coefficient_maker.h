#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transforms/coefficients/packer.h"
#include "transforms/coefficients/unpacker.h"
#include "transforms/jpeg/decoder.h"
#include "transforms/kernels/codec/image_codec.h"
#include "transforms/kernels/codec/turbo_jpeg.h"
#include "transforms/kernels/image/row_buffer.h"

namespace carya::transforms {

/// An entry of more than this share of its file is not worth its bytes.
inline constexpr double kEntryShareMax = 1.3;

/// Makes entries of packed coefficients (transforms/coefficients/FORMAT.md) from JPEGs: ordinary ones, and those in
/// several scans, progressive ones above all.
///
/// Threads: owner only; it keeps its memory.
/// Cost:    of an ordinary file a decode without colour and ~0.1 us per block; of another one three decodes.
class CoefficientMaker {
 public:
  /// The entry of a JPEG, valid until the next call; empty if there is none, and the file is to be kept as it is: it is
  /// broken or over a limit, libjpeg-turbo warns of anything in it, its colours or samplings are unusual, or the entry
  /// would have more than `share_max` of its bytes. An entry has the file's pixels.
  std::span<const std::uint8_t> make(std::span<const std::byte> file, const ImageLimits& limits,
                                     double share_max = kEntryShareMax);
  /// Whether the last file was refused, as each decode of it will be: it is broken, over a limit or no JPEG.
  bool refused() const { return refused_; }

 private:
  bool has_pixels_of_opened(std::span<const std::uint8_t> entry);

  TurboJpeg turbo_;
  jpeg::Decoder own_;
  coefficients::Packer packer_;
  coefficients::Unpacker unpacker_;
  RowBuffer expected_, made_;  // whole pictures
  bool refused_ = false;
};

}  // namespace carya::transforms
