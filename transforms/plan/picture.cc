#include "transforms/plan/picture.h"

#include <fmt/core.h>
#include <algorithm>
#include <utility>

#include "transforms/kernels/codec/exif.h"
#include "transforms/kernels/image/pad.h"

namespace carya::transforms {
namespace {

// Rows of a resize into a store, of which only a window is kept.
struct CutRows {
  RowStore* store;
  Region window;
  std::int64_t left_bytes;

  static void row(void* context, std::int64_t y, const std::uint8_t* pixels) {
    const auto& cut = *static_cast<CutRows*>(context);
    const std::int64_t kept = y - cut.window.top;
    if (kept >= 0 && kept < cut.window.height) cut.store->row(kept, pixels + cut.left_bytes);
  }
};

Region window_of(const Step& step) {
  return {step.top, step.left, step.height, step.width};
}

Region intersect(const Region& window, ImageSize size) {
  const std::int64_t top = std::clamp<std::int64_t>(window.top, 0, size.height);
  const std::int64_t left = std::clamp<std::int64_t>(window.left, 0, size.width);
  const std::int64_t bottom = std::clamp<std::int64_t>(window.top + window.height, 0, size.height);
  const std::int64_t right = std::clamp<std::int64_t>(window.left + window.width, 0, size.width);
  return {top, left, bottom - top, right - left};
}

constexpr std::int64_t kChannelsMax = 4;
/// Pictures up to this stay in the second cache between two changes; of larger ones a band does.
/// Measured: bench/colors, the rows of 1500 x 1500.
constexpr std::int64_t kBandsFrom = 512 << 10;
constexpr std::int64_t kBandBytes = 64 << 10;

std::unexpected<Error> given_up() {
  return fail(Code::kTimeout, "the sample was given up");
}

}  // namespace

Status Picture::still_wanted() const {
  return scratch_.patience.given_up() ? given_up() : Status();
}

bool Picture::only_cuts(std::span<const Step> steps, ImageSize size) const {
  for (const Step& step : steps) {
    if ((step.fields & source_.field) == 0) continue;
    if (step.kind != Step::Kind::kWindow && step.kind != Step::Kind::kFlip) return false;
    const Region window = window_of(step);
    if (step.kind == Step::Kind::kWindow && !window.inside(size.height, size.width)) return false;
    size = {step.height, step.width};
  }
  return true;
}

Region Picture::mirrored(Region window, ImageSize size) const {
  if (flip_vertical_) window.top = size.height - window.top - window.height;
  if (flip_horizontal_) window.left = size.width - window.left - window.width;
  return window;
}

void Picture::narrow(const Region& window) {
  region_ = {region_.top + window.top, region_.left + window.left, window.height, window.width};
}

Status Picture::next_buffer(ImageSize size, std::int64_t channels, MutableImageView& view) {
  buffer_ = 1 - buffer_;
  RowBuffer& buffer = scratch_.pictures[buffer_];
  const std::int64_t stride = size.width * channels;
  if (!buffer.reserve(static_cast<std::size_t>(stride * size.height)))
    return fail(Code::kExhausted, "no memory for a picture of " + size_text(size));
  view = {buffer.data(), size.height, size.width, channels, stride};
  return {};
}

Status Picture::decode_region(const Region& region, ImageView& view) {
  const ColorMode mode = source_.decode->mode();
  const bool swaps = orientation_swaps(source_.orientation);
  const ImageSize stored = swaps ? ImageSize{source_.size.width, source_.size.height} : source_.size;
  const Region from = orientation_source(region, source_.orientation, stored.height, stored.width);
  TRY(scratch_.price.add_decode(*source_.decode, *source_.info, source_.file_bytes,
                                {from.height, from.width}));
  if (source_.orientation == 1) {
    ASSIGN(view, source_.decoder->decode_view(region, mode));
  } else {
    MutableImageView out;
    MutableImageView as_stored;
    TRY(next_buffer({from.height, from.width}, source_.channels, as_stored));
    TRY(source_.decoder->decode_region(from, mode, as_stored));
    TRY(next_buffer({region.height, region.width}, source_.channels, out));
    apply_orientation(as_stored, source_.orientation, out);
    view = out;
  }
  if (trace_) {
    trace_->decoded_at_ns = scratch_.cpu_ns();
    trace_->decoded_bytes = view.height * view.row_bytes();
  }
  return {};
}

Status Picture::read_apart(const Region& region, ImageView& view) {
  TRY(decode_region(region, view));
  if (source_.orientation == 1) return {};  // in the decoder's own memory
  RowBuffer& apart = scratch_.apart;
  const std::int64_t bytes = view.height * view.row_bytes();
  if (!apart.reserve(static_cast<std::size_t>(bytes)))
    return fail(Code::kExhausted, "no memory for a picture of " + size_text({view.height, view.width}));
  std::copy_n(view.data, bytes, apart.data());  // a buffer without gaps between rows
  view.data = apart.data();
  return {};
}

Region Picture::needed(std::span<const Step> steps) const {
  Picture probe(scratch_, source_);
  for (const Step& step : steps) {
    if ((step.fields & source_.field) == 0) continue;
    if (step.kind == Step::Kind::kFlip) {
      probe.flip_horizontal_ ^= step.flip_horizontal;
      probe.flip_vertical_ ^= step.flip_vertical;
      continue;
    }
    const Region window = probe.mirrored(window_of(step), probe.size_);
    if (step.kind != Step::Kind::kWindow || !window.inside(probe.size_.height, probe.size_.width)) break;
    probe.narrow(window);
    probe.size_ = {step.height, step.width};
  }
  return probe.region_;
}

// After this view_ is exactly the region, flips still to be done.
Status Picture::materialize() {
  TRY(read_pixels());
  return change_waiting();
}

// The same without the changes that wait.
Status Picture::read_pixels() {
  if (waiting_count_ > 0) return warp_waiting();
  if (decoded_) {
    view_ = crop_view(view_, region_);
  } else if (source_.decoder) {
    TRY(decode_region(region_, view_));
  } else {
    view_ = crop_view(source_.pixels, {region_.top - source_.pixels_top, region_.left - source_.pixels_left,
                                       region_.height, region_.width});
  }
  decoded_ = true;
  region_ = {0, 0, view_.height, view_.width};
  return {};
}

// A window that reaches outside. With a constant around it only what it covers of the picture is read, and
// one pixel where it covers nothing, since a broken picture is broken whatever is kept of it.
Status Picture::pad(const Step& step, const Region& window) {
  Region place = window;
  if (step.padding_mode == PaddingMode::kConstant) {
    Region covered = intersect(window, size_);
    if (covered.height == 0 || covered.width == 0) {
      covered = {0, 0, 1, 1};
      place = {1, 1, window.height, window.width};  // beside that pixel
    } else {
      place.top -= covered.top;
      place.left -= covered.left;
    }
    narrow(covered);
  }
  TRY(materialize());
  MutableImageView out;
  TRY(next_buffer({window.height, window.width}, view_.channels, out));
  crop_padded(view_, place, step.padding_mode, step.fill_of(source_.extra), out);
  view_ = out;
  region_ = {0, 0, out.height, out.width};
  return {};
}

// A resize is not exactly symmetric, so what comes before it is done before it, or on its way.
Status Picture::before_resize(const Step& step, ResizeSpec& spec) {
  const Interpolation interpolation = step.interpolation_of(source_.extra);
  spec = {step.height, step.width, interpolation, step.antialias};
  TRY(materialize());
  if (interpolation != Interpolation::kNearest) return unflip();
  spec.flip_horizontal = std::exchange(flip_horizontal_, false);
  spec.flip_vertical = std::exchange(flip_vertical_, false);
  return {};
}

Status Picture::unflip() {
  if (!flip_horizontal_ && !flip_vertical_) return {};
  MutableImageView out;
  TRY(next_buffer({view_.height, view_.width}, view_.channels, out));
  StoreSpec spec{.height = view_.height, .width = view_.width, .channels = view_.channels};
  spec.flip_horizontal = flip_horizontal_;
  spec.flip_vertical = flip_vertical_;
  spec.stream = false;  // read again at once
  store_image(view_, spec, reinterpret_cast<std::byte*>(out.data));
  view_ = out;
  flip_horizontal_ = flip_vertical_ = false;
  return {};
}

Status Picture::resize(const ResizeSpec& spec) {
  MutableImageView out;
  TRY(next_buffer({spec.out_height, spec.out_width}, view_.channels, out));
  if (wants_bands())
    scratch_.resizer.resize_in_bands(view_, spec, out, *scratch_.bands);
  else
    scratch_.resizer.resize(view_, spec, out);
  TRY(still_wanted());
  view_ = out;
  region_ = {0, 0, out.height, out.width};
  return {};
}

bool Picture::wants_bands() const {
  return scratch_.bands && scratch_.bands->wants(view_.height * view_.width);
}

Status Picture::wait_with(const Step& step) {
  if (waiting_count_ == waiting_.size() || changes_count_ > 0) TRY(materialize());
  waiting_[waiting_count_++] = {&step, region_, flip_horizontal_, flip_vertical_};
  region_ = {0, 0, size_.height, size_.width};
  flip_horizontal_ = flip_vertical_ = false;
  return {};
}

// The last warp that waits, with those before it. A warp is not symmetric either: flips come before it.
Status Picture::warp_waiting() {
  const Waiting warp_step = waiting_[--waiting_count_];
  const Step& step = *warp_step.step;
  const ImageSize size{warp_step.region.height, warp_step.region.width};
  const WarpSpec spec{step.matrix, step.interpolation_of(source_.extra), step.fill_of(source_.extra)};
  const Region window = region_;
  const bool flips_after[] = {flip_horizontal_, flip_vertical_};
  const Region read = warp_reads(spec, window, size.height, size.width);
  flip_horizontal_ = warp_step.flip_horizontal;
  flip_vertical_ = warp_step.flip_vertical;
  region_ = warp_step.region;
  narrow(mirrored(read, size));
  TRY(read_pixels());
  TRY(unflip());
  MutableImageView out;
  TRY(next_buffer({window.height, window.width}, view_.channels, out));
  warp({view_, read.top, read.left, size.height, size.width}, spec, window, out, &scratch_.patience);
  TRY(still_wanted());
  view_ = out;
  region_ = {0, 0, out.height, out.width};
  mark(step);
  flip_horizontal_ = flips_after[0];
  flip_vertical_ = flips_after[1];
  return {};
}

Status Picture::stream(const ResizeSpec& resize_spec, std::span<const Step> rest, StoreSpec spec,
                       std::byte* out) {
  const Region whole{0, 0, resize_spec.out_height, resize_spec.out_width};
  size_ = {whole.height, whole.width};
  Region kept = whole;
  for (const Step& later : rest) {
    if ((later.fields & source_.field) == 0) continue;
    if (later.kind == Step::Kind::kFlip) {
      flip_horizontal_ ^= later.flip_horizontal;
      flip_vertical_ ^= later.flip_vertical;
      continue;
    }
    const Region window = mirrored(window_of(later), size_);
    kept = {kept.top + window.top, kept.left + window.left, window.height, window.width};
    size_ = {window.height, window.width};
  }
  spec.height = kept.height;
  spec.width = kept.width;
  spec.flip_horizontal = flip_horizontal_;
  spec.flip_vertical = flip_vertical_;
  RowStore store(spec, out);
  if (kept == whole) {
    scratch_.resizer.resize_rows(view_, resize_spec, store.sink());
  } else {
    CutRows cut{&store, kept, kept.left * channels_};
    scratch_.resizer.resize_rows(view_, resize_spec, {&cut, CutRows::row});
  }
  store.finish();
  return still_wanted();
}

// Before there are pixels, nothing was done yet.
void Picture::mark(const Step& step) {
  if (!trace_ || step.ends_stage == 0 || !decoded_ || waiting_count_ > 0) return;
  trace_->end(step.ends_stage, scratch_.cpu_ns(), view_.height * view_.row_bytes());
}

Status Picture::render(std::span<const Step> steps, StoreSpec spec, std::byte* out) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if ((step.fields & source_.field) == 0) continue;
    if (!scratch_.patience.ask()) return given_up();
    if (step.kind == Step::Kind::kColor) {
      TRY(recolor(step));
      continue;
    }
    if (step.kind == Step::Kind::kFlip) {
      flip_horizontal_ ^= step.flip_horizontal;
      flip_vertical_ ^= step.flip_vertical;
    } else if (step.kind == Step::Kind::kWindow) {
      const Region window = mirrored(window_of(step), size_);
      if (window.inside(size_.height, size_.width))
        narrow(window);
      else
        TRY(pad(step, window));
    } else if (step.kind == Step::Kind::kWarp) {
      TRY(wait_with(step));
    } else {
      ResizeSpec resize_spec;
      TRY(before_resize(step, resize_spec));
      const auto rest = steps.subspan(i + 1);
      // Bands end in any order, and a store takes its rows in order.
      if (!wants_bands() && only_cuts(rest, {step.height, step.width})) {
        return stream(resize_spec, rest, spec, out);
      }
      TRY(resize(resize_spec));
    }
    size_ = {step.height, step.width};
    mark(step);
  }
  TRY(read_pixels());
  spec.height = view_.height;
  spec.width = view_.width;
  spec.flip_horizontal = flip_horizontal_;
  spec.flip_vertical = flip_vertical_;
  if (band_rows() < view_.height) {
    RowStore store(spec, out);
    TRY(change_in_bands(&store));
    store.finish();
  } else {
    TRY(change_waiting());
    store_image(view_, spec, out);
  }
  return {};
}

