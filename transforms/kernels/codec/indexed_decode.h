#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transforms/jpeg/decoder.h"
#include "transforms/jpeg/index.h"
#include "transforms/kernels/codec/field_index.h"
#include "transforms/kernels/image/row_buffer.h"

namespace carya::transforms {

/// Runs our own decoder with a stored index. It reads the index, begins decoding at its points, detects a wrong index,
/// and returns the points that were learned.
///
/// Threads: owner only; it keeps its memory. Cost: the file's hash (~7 us per 110 KB), ~5 ns per point; no allocation
/// once the largest index was read.
class IndexedDecode {
 public:
  /// Decode as jpeg::Decoder::decode() does; `decoder` has recognised `bytes`. Sets index.made and index.use.
  jpeg::Outcome decode(jpeg::Decoder& decoder, std::span<const std::uint8_t> bytes,
                       const jpeg::Region& region, jpeg::Mode mode, std::uint8_t* out, std::size_t stride,
                       FieldIndex& index);

 private:
  jpeg::Outcome verify(jpeg::Decoder& decoder, std::span<const std::uint8_t> bytes,
                       const jpeg::Region& region, jpeg::Mode mode, std::uint8_t* out, std::size_t stride,
                       FieldIndex& index);

  bool bound_as(std::span<const std::byte> known);

  jpeg::Index stored_;  // the stored index; extended in place
  jpeg::Index fresh_;   // an index that was made without trust in the stored one
  std::vector<jpeg::IndexPoint> before_;
  jpeg::Index head_;
  std::vector<std::uint8_t> head_bytes_;
  RowBuffer again_;
};

}  // namespace carya::transforms
