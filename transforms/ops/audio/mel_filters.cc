#include "transforms/ops/audio/mel_filters.h"

#include <fmt/core.h>
#include <algorithm>

#include "transforms/ops/audio/kept_tables.h"

namespace carya::transforms {

Result<std::unique_ptr<Op>> MelFilters::parse(Params& params) {
  Options options;
  options.filters = params.integer("n_mels", 1, 1024, 128);
  options.low_hz = params.number("f_min", 0, kAudioRateMax, 0.0);
  const auto high = params.numbers_or_null("f_max", 1, 1, 1, kAudioRateMax, "None or a frequency in Hz");
  options.high_hz = high ? high->front() : 0;
  options.scale = params.choice("mel_scale", {"htk", "slaney"}) == 0 ? MelScale::kHtk : MelScale::kSlaney;
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<MelFilters>(params.take_canonical(), options, std::move(fields));
}

MelFilters::MelFilters(Json::Object canonical, const Options& options,
                       std::optional<std::vector<std::string>> fields)
    : AudioOp("mel_scale",
              OpTraits{.kind = OpKind::kAudio, .assumed_cost = {.fixed_ns = 2'000, .per_byte_in_ns = 0.3}},
              std::move(canonical), std::move(fields)),
      options_(options) {}

double MelFilters::high_at(std::int64_t rate) const {
  return options_.high_hz > 0 ? options_.high_hz : static_cast<double>(rate) / 2;
}

Status MelFilters::infer_field(FieldState& field) const {
  if (field.form != FieldState::Form::kSpectrum || field.power == 0)
    return refuse(field, "a spectrum with the bins of its transform: put spectrogram before");
  if (field.rate == 0) return refuse(field, "one rate for all files: decode_audio(rate=16000)");
  if (options_.high_hz > static_cast<double>(field.rate) / 2)
    return refuse(field, fmt::format("f_max up to half of the rate, {} Hz", field.rate / 2));
  if (options_.low_hz >= high_at(field.rate))
    return refuse(field, fmt::format("f_min below {} Hz", high_at(field.rate)));
  field.spec.shape[0] = options_.filters;
  field.power = 0;
  return {};
}

Status MelFilters::apply(SampleRng&, AudioClip& clip) const {
  const std::int64_t bins = clip.rows();
  const std::int64_t frames = clip.columns();
  const auto rate = clip.rate();
  const auto bank = kept_table<MelBank>(json() + fmt::format("@{}/{}", rate, bins), [&] {
    return make_mel_bank(options_.scale, static_cast<std::size_t>(options_.filters),
                         static_cast<std::size_t>(2 * (bins - 1)), static_cast<double>(rate), options_.low_hz,
                         high_at(rate));
  });
  float* const out = clip.next(options_.filters * frames);
  if (out == nullptr) return fail(Code::kExhausted, fmt::format("no memory for {} frames", frames));
  for (std::size_t m = 0; m < bank->size(); ++m) {
    float* const to = out + static_cast<std::int64_t>(m) * frames;
    std::fill(to, to + frames, 0.0F);
    for (std::size_t i = 0; i < bank->count[m]; ++i) {
      const float weight = bank->weights[bank->offset[m] + i];
      const float* const from = clip.values() + static_cast<std::int64_t>(bank->first[m] + i) * frames;
      for (std::int64_t f = 0; f < frames; ++f) to[f] += weight * from[f];
    }
  }
  clip.become(options_.filters, frames, clip.valid());
  return {};
}

}  // namespace carya::transforms