Status Picture::recolor(const Step& step) {
  SampleRng rng = step.key.at(source_.id.epoch, source_.id.record, source_.id.occurrence);
  ColorSteps drawn;
  step.color->draw(rng, size_, channels_, drawn);
  for (std::size_t i = 0; i < drawn.count; ++i) {
    ColorStep change = drawn.steps[i];
    if (!is_pixelwise(change)) {
      TRY(materialize());
      change = settled(change, view_, &scratch_.patience);
      TRY(still_wanted());
    }
    if (is_pixelwise(change)) {
      TRY(wait_with({.step = change}));
      channels_ = channels_after(change, channels_);
      continue;
    }
    if (!passes_flips(change)) TRY(unflip());
    MutableImageView out;
    TRY(next_buffer({view_.height, view_.width}, view_.channels, out));
    apply_color_step(change, view_, out, &scratch_.patience);
    TRY(still_wanted());
    view_ = out;
  }
  if (trace_ && changes_count_ > 0) return wait_with({.ends = &step});
  mark(step);
  return {};
}

Status Picture::wait_with(const Change& change) {
  if (changes_count_ == changes_.size()) TRY(materialize());
  changes_[changes_count_++] = change;
  return {};
}

// After this view_ is the picture with all of them.
Status Picture::change_waiting() {
  if (changes_count_ > 0 && !trace_ && wants_bands()) return change_on_lanes();
  if (band_rows() < view_.height) return change_in_bands(nullptr);
  for (std::size_t i = 0; i < changes_count_; ++i) {
    const Change& change = changes_[i];
    if (change.ends) mark(*change.ends);
    if (!change.step) continue;
    MutableImageView out;
    TRY(next_buffer({view_.height, view_.width}, channels_after(*change.step, view_.channels), out));
    apply_color_step(*change.step, view_, out, &scratch_.patience);
    if (!scratch_.patience.ask()) return given_up();
    view_ = out;
  }
  changes_count_ = 0;
  return {};
}

