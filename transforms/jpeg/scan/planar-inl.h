// Makes lines from coefficients that come component by component (BlockSource): one row of blocks at a time, so that its
// coefficients stay in the first-level cache.
#if defined(CARYA_JPEG_PLANAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_JPEG_PLANAR_INL_H_
#undef CARYA_JPEG_PLANAR_INL_H_
#else
#define CARYA_JPEG_PLANAR_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "transforms/jpeg/scan/rows-inl.h"
#include "transforms/jpeg/work.h"

HWY_BEFORE_NAMESPACE();
namespace carya::jpeg::HWY_NAMESPACE {

// Sort one row of blocks by their cost, and transform them. Returns false if the pixels are in doubt.
HWY_INLINE bool transform_block_row(Work& work, int c, int block_y, const CoefficientRow& row) {
  Plane& plane = work.planes[c];
  const int count = plane.block_x1 - plane.block_x0;
  const int dc_quant = work.quants[c].natural[0];
  const auto dc_limit = static_cast<int>(work.quants[c].dc_limit);
  std::uint8_t* out = plane.line(8 * block_y);
  const std::int16_t* source = row.blocks.data();
  work.sparse.count = work.full.count = 0;
  bool good = true;
  for (int i = 0; i < count; ++i, source += 64, out += 8) {
    const int last = row.last[static_cast<std::size_t>(i)];
    good &= source[0] <= dc_limit && source[0] >= -dc_limit;
    if (last == 0) {
      fill_block(source[0] * dc_quant, out, plane.stride);
    } else {
      JobList& list = last <= kSparseLast ? work.sparse : work.full;
      list.jobs[static_cast<std::size_t>(list.count++)] = {source, out};
    }
  }
  return good & idct_jobs(work.quants[c], work.full, work.sparse, plane.stride, work.spare.data());
}

inline Outcome transform_planar(Work& work) {
  CoefficientRow& row = work.coefficients[0];
  for (int mcu_y = work.mcu_y0; mcu_y < work.mcu_y1; ++mcu_y) {
    for (int c = 0; c < work.plane_count; ++c) {
      const Plane& plane = work.planes[c];
      const int v = work.header->components[c].v;
      const int end = std::min((mcu_y + 1) * v, plane.block_y1);
      for (int block_y = std::max(mcu_y * v, plane.block_y0); block_y < end; ++block_y) {
        if (!work.block_source->give(c, block_y, plane.block_x0, plane.block_x1, row.blocks.data(),
                                     row.last.data()))
          return Outcome::kDamaged;
        if (!transform_block_row(work, c, block_y, row)) return Outcome::kRange;
      }
    }
    emit_lines(work, mcu_y + 1);
    if (!work.wanted()) return Outcome::kGivenUp;
  }
  return Outcome::kDone;
}

}  // namespace carya::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
