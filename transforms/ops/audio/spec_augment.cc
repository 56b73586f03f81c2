#include "transforms/ops/audio/spec_augment.h"

#include <algorithm>

namespace carya::transforms {
namespace {

struct Run {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// A width of 0 to `width_max`, then a place.
Run draw_run(SampleRng& rng, std::int64_t width_max, std::int64_t count) {
  const auto width =
      static_cast<std::int64_t>(rng.next_below(static_cast<std::uint64_t>(std::min(width_max, count)) + 1));
  const auto begin = static_cast<std::int64_t>(rng.next_below(static_cast<std::uint64_t>(count - width) + 1));
  return {begin, begin + width};
}

}  // namespace

Result<std::unique_ptr<Op>> SpecAugment::parse(Params& params) {
  Options options;
  options.freq_masks = params.integer("freq_masks", 0, 100, 2);
  options.freq_width = params.integer("freq_width", 0, 1 << 16, 27);
  options.time_masks = params.integer("time_masks", 0, 100, 2);
  options.time_width = params.integer("time_width", 0, 1 << 24, 100);
  options.time_share = params.number("time_share", 0.0, 1.0, 1.0);
  options.value = static_cast<float>(params.number("value", -1e6, 1e6, 0.0));
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<SpecAugment>(params.take_canonical(), options, std::move(fields));
}

SpecAugment::SpecAugment(Json::Object canonical, const Options& options,
                         std::optional<std::vector<std::string>> fields)
    : AudioOp("spec_augment",
              OpTraits{.kind = OpKind::kAudio,
                       .random = true,
                       .assumed_cost = {.fixed_ns = 500, .per_byte_in_ns = 0.05}},
              std::move(canonical), std::move(fields)),
      options_(options) {}

Status SpecAugment::infer_field(FieldState& field) const {
  if (field.form == FieldState::Form::kSpectrum) return {};
  return refuse(field, "a spectrum: put log_mel, mel_spectrogram or spectrogram before");
}

Status SpecAugment::apply(SampleRng& rng, AudioClip& clip) const {
  const bool time_first = clip.time_first();
  const std::int64_t bins = time_first ? clip.columns() : clip.rows();
  const std::int64_t frames = time_first ? clip.rows() : clip.columns();
  const auto fill = [&](std::int64_t row, std::int64_t row_end, std::int64_t column,
                        std::int64_t column_end) {
    for (; row < row_end; ++row)
      std::fill(clip.values() + row * clip.columns() + column,
                clip.values() + row * clip.columns() + column_end, options_.value);
  };
  for (std::int64_t mask = 0; mask < options_.freq_masks; ++mask) {
    const Run run = draw_run(rng, options_.freq_width, bins);
    if (time_first)
      fill(0, frames, run.begin, run.end);
    else
      fill(run.begin, run.end, 0, frames);
  }
  const std::int64_t valid = clip.valid();  // padding needs no mask
  const auto most = static_cast<std::int64_t>(options_.time_share * static_cast<double>(valid));
  for (std::int64_t mask = 0; mask < options_.time_masks; ++mask) {
    const Run run = draw_run(rng, std::min(options_.time_width, most), valid);
    if (time_first)
      fill(run.begin, run.end, 0, bins);
    else
      fill(0, bins, run.begin, run.end);
  }
  return {};
}

}  // namespace carya::transforms
