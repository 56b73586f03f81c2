#include "transforms/ops/registry.h"

#include <fmt/core.h>

#include "transforms/op/order_hints.h"
#include "transforms/op/params.h"
#include "transforms/ops/affine.h"
#include "transforms/ops/apply.h"
#include "transforms/ops/audio/audio_window.h"
#include "transforms/ops/audio/decode_audio.h"
#include "transforms/ops/audio/gain.h"
#include "transforms/ops/audio/mel_filters.h"
#include "transforms/ops/audio/mfcc.h"
#include "transforms/ops/audio/resample.h"
#include "transforms/ops/audio/spec_augment.h"
#include "transforms/ops/audio/spectrum.h"
#include "transforms/ops/audio/time_edits.h"
#include "transforms/ops/audio/time_stretch.h"
#include "transforms/ops/blur.h"
#include "transforms/ops/color.h"
#include "transforms/ops/crops.h"
#include "transforms/ops/decode.h"
#include "transforms/ops/encoded/decode_raw.h"
#include "transforms/ops/encoded/transcode.h"
#include "transforms/ops/erasing.h"
#include "transforms/ops/flip_pad.h"
#include "transforms/ops/objects/boxes.h"
#include "transforms/ops/point.h"
#include "transforms/ops/random_color.h"
#include "transforms/ops/resize.h"
#include "transforms/ops/views.h"
#include "transforms/user/user_op.h"

namespace carya::transforms {
namespace {

struct Entry {
  std::string_view name;
  Result<std::unique_ptr<Op>> (*parse)(Params& params);
};

constexpr Entry kOps[] = {
    {"adjust_sharpness", FixedColor::parse_adjust_sharpness},
    {"affine", AffineTransform::parse},
    {"autocontrast", FixedColor::parse_autocontrast},
    {"boxes", BoxesOp::parse},
    {"center_crop", CenterCrop::parse},
    {"color_jitter", ColorJitter::parse},
    {"crop", Crop::parse},
    {"crop_audio", AudioWindow::parse_crop},
    {"decode_audio", DecodeAudio::parse},
    {"decode_image", DecodeImage::parse},
    {"decode_raw", DecodeRaw::parse},
    {"equalize", FixedColor::parse_equalize},
    {"gain", Gain::parse},
    {"gaussian_blur", GaussianBlur::parse},
    {"grayscale", FixedColor::parse_grayscale},
    {"invert", FixedColor::parse_invert},
    {"log_mel", Spectrum::parse_log_mel},
    {"mel_scale", MelFilters::parse},
    {"mel_spectrogram", Spectrum::parse_mel_spectrogram},
    {"mfcc", Mfcc::parse},
    {"normalize", Normalize::parse},
    {"pad", Pad::parse},
    {"pad_audio", AudioWindow::parse_pad},
    {"posterize", FixedColor::parse_posterize},
    {"random_affine", RandomAffine::parse},
    {"random_apply", RandomApply::parse},
    {"random_crop", RandomCrop::parse},
    {"random_erasing", RandomErasing::parse},
    {"random_grayscale", RandomGrayscale::parse},
    {"random_horizontal_flip", RandomFlip::parse_horizontal},
    {"random_iou_crop", RandomIouCrop::parse},
    {"random_resized_crop", RandomResizedCrop::parse},
    {"random_rotation", RandomRotation::parse},
    {"random_shortest_size", RandomShortestSize::parse},
    {"random_sized_crop", RandomSizedCrop::parse},
    {"random_vertical_flip", RandomFlip::parse_vertical},
    {"random_zoom_out", RandomZoomOut::parse},
    {"resample", Resample::parse},
    {"resize", Resize::parse},
    {"rotate", Rotate::parse},
    {"sanitize_boxes", SanitizeBoxes::parse},
    {"scale", Scale::parse},
    {"scale_jitter", ScaleJitter::parse},
    {"solarize", FixedColor::parse_solarize},
    {"spec_augment", SpecAugment::parse},
    {"spectrogram", Spectrum::parse_spectrogram},
    {"speed_perturb", SpeedPerturb::parse},
    {"subtract_mean", SubtractMean::parse},
    {"time_shift", TimeShift::parse},
    {"time_stretch", TimeStretch::parse},
    {"to_dtype", ToDtype::parse},
    {"to_layout", ToLayout::parse},
    {"transcode", Transcode::parse},
    {"trim_silence", TrimSilence::parse},
    {"two_views", TwoViews::parse},
    {"user", UserOp::parse},
};

}  // namespace

Result<std::unique_ptr<Op>> parse_op(const Json& object) {
  const Json* kind = object.find("op");
  const std::string* name = kind ? kind->get<std::string>() : nullptr;
  if (!name)
    return fail(Code::kInvalidArgument,
                "ops: got " + object.excerpt() + "; give an object with the key \"op\"");
  for (const Entry& entry : kOps) {
    if (entry.name != *name) continue;
    Params params(*name, object, "op");
    return entry.parse(params);
  }
  std::string allowed;
  for (const Entry& entry : kOps) allowed += (allowed.empty() ? "" : ", ") + std::string(entry.name);
  return fail(Code::kInvalidArgument, "ops: unknown op " + kind->excerpt() + "; give one of " + allowed);
}

Result<std::vector<std::unique_ptr<Op>>> parse_inner(Params& params, bool (*takes)(const Op& op),
                                                     std::string_view allowed) {
  const Json& given = params.raw("ops");
  const auto* objects = given.get<Json::Array>();
  if (!objects || objects->empty() || objects->size() >= kOpsMax)
    params.reject("ops", fmt::format("a list of 1 to {} ops", kOpsMax - 1));
  TRY(params.fault());
  std::vector<std::unique_ptr<Op>> inner;
  Json::Array canonical;
  for (const Json& object : *objects) {
    if (has_hints(object))
      return fail(Code::kInvalidArgument,
                  params.subject() + ": ops has " + object.excerpt() +
                      "; ops inside of others run as they are listed: give keep_position "
                      "and depends_on to " +
                      params.subject());
    auto op = parse_op(object);
    if (!op) return fail(op.error().code, params.subject() + ": " + op.error().message);
    if (!takes(**op))
      return fail(Code::kInvalidArgument,
                  params.subject() + ": ops has " + (*op)->name() + "; give " + std::string(allowed));
    ASSIGN(Json written, parse_json((*op)->json()));
    canonical.push_back(std::move(written));
    inner.push_back(std::move(*op));
  }
  params.set_canonical("ops", Json(std::move(canonical)));
  return inner;
}

}  // namespace carya::transforms
