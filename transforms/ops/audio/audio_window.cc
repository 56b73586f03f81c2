#include "transforms/ops/audio/audio_window.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>

namespace carya::transforms {
namespace {

constexpr double kSecondsMax = 86'400;

AudioWindow::Options read_length(Params& params) {
  AudioWindow::Options options;
  options.samples = params.integer_or_null("samples", 1, kAudioValuesMax).value_or(0);
  const auto seconds = params.numbers_or_null("seconds", 1, 1, 1e-3, kSecondsMax,
                                              "None or the length of the window in seconds");
  options.seconds = seconds ? seconds->front() : 0;
  if ((options.samples == 0) == !seconds) params.reject("samples", "either samples or seconds");
  return options;
}

}  // namespace

Result<std::unique_ptr<Op>> AudioWindow::parse_crop(Params& params) {
  Options options = read_length(params);
  options.place = params.boolean("random", true) ? Place::kRandom : Place::kCenter;
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<AudioWindow>("crop_audio", params.take_canonical(), options, std::move(fields));
}

Result<std::unique_ptr<Op>> AudioWindow::parse_pad(Params& params) {
  Options options = read_length(params);
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<AudioWindow>("pad_audio", params.take_canonical(), options, std::move(fields));
}

AudioWindow::AudioWindow(std::string name, Json::Object canonical, Options options,
                         std::optional<std::vector<std::string>> fields)
    : AudioOp(std::move(name),
              OpTraits{.kind = OpKind::kAudio,
                       .random = options.place == Place::kRandom,
                       .assumed_cost = {.fixed_ns = 500, .per_byte_out_ns = 0.2}},
              std::move(canonical), std::move(fields)),
      options_(options) {}

std::int64_t AudioWindow::samples_at(std::int64_t rate) const {
  if (options_.samples > 0) return options_.samples;
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::rint(options_.seconds * static_cast<double>(rate))));
}

Status AudioWindow::infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  TRY(AudioOp::infer(fields, indices));
  for (const std::size_t i : indices) {
    if (fields[i].length_field != FieldState::kNoField) continue;
    const std::string name_of_length = fields[i].spec.name + "_length";
    if (fields.size() >= kFieldsMax)
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: {} fields; give at most {}", name(), fields.size(), kFieldsMax - 1));
    for (const FieldState& field : fields)
      if (field.spec.name == name_of_length)
        return refuse(field, "other names: it is where the length of " + fields[i].spec.name + " goes");
    fields[i].length_field = fields.size();
    fields.push_back({.spec = {name_of_length, DType::kInt64, {}}, .form = FieldState::Form::kLabel});
  }
  return {};
}

Status AudioWindow::infer_field(FieldState& field) const {
  TRY(check_samples(field, false));
  if (options_.samples == 0 && field.rate == 0)
    return refuse(field,
                  "samples=, or a rate to decode_audio: files of different rates have no length in seconds");
  const std::int64_t samples = samples_at(field.rate);
  const std::int64_t channels = field.spec.shape.size() == 2 ? field.spec.shape[0] : 1;
  if (samples > kAudioValuesMax / channels)
    return refuse(field, fmt::format("a window of at most {} values", kAudioValuesMax));
  field.spec.shape.back() = samples;
  return {};
}

Status AudioWindow::apply(SampleRng& rng, AudioClip& clip) const {
  const std::int64_t samples = samples_at(clip.rate());
  const std::int64_t spare = std::max<std::int64_t>(0, clip.columns() - samples);
  std::int64_t begin = 0;
  if (options_.place == Place::kRandom && spare > 0)
    begin = static_cast<std::int64_t>(rng.next_below(static_cast<std::uint64_t>(spare) + 1));
  if (options_.place == Place::kCenter) begin = spare / 2;
  return clip.window(begin, samples);
}

}  // namespace carya::transforms