std::int64_t Picture::steps_waiting() const {
  return std::count_if(changes_.begin(), changes_.begin() + changes_count_,
                       [](const Change& change) { return change.step.has_value(); });
}

std::int64_t Picture::band_rows() const {
  const bool large = steps_waiting() > 1 && view_.height * view_.row_bytes() > kBandsFrom;
  return large ? std::max<std::int64_t>(1, kBandBytes / view_.row_bytes()) : view_.height;
}

// Into `store`, or if it is null into the next view_.
Status Picture::change_in_bands(RowStore* store) {
  const std::int64_t rows = band_rows();
  MutableImageView out;
  if (!store) TRY(next_buffer({view_.height, view_.width}, channels_, out));
  for (RowBuffer& band : scratch_.rows)
    if (!band.reserve(static_cast<std::size_t>(rows * view_.width * kChannelsMax)))
      return fail(Code::kExhausted, fmt::format("no memory for {} rows of a picture", rows));
  const std::int64_t start_ns = trace_ ? scratch_.cpu_ns() : 0;
  for (std::int64_t y = 0; y < view_.height; y += rows) {
    const std::int64_t height = std::min(rows, view_.height - y);
    const ImageView band = change_rows(crop_view(view_, {y, 0, height, view_.width}),
                                       store ? nullptr : out.row(y), scratch_.rows);
    for (std::int64_t row = 0; store && row < height; ++row) store->row(y + row, band.row(row));
    if (!scratch_.patience.after(steps_waiting() * height * view_.row_bytes())) return given_up();
  }
  if (trace_) mark_changes(start_ns);
  changes_count_ = 0;
  if (!store) view_ = out;
  return {};
}

