#include <algorithm>

#include "transforms/jpeg/work.h"

namespace carya::jpeg {
namespace {

// The first row of a block: libjpeg-turbo shifts it left by 2 in 16 bits if it is alone.
constexpr int kRangeEdge = 8191;
constexpr int kRangeInner = 16383;  // all other coefficients: two of them are added in 16 bits
constexpr int kPairValueMax = (1 << PairTable::kSizeMax) - 1;

struct Range {
  int begin = 0;
  int end = 0;
};

// The chroma samples that output pixels [begin, end) of a doubled axis read, with one neighbour on either side.
Range halved(int begin, int end) {
  return {begin / 2 - ((begin & 1) != 0 ? 0 : 1), (end - 1) / 2 + 1 + ((end - 1) & 1)};
}

// The horizontal filter's vector form reads both neighbours of every sample.
Range halved_wide(int begin, int end) {
  return {begin / 2 - 1, (end - 1) / 2 + 2};
}

void set_plane(Work& work, int c, int ring_rows) {
  const Header& header = *work.header;
  const Component& component = header.components[c];
  const Region& region = work.region;
  Range x{region.x, region.x + region.width};
  Range y{region.y, region.y + region.height};
  if (c > 0 && header.components[0].h == 2) x = halved_wide(x.begin, x.end);
  if (c > 0 && header.components[0].v == 2) y = halved(y.begin, y.end);
  Plane& plane = work.planes[c];
  plane.block_x0 = std::max(x.begin, 0) / 8;
  plane.block_x1 = (std::min(x.end, component.width) + 7) / 8;
  plane.block_y0 = std::max(y.begin, 0) / 8;
  plane.block_y1 = (std::min(y.end, component.height) + 7) / 8;
  plane.stride =
      (static_cast<std::size_t>(plane.block_x1 - plane.block_x0) * 8 + kLineSlack + 63) & ~std::size_t{63};
  const int lines = ring_rows * 8 * component.v;
  plane.line_mask = lines - 1;
  plane.samples.grow(plane.stride * static_cast<std::size_t>(lines) + 2 * kLineSlack);
}

void set_quant(const Header& header, int c, Quant& quant) {
  const auto& table = header.quant[header.components[c].quant];
  quant.coarse = false;
  for (int k = 0; k < 64; ++k) {
    const int at = kZigzag[k];
    const int q = table[at];
    quant.natural[at] = static_cast<std::int16_t>(q);
    const int allowed = at < 8 ? kRangeEdge : kRangeInner;
    quant.limit[k] = static_cast<std::int16_t>(q == 0 ? 32767 : allowed / q);
    quant.coarse |= k > 0 && q * kPairValueMax > allowed;
  }
  const int q0 = table[0];
  quant.dc_limit = static_cast<std::uint32_t>(q0 == 0 ? 32767 : kRangeEdge / q0);
}

void set_kinds(Work& work, TableCache& tables, bool skips) {
  const Header& header = *work.header;
  work.kind_count = 0;
  for (int c = 0; c < header.component_count; ++c) {
    const Component& component = header.components[c];
    BlockKind kind;
    kind.dc = &tables.dc(component.dc, header.dc[component.dc]);
    kind.ac = &tables.ac(component.ac, header.ac[component.ac]);
    kind.skip = skips ? &tables.skip(component.ac, header.ac[component.ac]) : nullptr;
    kind.quant = &work.quants[c];
    kind.component = c;
    work.planes[c].first_in_mcu = work.kind_count;
    for (int i = 0; i < component.h * component.v; ++i) work.kinds[work.kind_count++] = kind;
  }
  for (int i = 0; i < work.kind_count; ++i) {
    const int next = (i + 1) % work.kind_count;
    work.kinds[i].to_next = next - i;
  }
}

}  // namespace

void plan_region(Work& work) {
  const Header& header = *work.header;
  work.plane_count = work.mode == Mode::kGray ? 1 : header.component_count;
  work.mcu_x0 = header.mcu_cols;
  work.mcu_y0 = header.mcu_rows;
  work.mcu_x1 = work.mcu_y1 = 0;
  for (int c = 0; c < work.plane_count; ++c) {
    set_plane(work, c, 1);
    const Component& component = header.components[c];
    const Plane& plane = work.planes[c];
    work.mcu_x0 = std::min(work.mcu_x0, plane.block_x0 / component.h);
    work.mcu_x1 = std::max(work.mcu_x1, (plane.block_x1 - 1) / component.h + 1);
    work.mcu_y0 = std::min(work.mcu_y0, plane.block_y0 / component.v);
    work.mcu_y1 = std::max(work.mcu_y1, (plane.block_y1 - 1) / component.v + 1);
  }
  work.whole_mcu_y1 = work.mcu_y1;
}

void prepare_scout(Work& work, TableCache& tables) {
  for (int c = 0; c < work.header->component_count; ++c) set_quant(*work.header, c, work.quants[c]);
  set_kinds(work, tables, true);
  work.scout = {};
}

namespace {

// What the way from coefficients to lines needs.
void prepare_pixels(Work& work, int ring_rows) {
  const Header& header = *work.header;
  work.rows_emitted = 0;
  std::size_t stride_max = 0;
  std::size_t jobs = 8;
  for (int c = 0; c < work.plane_count; ++c) {
    set_plane(work, c, ring_rows);
    stride_max = std::max(stride_max, work.planes[c].stride);
    jobs = std::max(jobs, static_cast<std::size_t>(work.planes[c].block_x1 - work.planes[c].block_x0) *
                                  header.components[c].v +
                              8);
  }
  for (int c = 0; c < header.component_count; ++c) set_quant(header, c, work.quants[c]);
  work.full.jobs.grow(jobs);
  work.sparse.jobs.grow(jobs);
  work.spare.grow(stride_max * 8 + kLineSlack);
  const std::size_t columns = static_cast<std::size_t>(work.region.width);
  work.chroma_sums.grow(2 * kLineGroup * ((columns / 2 + 4 * kLineSlack) & ~std::size_t{31}));
  work.chroma_lines.grow(2 * kLineGroup * ((columns + 4 * kLineSlack) & ~std::size_t{63}));
}

}  // namespace

void prepare_blocks(Work& work) {
  prepare_pixels(work, kRingRowsOne);
  int blocks = 0;
  for (int c = 0; c < work.plane_count; ++c)
    blocks = std::max(blocks, work.planes[c].block_x1 - work.planes[c].block_x0);
  CoefficientRow& row = work.coefficients[0];
  row.blocks.grow(static_cast<std::size_t>(blocks) * 64);
  row.last.grow(static_cast<std::size_t>(blocks));
}

void prepare(Work& work, TableCache& tables, bool two_streams) {
  const Header& header = *work.header;
  prepare_pixels(work, two_streams ? kRingRowsStreams : kRingRowsOne);
  // A band of a scan in restart intervals may begin inside of an interval.
  const bool part = work.mcu_x0 > 0 || work.mcu_y0 > 0 || work.mcu_x1 < header.mcu_cols || !work.first_band;
  set_kinds(work, tables, part && !two_streams);
  // If decoding starts at an index point, up to one spacing of MCUs left of the region is decoded too.
  const int first = two_streams ? first_stored_mcu(work) : work.mcu_x0;
  const std::size_t blocks =
      static_cast<std::size_t>(work.mcu_x1 - first) * static_cast<std::size_t>(work.kind_count);
  for (CoefficientRow& row : work.coefficients) {
    row.blocks.grow(blocks * 64 + 256);
    row.last.grow(blocks + 16);
  }
}

int first_stored_mcu(const Work& work) {
  if (work.index == nullptr || work.index->spacing() == 0) return 0;
  return work.mcu_x0 / work.index->spacing() * work.index->spacing();
}

}  // namespace carya::jpeg
