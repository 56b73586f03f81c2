#include "transforms/kernels/resize/resize.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "base/error.h"
#include "transforms/kernels/image/row_buffer.h"
#include "transforms/kernels/resize/nearest.h"
#include "transforms/kernels/resize/resize_groups.h"
#include "transforms/kernels/resize/resize_simd.h"
#include "transforms/kernels/resize/resize_taps.h"
#include "transforms/kernels/resize/resize_window.h"
#include "transforms/simd/band_runner.h"

namespace carya::transforms {
namespace {

constexpr std::uint8_t kPlain = 0x80;  // xor between plain pixels and signed ones
constexpr std::uint8_t kSigned = 0x00;

void reserve(RowBuffer& buffer, std::int64_t bytes) {
  if (!buffer.reserve(static_cast<std::size_t>(bytes))) throw std::bad_alloc();
}

// Whether each row stays as it is.
bool is_copy(const ImageView& in, const ResizeSpec& spec) {
  return in.height == spec.out_height && in.width == spec.out_width && !spec.flip_horizontal &&
         !spec.flip_vertical;
}

// Gives each finished row to the sink one row late. Stores leave a core in order, and a load that straddles
// two recent stores waits for both: behind the sink's burst of stores to memory, the next row's passes would
// stand still. Half of a row's passes now lies between the burst and the first load that it holds up.
class LateRows {
 public:
  LateRows(RowBuffer& memory, std::int64_t row_bytes, const RowSink& sink)
      : sink_(sink), stride_((row_bytes + 64 + 63) / 64 * 64) {
    reserve(memory, stride_ * 2);
    memory_ = memory.data();
  }
  /// Where row y goes, y ascending from 0; the row before must have been given.
  std::uint8_t* row(std::int64_t y) {
    waiting_ = y;
    return at(y);
  }
  /// Gives the row that waits, if any.
  void give() {
    if (waiting_ < 0) return;
    sink_(waiting_, at(waiting_));
    waiting_ = -1;
  }

 private:
  std::uint8_t* at(std::int64_t y) const { return memory_ + y % 2 * stride_; }

  const RowSink& sink_;
  std::int64_t stride_;
  std::uint8_t* memory_ = nullptr;
  std::int64_t waiting_ = -1;
};

}  // namespace

namespace {

// Memory for the rows in work.
struct RowsMemory {
  RowBuffer middle;  // what the first pass gives: one signed row, or a ring of them
  RowBuffer wide;    // a signed copy of an input row
  RowBuffer finished;
  std::vector<const std::uint8_t*> taps;
  Patience* patience = nullptr;  // asked after each row; bands ask nobody, since several threads make them
};

// Output rows [begin, end).
struct RowRange {
  std::int64_t begin;
  std::int64_t end;
};

}  // namespace

struct Resizer::State {
  // Tables: the same for all bands of a picture.
  ResizeTaps rows;     // vertical
  ResizeTaps columns;  // horizontal
  ResizeGroups groups;
  bool grouped = false;  // groups are those of columns: building them may run out of memory
  NearestColumns nearest_columns;

  RowsMemory memory;
  std::vector<RowsMemory> lanes;  // of bands

