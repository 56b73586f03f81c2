// Turns one MCU row of coefficients into samples, and writes the complete lines to the output.
#if defined(CARYA_JPEG_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_JPEG_ROWS_INL_H_
#undef CARYA_JPEG_ROWS_INL_H_
#else
#define CARYA_JPEG_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "transforms/jpeg/scan/idct-inl.h"
#include "transforms/jpeg/scan/pixels-inl.h"
#include "transforms/jpeg/work.h"

HWY_BEFORE_NAMESPACE();
namespace carya::jpeg::HWY_NAMESPACE {

inline constexpr int kSparseLast = 9;  // with no later coefficient, all of them are in the upper left 4 x 4

HWY_INLINE void fill_block(int dc, std::uint8_t* out, std::size_t stride) {
  const int level = std::clamp(((dc + 4) >> 3) + 128, 0, 255);
  const std::uint64_t eight = 0x0101010101010101ull * static_cast<std::uint64_t>(level);
  for (std::size_t y = 0; y < 8; ++y) std::memcpy(out + y * stride, &eight, 8);
}

// Sort the blocks of one component in one MCU row by their cost. Blocks without AC coefficients are done here.
HWY_INLINE void sort_blocks(Work& work, int c, int mcu_y, int first_mcu, const CoefficientRow& row) {
  Plane& plane = work.planes[c];
  const Component& component = work.header->components[c];
  const int wide = component.h == 2 ? 1 : 0;
  const int dc_quant = work.quants[c].natural[0];
  for (int v = 0; v < component.v; ++v) {
    const int block_y = mcu_y * component.v + v;
    if (block_y < plane.block_y0 || block_y >= plane.block_y1) continue;
    std::uint8_t* out = plane.line(8 * block_y);
    for (int block_x = plane.block_x0; block_x < plane.block_x1; ++block_x, out += 8) {
      const int id = ((block_x >> wide) - first_mcu) * work.kind_count + plane.first_in_mcu +
                     v * component.h + (block_x & wide);
      const std::int16_t* source = row.blocks.data() + static_cast<std::size_t>(id) * 64;
      // A block that went on to its last coefficient has 63 there, which becomes 190.
      const int last = static_cast<std::uint8_t>(row.last[static_cast<std::size_t>(id)] - PairTable::kEnd);
      if (last == 0) {
        fill_block(source[0] * dc_quant, out, plane.stride);
      } else {
        JobList& list = last <= kSparseLast ? work.sparse : work.full;
        list.jobs[static_cast<std::size_t>(list.count++)] = {source, out};
      }
    }
  }
}

// Returns false if a value is so large that the pixels are in doubt.
HWY_NOINLINE bool transform_row(Work& work, int mcu_y, int first_mcu, const CoefficientRow& row) {
  bool good = true;
  for (int c = 0; c < work.plane_count; ++c) {
    work.sparse.count = work.full.count = 0;
    sort_blocks(work, c, mcu_y, first_mcu, row);
    good &= idct_jobs(work.quants[c], work.full, work.sparse, work.planes[c].stride, work.spare.data());
  }
  return good;
}

// Compute the chroma sums of one output line. sums[0] belongs to chroma column x0, sums[-1] and sums[n] to its
// neighbours (at the image's edge: to the edge itself).
HWY_INLINE void chroma_line(const Work& work, int c, int y, int x0, int n, std::int16_t* sums) {
  const Plane& plane = work.planes[c];
  const Component& component = work.header->components[c];
  const std::uint8_t* near = plane.at(x0, y);
  const std::uint8_t* far = nullptr;
  if (work.header->sampling == Sampling::k420) {
    const int line = y / 2;
    const int other = (y & 1) != 0 ? std::min(line + 1, component.height - 1) : std::max(line - 1, 0);
    near = plane.at(x0, line);
    far = plane.at(x0, other);
  }
  widen_line(near, far, n + 1, sums);
  const int left = x0 > 0 ? -1 : 0;
  sums[-1] = static_cast<std::int16_t>(far == nullptr ? near[left] : 3 * near[left] + far[left]);
  if (x0 + n >= component.width) sums[n] = sums[n - 1];
}

// Write lines [y0, y1) of 4:2:2 and 4:2:0, a few at a time and stage by stage: what a stage loads has then left the
// store buffer.
inline void emit_subsampled(Work& work, int y0, int y1, std::uint8_t* out) {
  const Region& region = work.region;
  const int x0 = region.x / 2;
  const int n = (region.x + region.width - 1) / 2 + 1 - x0;
  const std::size_t sums_stride = work.chroma_sums.size() / (2 * kLineGroup);
  const std::size_t line_stride = work.chroma_lines.size() / (2 * kLineGroup);
  for (int y = y0; y < y1; y += kLineGroup) {
    const int lines = std::min(kLineGroup, y1 - y);
    std::int16_t* sums = work.chroma_sums.data() + kLineSlack;
    for (int i = 0; i < 2 * lines; ++i) {
      chroma_line(work, 1 + (i & 1), y + i / 2, x0, n, sums + sums_stride * static_cast<std::size_t>(i));
    }
    for (int i = 0; i < 2 * lines; ++i) {
      const std::int16_t* from = sums + sums_stride * static_cast<std::size_t>(i);
      std::uint8_t* to = work.chroma_lines.data() + line_stride * static_cast<std::size_t>(i);
      if (work.header->sampling == Sampling::k420) {
        double_line<true>(from, n, to);
      } else {
        double_line<false>(from, n, to);
      }
    }
    for (int i = 0; i < lines; ++i) {
      const std::uint8_t* cb =
          work.chroma_lines.data() + line_stride * static_cast<std::size_t>(2 * i) + (region.x & 1);
      rgb_line(work.planes[0].at(region.x, y + i), cb, cb + line_stride,
               out + static_cast<std::size_t>(y + i - y0) * work.stride, region.width);
    }
  }
}

// Write lines [y0, y1); the first of them goes to `out`.
inline void emit_range(Work& work, int y0, int y1, std::uint8_t* out) {
  const Region& region = work.region;
  if (work.plane_count == 3 && work.header->sampling != Sampling::k444) {
    emit_subsampled(work, y0, y1, out);
    return;
  }
  for (int y = y0; y < y1; ++y, out += work.stride) {
    const std::uint8_t* luma = work.planes[0].at(region.x, y);
    if (work.mode == Mode::kGray) {
      std::memcpy(out, luma, static_cast<std::size_t>(region.width));
    } else if (work.plane_count == 1) {
      gray_to_rgb_line(luma, out, region.width);
    } else {
      rgb_line(luma, work.planes[1].at(region.x, y), work.planes[2].at(region.x, y), out, region.width);
    }
  }
}

// Write all lines whose samples are complete when the MCU rows before `mcu_rows_done` are.
HWY_NOINLINE void emit_lines(Work& work, int mcu_rows_done) {
  const Header& header = *work.header;
  const Region& region = work.region;
  const bool needs_below = header.sampling == Sampling::k420 && work.plane_count == 3;
  const int bottom = region.y + region.height;
  int y1 = mcu_rows_done * 8 * header.components[0].v - (needs_below ? 1 : 0);
  if (mcu_rows_done == work.mcu_y1) y1 = bottom;
  int y0 = region.y + work.rows_emitted;
  y1 = std::min(y1, bottom);
  if (y1 <= y0) return;
  work.rows_emitted = y1 - region.y;
  if (work.sink == nullptr) {
    emit_range(work, y0, y1, work.out + static_cast<std::size_t>(y0 - region.y) * work.stride);
    return;
  }
  for (; y0 < y1; y0 += kBandLines) {
    const int count = std::min(kBandLines, y1 - y0);
    emit_range(work, y0, y0 + count, work.out);
    work.sink->take(work.out, work.stride, y0 - region.y, count);
  }
}

}  // namespace carya::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
