#include "transforms/ops/audio/time_edits.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>

#include "base/det_math.h"

namespace carya::transforms {

Result<std::unique_ptr<Op>> TimeShift::parse(Params& params) {
  const double share = params.number("share", 0.0, 1.0, 0.1);
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<TimeShift>(params.take_canonical(), share, std::move(fields));
}

TimeShift::TimeShift(Json::Object canonical, double share, std::optional<std::vector<std::string>> fields)
    : AudioOp("time_shift",
              OpTraits{.kind = OpKind::kAudio,
                       .random = true,
                       .assumed_cost = {.fixed_ns = 500, .per_byte_in_ns = 0.1}},
              std::move(canonical), std::move(fields)),
      share_(share) {}

Status TimeShift::apply(SampleRng& rng, AudioClip& clip) const {
  TRY(clip.decode());
  const std::int64_t count = clip.columns();
  const auto most = static_cast<std::int64_t>(share_ * static_cast<double>(count));
  const std::int64_t shift =
      static_cast<std::int64_t>(rng.next_below(static_cast<std::uint64_t>(2 * most) + 1)) - most;
  float* const out = clip.next(clip.rows() * count);
  if (out == nullptr) return fail(Code::kExhausted, fmt::format("no memory for {} samples", count));
  const std::int64_t kept = count - std::abs(shift);
  for (std::int64_t row = 0; row < clip.rows(); ++row) {
    const float* const from = clip.values() + row * count;
    float* const to = out + row * count;
    std::fill(to, to + count, 0.0F);
    std::copy_n(from + std::max<std::int64_t>(0, -shift), kept, to + std::max<std::int64_t>(0, shift));
  }
  clip.become(clip.rows(), count, std::clamp<std::int64_t>(clip.valid() + shift, 0, count));
  return {};
}

Result<std::unique_ptr<Op>> TrimSilence::parse(Params& params) {
  Options options;
  options.top_db = params.number("top_db", 0.0, 200.0, 60.0);
  options.frame_length = params.integer("frame_length", 2, 1 << 20, 2048);
  options.hop = params.integer("hop_length", 1, 1 << 20, 512);
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<TrimSilence>(params.take_canonical(), options, std::move(fields));
}

TrimSilence::TrimSilence(Json::Object canonical, const Options& options,
                         std::optional<std::vector<std::string>> fields)
    : AudioOp("trim_silence",
              OpTraits{.kind = OpKind::kAudio, .assumed_cost = {.fixed_ns = 500, .per_byte_in_ns = 1.0}},
              std::move(canonical), std::move(fields)),
      options_(options) {}

Status TrimSilence::infer_field(FieldState& field) const {
  TRY(check_samples(field, true));
  if (field.spec.shape.size() != 1) return refuse(field, "mono: decode_audio(channels=\"mono\")");
  if (field.spec.shape[0] >= 0)
    return refuse(field,
                  "clips of any length, since it changes lengths: put it before crop_audio or pad_audio");
  return {};
}

Status TrimSilence::apply(SampleRng&, AudioClip& clip) const {
  TRY(clip.decode());
  const std::int64_t count = clip.columns();
  const float* const from = clip.values();
  // The power of each frame, whose middle is at a multiple of the hop; silence lies on both sides of the clip. Each is
  // summed anew: sums that slide along would depend on all that was before.
  std::vector<double> powers;
  double loudest = 0;
  for (std::int64_t middle = 0; middle <= count; middle += options_.hop) {
    const std::int64_t begin = std::max<std::int64_t>(0, middle - options_.frame_length / 2);
    const std::int64_t end = std::min(count, middle - options_.frame_length / 2 + options_.frame_length);
    double power = 0;
    for (std::int64_t i = begin; i < end; ++i)
      power += static_cast<double>(from[i]) * static_cast<double>(from[i]);
    powers.push_back(power);
    loudest = std::max(loudest, power);
  }
  const double least = loudest * det_exp(-options_.top_db * (det_log(10.0) / 10.0));
  const auto loud = [&](double power) { return power > least; };
  const auto first = std::ranges::find_if(powers, loud);
  if (first == powers.end()) return clip.window(0, 0);
  const auto last = std::find_if(powers.rbegin(), powers.rend(), loud).base();  // one behind it
  const std::int64_t begin = std::min(count, (first - powers.begin()) * options_.hop);
  const std::int64_t end = std::min(count, (last - powers.begin()) * options_.hop);
  return clip.window(begin, std::max<std::int64_t>(0, end - begin));
}

}  // namespace carya::transforms