  void prepare(const ImageView& in, const ResizeSpec& spec);
  void prepare_columns(std::int64_t in_width, int channels, const ResizeSpec& spec);
  void run(RowsMemory& m, RowRange range, const ImageView& in, const ResizeSpec& spec,
           const RowSink& sink) const;
  void nearest(RowsMemory& m, RowRange range, const ImageView& in, const ResizeSpec& spec,
               const RowSink& sink) const;
  void combine(const RowsMemory& m, std::int64_t y, std::int64_t bytes, std::uint8_t in_xor,
               std::uint8_t out_xor, std::uint8_t* out) const;
  void filter(const std::uint8_t* in, std::uint8_t out_xor, std::uint8_t* out) const;
  void rows_only(RowsMemory& m, RowRange range, const ImageView& in, const RowSink& sink) const;
  void columns_only(RowsMemory& m, RowRange range, const ImageView& in, const ResizeSpec& spec,
                    const RowSink& sink) const;
  void rows_first(RowsMemory& m, RowRange range, const ImageView& in, const ResizeSpec& spec,
                  const RowSink& sink) const;
  void columns_first(RowsMemory& m, RowRange range, const ImageView& in, const ResizeSpec& spec,
                     const RowSink& sink) const;
};

void Resizer::State::nearest(RowsMemory& m, RowRange range, const ImageView& in, const ResizeSpec& spec,
                             const RowSink& sink) const {
  reserve(m.finished, spec.out_width * in.channels);
  for (std::int64_t y = range.begin; y < range.end; ++y) {
    const std::int64_t from = nearest_index(y, in.height, spec.out_height);
    const std::uint8_t* row = in.row(spec.flip_vertical ? in.height - 1 - from : from);
    nearest_columns.pick(row, in.channels, m.finished.data());
    sink(y, m.finished.data());
    if (!goes_on(m.patience, spec.out_width * in.channels)) return;
  }
}

void Resizer::State::prepare_columns(std::int64_t in_width, int channels, const ResizeSpec& spec) {
  const bool changed = columns.update(in_width, spec.out_width, spec.interpolation, spec.antialias);
  const GroupShape shape = resize_group_shape();
  if (grouped && !changed && groups.channels == channels && groups.shape == shape) return;
  grouped = false;
  if (columns.wide()) {
    groups.channels = channels;
    groups.shape = shape;
  } else {
    groups.build(columns, channels, shape);
  }
  grouped = true;
}

// `m.taps` holds the rows of output row y.
void Resizer::State::combine(const RowsMemory& m, std::int64_t y, std::int64_t bytes, std::uint8_t in_xor,
                             std::uint8_t out_xor, std::uint8_t* out) const {
  if (!rows.wide())
    return combine_rows(m.taps.data(), rows.narrow(y), rows.count(y), bytes, in_xor, out_xor, out);
  combine_rows_wide(m.taps.data(), rows.wide_weights(y), rows.count(y), bytes, out_xor, out);
}

void Resizer::State::filter(const std::uint8_t* in, std::uint8_t out_xor, std::uint8_t* out) const {
  if (columns.wide()) return filter_row_wide(in, columns, groups.channels, out_xor, out);
  filter_row(in, columns, groups, out_xor, out);
}

void Resizer::State::rows_only(RowsMemory& m, RowRange range, const ImageView& in,
                               const RowSink& sink) const {
  reserve(m.finished, in.row_bytes());
  for (std::int64_t y = range.begin; y < range.end; ++y) {
    for (int k = 0; k < rows.count(y); ++k) m.taps[static_cast<std::size_t>(k)] = in.row(rows.start(y) + k);
    combine(m, y, in.row_bytes(), kPlain, kPlain, m.finished.data());
    sink(y, m.finished.data());
    if (!goes_on(m.patience, in.row_bytes() * rows.count(y))) return;
  }
}

void Resizer::State::columns_only(RowsMemory& m, RowRange range, const ImageView& in, const ResizeSpec& spec,
                                  const RowSink& sink) const {
  reserve(m.wide, in.row_bytes());
  reserve(m.finished, spec.out_width * in.channels);
  for (std::int64_t y = range.begin; y < range.end; ++y) {
    flip_sign(in.row(y), in.row_bytes(), m.wide.data());
    filter(m.wide.data(), kPlain, m.finished.data());
    sink(y, m.finished.data());
    if (!goes_on(m.patience, in.row_bytes() + spec.out_width * in.channels)) return;
  }
}

// Fewer rows come out than go in: combining rows first leaves fewer for the dearer pass along the width.
void Resizer::State::rows_first(RowsMemory& m, RowRange range, const ImageView& in, const ResizeSpec& spec,
                                const RowSink& sink) const {
  reserve(m.middle, in.row_bytes());
  LateRows late(m.finished, spec.out_width * in.channels, sink);
  for (std::int64_t y = range.begin; y < range.end; ++y) {
    for (int k = 0; k < rows.count(y); ++k) m.taps[static_cast<std::size_t>(k)] = in.row(rows.start(y) + k);
    combine(m, y, in.row_bytes(), kPlain, kSigned, m.middle.data());
    late.give();
    filter(m.middle.data(), kPlain, late.row(y));
    if (!goes_on(m.patience, in.row_bytes() * (rows.count(y) + 1))) return;
  }
  late.give();
}

// Each input row goes along the width once and waits in a ring. For growing, and for bicubic always: what
// overshoots is cut between the passes, so Pillow's order (width first) decides the bits there.
void Resizer::State::columns_first(RowsMemory& m, RowRange range, const ImageView& in, const ResizeSpec& spec,
                                   const RowSink& sink) const {
  const std::int64_t out_bytes = spec.out_width * in.channels;
  const std::int64_t stride = (out_bytes + 64 + 63) / 64 * 64;
  const std::int64_t ring_rows = rows.taps_max() + 2;  // windows may step back a row where a weight is zero
  const std::uint8_t between = rows.wide() ? kPlain : kSigned;  // the wide kernel takes plain pixels
  reserve(m.middle, stride * ring_rows);
  reserve(m.wide, in.row_bytes());
  LateRows late(m.finished, out_bytes, sink);
  const auto ring_row = [&](std::int64_t y) { return m.middle.data() + (y % ring_rows) * stride; };
  std::int64_t done = 0;  // input rows [.., done) are or were in the ring
  for (std::int64_t y = range.begin; y < range.end; ++y) {
    const std::int64_t end = rows.start(y) + rows.count(y);
    if (done < rows.start(y) - 2) done = rows.start(y) - 2;
    for (; done < end; ++done) {
      flip_sign(in.row(done), in.row_bytes(), m.wide.data());
      filter(m.wide.data(), between, ring_row(done));
      if (!goes_on(m.patience, in.row_bytes() + out_bytes)) return;
    }
    late.give();
    for (int k = 0; k < rows.count(y); ++k) m.taps[static_cast<std::size_t>(k)] = ring_row(rows.start(y) + k);
    late.give();
    combine(m, y, out_bytes, between, kPlain, late.row(y));
    if (!goes_on(m.patience, out_bytes * rows.count(y))) return;
  }
  late.give();
}

Resizer::Resizer() : state_(std::make_unique<State>()) {}
Resizer::~Resizer() = default;
Resizer::Resizer(Resizer&&) noexcept = default;
Resizer& Resizer::operator=(Resizer&&) noexcept = default;

void Resizer::set_patience(Patience* patience) {
  state_->memory.patience = patience;
}

// All tables of this resize.
void Resizer::State::prepare(const ImageView& in, const ResizeSpec& spec) {
  CHECK(in.height > 0 && in.width > 0 && spec.out_height > 0 && spec.out_width > 0);
  CHECK(in.channels == 1 || in.channels == 3 || in.channels == 4);
  if (is_copy(in, spec)) return;
  if (spec.interpolation == Interpolation::kNearest)
    return nearest_columns.update(in.width, spec.out_width, spec.flip_horizontal);
  if (in.height != spec.out_height)
    rows.update(in.height, spec.out_height, spec.interpolation, spec.antialias);
  if (in.width != spec.out_width) prepare_columns(in.width, static_cast<int>(in.channels), spec);
}

void Resizer::State::run(RowsMemory& m, RowRange range, const ImageView& in, const ResizeSpec& spec,
                         const RowSink& sink) const {
  if (is_copy(in, spec)) {
    for (std::int64_t y = range.begin; y < range.end; ++y) sink(y, in.row(y));
    return;
  }
  if (spec.interpolation == Interpolation::kNearest) return nearest(m, range, in, spec, sink);
  const bool same_height = in.height == spec.out_height;
  const bool same_width = in.width == spec.out_width;
  if (!same_height) m.taps.resize(static_cast<std::size_t>(rows.taps_max()));
  if (same_width) return rows_only(m, range, in, sink);
  if (same_height) return columns_only(m, range, in, spec, sink);
  if (in.height >= spec.out_height && spec.interpolation == Interpolation::kBilinear)
    return rows_first(m, range, in, spec, sink);
  columns_first(m, range, in, spec, sink);
}

void Resizer::resize_rows(const ImageView& in, const ResizeSpec& spec, const RowSink& sink) {
  State& s = *state_;
  s.prepare(in, spec);
  s.run(s.memory, {0, spec.out_height}, in, spec, sink);
}

namespace {

void copy_row(void* context, std::int64_t y, const std::uint8_t* pixels) {
  const MutableImageView& to = *static_cast<const MutableImageView*>(context);
  std::memcpy(to.row(y), pixels, static_cast<std::size_t>(to.row_bytes()));
}

/// Of one resize in bands: neighbours read a few input rows twice, so there are not many.
constexpr int kBandsMax = 24;

}  // namespace

void Resizer::resize_in_bands(const ImageView& in, const ResizeSpec& spec, const MutableImageView& out,
                              BandRunner& runner) {
  CHECK(out.height == spec.out_height && out.width == spec.out_width && out.channels == in.channels);
  struct Parts final : BandWork {
    State& state;
    const ImageView& in;
    const ResizeSpec& spec;
    MutableImageView out;
    std::int64_t count;

    Parts(State& of, const ImageView& from, const ResizeSpec& by, const MutableImageView& to)
        : state(of), in(from), spec(by), out(to), count(std::min<std::int64_t>(kBandsMax, by.out_height)) {}
    bool prepare(int /*part*/) override { return true; }
    bool run(int part, int lane) override {
      const RowRange range{spec.out_height * part / count, spec.out_height * (part + 1) / count};
      state.run(state.lanes[static_cast<std::size_t>(lane)], range, in, spec, {&out, copy_row});
      return true;
    }
  };
  State& s = *state_;
  s.prepare(in, spec);
  if (s.lanes.size() < static_cast<std::size_t>(runner.lanes()))
    s.lanes.resize(static_cast<std::size_t>(runner.lanes()));
  Parts parts(s, in, spec, out);
  CHECK(runner.run(parts, static_cast<int>(parts.count)));
}

void Resizer::resize(const ImageView& in, const ResizeSpec& spec, const MutableImageView& out) {
  CHECK(out.height == spec.out_height && out.width == spec.out_width && out.channels == in.channels);
  MutableImageView to = out;
  resize_rows(in, spec, {&to, copy_row});
}

}  // namespace carya::transforms
