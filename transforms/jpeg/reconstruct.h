#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transforms/jpeg/decoder.h"
#include "transforms/jpeg/header.h"

namespace carya::jpeg {

/// Takes all coefficients of a picture (Decoder::read_coefficients()).
class CoefficientSink {
 public:
  virtual ~CoefficientSink() = default;
  /// Take MCU row `mcu_y`; rows come in order. `blocks` has the row's MCUs from left to right, each with its blocks in
  /// the order of the scan, each block with 64 quantised coefficients in natural order. They are valid during the call.
  virtual void take(int mcu_y, const std::int16_t* blocks) = 0;
};

/// Gives coefficients of a picture, component by component, from wherever they are kept.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  /// Write the blocks [x0, x1) of row `block_y` of a component, without gaps: 64 quantised coefficients each in natural
  /// order, at `blocks` (aligned to 64 bytes). `last` gets for each the zigzag index of its last coefficient that is not
  /// zero, or any larger one; 0: only DC. Rows are asked for from top to bottom, and within one row of MCUs component by
  /// component. Returns false if there are no such coefficients, which ends the decode.
  virtual bool give(int component, int block_y, int x0, int x1, std::int16_t* blocks, std::uint8_t* last) = 0;
};

/// Makes the pixels of a region from a picture's coefficients: the second half of Decoder, with the same bits.
///
/// Threads: owner only; it keeps its scratch memory. Cost: ~0.9 ns per pixel; no allocation in steady state.
class Reconstructor {
 public:
  Reconstructor();
  ~Reconstructor();
  Reconstructor(Reconstructor&&) noexcept;
  Reconstructor& operator=(Reconstructor&&) noexcept;

  /// Decode `region` into `out`. Of `header`, size, sampling, components and quantisers are used.
  ///
  /// Shape:   out is (region.height, region.width, channels(mode)), row-major; nothing else is written.
  /// Units:   stride in bytes, >= region.width * channels(mode).
  /// Errors:  kDamaged: `source` has no such coefficients; kRange: they are so large that libjpeg-turbo's pixels are in
  ///          doubt; kGivenUp. Then `out` is unspecified. A region that is empty or outside is a bug.
  Outcome decode(const Header& header, BlockSource& source, const Region& region, Mode mode,
                 std::uint8_t* out, std::size_t stride);

  /// Asked after each row of MCUs from now on; null: nobody. It must outlive the decodes.
  void set_patience(Patience* patience);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace carya::jpeg
