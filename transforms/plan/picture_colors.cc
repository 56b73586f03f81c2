// Picture's color ops: what changes single pixels waits, so that a large picture goes through all of it in
// bands.
#include <algorithm>

#include "base/clock.h"
#include "transforms/plan/picture.h"

namespace carya::transforms {
namespace {

constexpr std::int64_t kChannelsMax = 4;
/// Pictures up to this stay in the second cache between two changes; of larger ones a band does.
/// Measured: bench/colors, the rows of 1500 x 1500.
constexpr std::int64_t kBandsFrom = 512 << 10;
constexpr std::int64_t kBandBytes = 64 << 10;

}  // namespace

Status Picture::recolor(const Step& step) {
  SampleRng rng(step.key, source_.id.epoch, source_.id.record, source_.id.occurrence);
  ColorSteps drawn;
  step.color->draw(rng, size_, channels_, drawn);
  for (std::size_t i = 0; i < drawn.count; ++i) {
    ColorStep change = drawn.steps[i];
    if (!is_pixelwise(change)) {
      TRY(materialize());
      change = settled(change, view_);
    }
    if (is_pixelwise(change)) {
      TRY(wait_with({.step = change}));
      channels_ = channels_after(change, channels_);
      continue;
    }
    if (!passes_flips(change)) TRY(unflip());
    MutableImageView out;
    TRY(next_buffer({view_.height, view_.width}, view_.channels, out));
    apply_color_step(change, view_, out);
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
  if (band_rows() < view_.height) return change_in_bands(nullptr);
  for (std::size_t i = 0; i < changes_count_; ++i) {
    const Change& change = changes_[i];
    if (change.ends) mark(*change.ends);
    if (!change.step) continue;
    MutableImageView out;
    TRY(next_buffer({view_.height, view_.width}, channels_after(*change.step, view_.channels), out));
    apply_color_step(*change.step, view_, out);
    view_ = out;
  }
  changes_count_ = 0;
  return {};
}

std::int64_t Picture::band_rows() const {
  const auto steps = std::count_if(changes_.begin(), changes_.begin() + changes_count_,
                                   [](const Change& change) { return change.step.has_value(); });
  const bool large = steps > 1 && view_.height * view_.row_bytes() > kBandsFrom;
  return large ? std::max<std::int64_t>(1, kBandBytes / view_.row_bytes()) : view_.height;
}

// Into `store`, or if it is null into the next view_.
Status Picture::change_in_bands(RowStore* store) {
  const std::int64_t rows = band_rows();
  MutableImageView out;
  if (!store) TRY(next_buffer({view_.height, view_.width}, channels_, out));
  for (RowBuffer& band : scratch_.bands)
    if (!band.reserve(static_cast<std::size_t>(rows * view_.width * kChannelsMax)))
      return fail(Code::kExhausted, "no memory for " + std::to_string(rows) + " rows of a picture");
  const std::int64_t start_ns = trace_ ? thread_cpu_ns() : 0;
  for (std::int64_t y = 0; y < view_.height; y += rows) {
    const std::int64_t height = std::min(rows, view_.height - y);
    const ImageView band =
        change_rows(crop_view(view_, {y, 0, height, view_.width}), store ? nullptr : out.row(y));
    for (std::int64_t row = 0; store && row < height; ++row) store->row(y + row, band.row(row));
  }
  if (trace_) mark_changes(start_ns);
  changes_count_ = 0;
  if (!store) view_ = out;
  return {};
}

// All that wait, on some rows; the result goes to `to`, or if it is null to where it is until the next band.
ImageView Picture::change_rows(ImageView band, std::uint8_t* to) {
  std::size_t last = changes_count_;
  while (!changes_[last - 1].step) --last;
  bool odd = false;
  std::int64_t before_ns = trace_ ? thread_cpu_ns() : 0;
  for (Change& change : std::span(changes_).first(last)) {
    if (!change.step) continue;
    const std::int64_t channels = channels_after(*change.step, band.channels);
    const bool final = &change == &changes_[last - 1];
    std::uint8_t* const data = final && to ? to : scratch_.bands[odd].data();
    const MutableImageView changed{data, band.height, band.width, channels, band.width * channels};
    apply_color_step(*change.step, band, changed);
    band = changed;
    odd = !odd;
    if (!trace_) continue;
    const std::int64_t now_ns = thread_cpu_ns();
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
