#include "transforms/ops/audio/gain.h"

#include "base/det_math.h"

namespace carya::transforms {

Result<std::unique_ptr<Op>> Gain::parse(Params& params) {
  const std::vector<double> db =
      params.numbers("db", 1, 2, -120.0, 120.0, "a number of decibels, or a range [low, high]");
  if (db.size() == 2 && db[0] > db[1]) params.reject("db", "low <= high");
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<Gain>(params.take_canonical(), std::array{db.front(), db.back()},
                                std::move(fields));
}

Gain::Gain(Json::Object canonical, std::array<double, 2> db, std::optional<std::vector<std::string>> fields)
    : AudioOp("gain",
              OpTraits{.kind = OpKind::kAudio,
                       .random = db[0] != db[1],
                       .assumed_cost = {.fixed_ns = 200, .per_byte_in_ns = 0.1}},
              std::move(canonical), std::move(fields)),
      db_(db) {}

Status Gain::apply(SampleRng& rng, AudioClip& clip) const {
  TRY(clip.decode());
  double db = db_[0];
  if (db_[0] != db_[1]) db += (db_[1] - db_[0]) * rng.next_double();
  const auto factor = static_cast<float>(det_exp(db * (det_log(10.0) / 20.0)));
  const std::int64_t count = clip.rows() * clip.columns();
  for (std::int64_t i = 0; i < count; ++i) clip.values()[i] *= factor;
  return {};
}

}  // namespace carya::transforms
