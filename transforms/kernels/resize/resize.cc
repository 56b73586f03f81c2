#include "transforms/kernels/resize/resize.h"

#include <cstring>
#include <new>
#include <vector>

#include "base/error.h"
#include "transforms/kernels/image/row_buffer.h"
#include "transforms/kernels/resize/resize_groups.h"
#include "transforms/kernels/resize/resize_simd.h"
#include "transforms/kernels/resize/resize_taps.h"
#include "transforms/kernels/resize/resize_window.h"

namespace carya::transforms {
namespace {

constexpr std::uint8_t kPlain = 0x80;  // xor between plain pixels and signed ones
constexpr std::uint8_t kSigned = 0x00;

void reserve(RowBuffer& buffer, std::int64_t bytes) {
  if (!buffer.reserve(static_cast<std::size_t>(bytes))) throw std::bad_alloc();
}

template <int kChannels>
void pick_pixels(const std::uint8_t* in, const std::int32_t* columns, std::int64_t width, std::uint8_t* out) {
  for (std::int64_t x = 0; x < width; ++x) {
    for (int c = 0; c < kChannels; ++c) out[kChannels * x + c] = in[kChannels * columns[x] + c];
  }
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

struct Resizer::State {
  ResizeTaps rows;     // vertical
  ResizeTaps columns;  // horizontal
  ResizeGroups groups;
  bool grouped = false;  // groups are those of columns: building them may run out of memory
  RowBuffer middle;      // what the first pass gives: one signed row, or a ring of them
  RowBuffer wide;        // a signed copy of an input row
  RowBuffer finished;
  std::vector<const std::uint8_t*> taps;
  std::vector<std::int32_t> nearest_columns;
  std::int64_t nearest_in = 0;

  void nearest(const ImageView& in, const ResizeSpec& spec, const RowSink& sink);
  void prepare_columns(std::int64_t in_width, int channels, const ResizeSpec& spec);
  void combine(std::int64_t y, std::int64_t bytes, std::uint8_t in_xor, std::uint8_t out_xor,
               std::uint8_t* out);
  void filter(const std::uint8_t* in, std::uint8_t out_xor, std::uint8_t* out);
  void rows_only(const ImageView& in, const ResizeSpec& spec, const RowSink& sink);
  void columns_only(const ImageView& in, const ResizeSpec& spec, const RowSink& sink);
  void rows_first(const ImageView& in, const ResizeSpec& spec, const RowSink& sink);
  void columns_first(const ImageView& in, const ResizeSpec& spec, const RowSink& sink);
};

void Resizer::State::nearest(const ImageView& in, const ResizeSpec& spec, const RowSink& sink) {
  if (nearest_in != in.width || nearest_columns.size() != static_cast<std::size_t>(spec.out_width)) {
    nearest_columns.resize(static_cast<std::size_t>(spec.out_width));
    for (std::int64_t x = 0; x < spec.out_width; ++x) {
      nearest_columns[static_cast<std::size_t>(x)] =
          static_cast<std::int32_t>(nearest_index(x, in.width, spec.out_width));
    }
    nearest_in = in.width;
  }
  reserve(finished, spec.out_width * in.channels);
  for (std::int64_t y = 0; y < spec.out_height; ++y) {
    const std::uint8_t* row = in.row(nearest_index(y, in.height, spec.out_height));
    switch (in.channels) {
      case 1:
        pick_pixels<1>(row, nearest_columns.data(), spec.out_width, finished.data());
        break;
      case 3:
        pick_pixels<3>(row, nearest_columns.data(), spec.out_width, finished.data());
        break;
      default:
        pick_pixels<4>(row, nearest_columns.data(), spec.out_width, finished.data());
        break;
    }
    sink(y, finished.data());
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

// `taps` holds the rows of output row y.
void Resizer::State::combine(std::int64_t y, std::int64_t bytes, std::uint8_t in_xor, std::uint8_t out_xor,
                             std::uint8_t* out) {
  if (!rows.wide())
    return combine_rows(taps.data(), rows.narrow(y), rows.count(y), bytes, in_xor, out_xor, out);
  combine_rows_wide(taps.data(), rows.wide_weights(y), rows.count(y), bytes, out_xor, out);
}

void Resizer::State::filter(const std::uint8_t* in, std::uint8_t out_xor, std::uint8_t* out) {
  if (columns.wide()) return filter_row_wide(in, columns, groups.channels, out_xor, out);
  filter_row(in, columns, groups, out_xor, out);
}

void Resizer::State::rows_only(const ImageView& in, const ResizeSpec& spec, const RowSink& sink) {
  reserve(finished, in.row_bytes());
  for (std::int64_t y = 0; y < spec.out_height; ++y) {
    for (int k = 0; k < rows.count(y); ++k) taps[static_cast<std::size_t>(k)] = in.row(rows.start(y) + k);
    combine(y, in.row_bytes(), kPlain, kPlain, finished.data());
    sink(y, finished.data());
  }
}

void Resizer::State::columns_only(const ImageView& in, const ResizeSpec& spec, const RowSink& sink) {
  reserve(wide, in.row_bytes());
  reserve(finished, spec.out_width * in.channels);
  for (std::int64_t y = 0; y < spec.out_height; ++y) {
    flip_sign(in.row(y), in.row_bytes(), wide.data());
    filter(wide.data(), kPlain, finished.data());
    sink(y, finished.data());
  }
}

// Fewer rows come out than go in: combining rows first leaves fewer for the dearer pass along the width.
void Resizer::State::rows_first(const ImageView& in, const ResizeSpec& spec, const RowSink& sink) {
  reserve(middle, in.row_bytes());
  LateRows late(finished, spec.out_width * in.channels, sink);
  for (std::int64_t y = 0; y < spec.out_height; ++y) {
    for (int k = 0; k < rows.count(y); ++k) taps[static_cast<std::size_t>(k)] = in.row(rows.start(y) + k);
    combine(y, in.row_bytes(), kPlain, kSigned, middle.data());
    late.give();
    filter(middle.data(), kPlain, late.row(y));
  }
  late.give();
}

// Each input row goes along the width once and waits in a ring. For growing, and for bicubic always: what
// overshoots is cut between the passes, so Pillow's order (width first) decides the bits there.
void Resizer::State::columns_first(const ImageView& in, const ResizeSpec& spec, const RowSink& sink) {
  const std::int64_t out_bytes = spec.out_width * in.channels;
  const std::int64_t stride = (out_bytes + 64 + 63) / 64 * 64;
  const std::int64_t ring_rows = rows.taps_max() + 2;  // windows may step back a row where a weight is zero
  const std::uint8_t between = rows.wide() ? kPlain : kSigned;  // the wide kernel takes plain pixels
  reserve(middle, stride * ring_rows);
  reserve(wide, in.row_bytes());
  LateRows late(finished, out_bytes, sink);
  const auto ring_row = [&](std::int64_t y) { return middle.data() + (y % ring_rows) * stride; };
  std::int64_t done = 0;  // input rows [.., done) are or were in the ring
  for (std::int64_t y = 0; y < spec.out_height; ++y) {
    const std::int64_t end = rows.start(y) + rows.count(y);
    if (done < rows.start(y) - 2) done = rows.start(y) - 2;
    for (; done < end; ++done) {
      flip_sign(in.row(done), in.row_bytes(), wide.data());
      filter(wide.data(), between, ring_row(done));
    }
    late.give();
    for (int k = 0; k < rows.count(y); ++k) taps[static_cast<std::size_t>(k)] = ring_row(rows.start(y) + k);
    late.give();
    combine(y, out_bytes, between, kPlain, late.row(y));
  }
  late.give();
}

Resizer::Resizer() : state_(std::make_unique<State>()) {}
Resizer::~Resizer() = default;
Resizer::Resizer(Resizer&&) noexcept = default;
Resizer& Resizer::operator=(Resizer&&) noexcept = default;

void Resizer::resize_rows(const ImageView& in, const ResizeSpec& spec, const RowSink& sink) {
  CHECK(in.height > 0 && in.width > 0 && spec.out_height > 0 && spec.out_width > 0);
  CHECK(in.channels == 1 || in.channels == 3 || in.channels == 4);
  State& s = *state_;
  const bool same_height = in.height == spec.out_height;
  const bool same_width = in.width == spec.out_width;
  if (same_height && same_width) {
    for (std::int64_t y = 0; y < in.height; ++y) sink(y, in.row(y));
    return;
  }
  if (spec.interpolation == Interpolation::kNearest) return s.nearest(in, spec, sink);
  if (!same_height) {
    s.rows.update(in.height, spec.out_height, spec.interpolation, spec.antialias);
    s.taps.resize(static_cast<std::size_t>(s.rows.taps_max()));
  }
  if (!same_width) s.prepare_columns(in.width, static_cast<int>(in.channels), spec);
  if (same_width) return s.rows_only(in, spec, sink);
  if (same_height) return s.columns_only(in, spec, sink);
  if (in.height >= spec.out_height && spec.interpolation == Interpolation::kBilinear)
    return s.rows_first(in, spec, sink);
  s.columns_first(in, spec, sink);
}

void Resizer::resize(const ImageView& in, const ResizeSpec& spec, const MutableImageView& out) {
  CHECK(out.height == spec.out_height && out.width == spec.out_width && out.channels == in.channels);
  struct Target {
    const MutableImageView* out;
  } target{&out};
  resize_rows(in, spec, {&target, [](void* context, std::int64_t y, const std::uint8_t* pixels) {
                           const MutableImageView& to = *static_cast<Target*>(context)->out;
                           std::memcpy(to.row(y), pixels, static_cast<std::size_t>(to.row_bytes()));
                         }});
}

}  // namespace carya::transforms