// Some rows of the changes that wait, as a few bands one after the other.
class Picture::ChangeParts final : public BandWork {
 public:
  static constexpr int kCount = 64;
  ChangeParts(Picture& picture, std::int64_t rows, const MutableImageView& out)
      : picture_(picture), rows_(rows), out_(out) {}
  bool prepare(int /*part*/) override { return true; }
  bool run(int part, int lane) override {
    const std::int64_t end = out_.height * (part + 1) / kCount;
    for (std::int64_t y = out_.height * part / kCount; y < end; y += rows_) {
      const std::int64_t height = std::min(rows_, end - y);
      picture_.change_rows(crop_view(picture_.view_, {y, 0, height, out_.width}), out_.row(y),
                           picture_.scratch_.lanes[static_cast<std::size_t>(lane)]);
    }
    return true;
  }

 private:
  Picture& picture_;
  const std::int64_t rows_;
  const MutableImageView out_;
};

// The same as change_waiting(), on several cores.
Status Picture::change_on_lanes() {
  if (steps_waiting() == 0) {
    changes_count_ = 0;
    return {};
  }
  const std::int64_t rows = std::max<std::int64_t>(1, kBandBytes / view_.row_bytes());
  MutableImageView out;
  TRY(next_buffer({view_.height, view_.width}, channels_, out));
  const auto lanes = static_cast<std::size_t>(scratch_.bands->lanes());
  if (scratch_.lanes.size() < lanes) scratch_.lanes.resize(lanes);
  for (auto& memory : scratch_.lanes)
    for (RowBuffer& buffer : memory)
      if (!buffer.reserve(static_cast<std::size_t>(rows * view_.width * kChannelsMax)))
        return fail(Code::kExhausted, fmt::format("no memory for {} rows of a picture", rows));
  ChangeParts parts(*this, rows, out);
  CHECK(scratch_.bands->run(parts, ChangeParts::kCount));
  changes_count_ = 0;
  view_ = out;
  return {};
}

// All that wait, on some rows; the result goes to `to`, or if it is null to where it is until the next band.
ImageView Picture::change_rows(ImageView band, std::uint8_t* to, std::array<RowBuffer, 2>& memory) {
  std::size_t last = changes_count_;
  while (!changes_[last - 1].step) --last;
  bool odd = false;
  std::int64_t before_ns = trace_ ? scratch_.cpu_ns() : 0;
  for (Change& change : std::span(changes_).first(last)) {
    if (!change.step) continue;
    const std::int64_t channels = channels_after(*change.step, band.channels);
    const bool final = &change == &changes_[last - 1];
    std::uint8_t* const data = final && to ? to : memory[odd].data();
    const MutableImageView changed{data, band.height, band.width, channels, band.width * channels};
    apply_color_step(*change.step, band, changed);
    band = changed;
    odd = !odd;
    if (!trace_) continue;
    const std::int64_t now_ns = scratch_.cpu_ns();
    change.ns += now_ns - before_ns;
    before_ns = now_ns;
  }
  return band;
}

// For the trace, as if each had gone through the whole picture before the next.
void Picture::mark_changes(std::int64_t at_ns) {
  std::int64_t channels = view_.channels;
  for (const Change& change : std::span(changes_).first(changes_count_)) {
    at_ns += change.ns;
    if (change.step) channels = channels_after(*change.step, channels);
    if (change.ends && change.ends->ends_stage != 0)
      trace_->end(change.ends->ends_stage, at_ns, view_.height * view_.width * channels);
  }
}

}  // namespace carya::transforms
