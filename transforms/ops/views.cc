#include "transforms/ops/views.h"

#include <fmt/core.h>

#include "transforms/ops/registry.h"

namespace carya::transforms {
namespace {

constexpr std::string_view kAllowed = "geometric and color ops, random_apply and ops on values";

std::unexpected<Error> inside(const Error& error) {
  return fail(error.code, "two_views: " + error.message);
}

}  // namespace

Result<std::unique_ptr<Op>> TwoViews::parse(Params& params) {
  constexpr auto kTakes = [](const Op& op) {
    const OpKind kind = op.traits().kind;
    return kind != OpKind::kDecode && kind != OpKind::kViews && kind != OpKind::kUser;
  };
  ASSIGN(auto inner, parse_inner(params, kTakes, kAllowed));
  TRY(params.finish());
  return std::make_unique<TwoViews>(params.take_canonical(), std::move(inner));
}

TwoViews::TwoViews(Json::Object canonical, std::vector<std::unique_ptr<Op>> inner)
    : Op("two_views", OpTraits{.kind = OpKind::kViews}, std::move(canonical)), inner_(std::move(inner)) {}

Result<std::size_t> TwoViews::find_picture(const std::vector<FieldState>& fields) const {
  ASSIGN(const auto found, fields_or_main(name(), fields, std::nullopt));
  const FieldState& picture = fields[found.front()];
  if (picture.form == FieldState::Form::kEncoded)
    return refuse(picture, "a picture: put decode_image before");
  if (picture.form != FieldState::Form::kImage || picture.values)
    return refuse(picture, "a picture: put it before normalize, to_dtype and to_layout");
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const FieldState::Form form = fields[f].form;
    if (form == FieldState::Form::kAudio || form == FieldState::Form::kSpectrum)
      return refuse(fields[f], "no audio beside the picture that is seen twice");
    if (form == FieldState::Form::kObjects)
      return refuse(fields[f], "no boxes beside the picture that is seen twice");
    if (fields[f].spec.name == "view_0" || fields[f].spec.name == "view_1")
      return refuse(fields[f], "other names than those of the views");
    if (f != found.front() && (form == FieldState::Form::kImage || form == FieldState::Form::kEncoded))
      return refuse(fields[f], "no image beside the one that is seen twice");
  }
  if (fields.size() >= kFieldsMax)
    return fail(Code::kInvalidArgument,
                fmt::format("two_views: {} fields; give at most {}", fields.size(), kFieldsMax - 1));
  return found.front();
}

Status TwoViews::infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  ASSIGN(const std::size_t picture, find_picture(fields));
  std::vector<FieldState> after = fields;
  for (const auto& op : inner_) {
    std::vector<std::size_t> taken;
    const Status status = op->infer(after, taken);
    if (!status) return inside(status.error());
    for (const std::size_t f : taken)
      if (f != picture)
        return fail(Code::kInvalidArgument, "two_views: " + op->name() + " takes " + fields[f].spec.name +
                                                "; give ops on image alone");
  }
  FieldState view = after[picture];
  if (view.spec.bytes() < 0)
    return fail(Code::kInvalidArgument,
                "two_views: ops leave " + view.spec.to_string() +
                    "; give one shape for both views: add random_resized_crop or another op that fixes it");
  indices = {picture, fields.size()};
  view.spec.name = "view_0";
  fields[picture] = view;
  view.spec.name = "view_1";
  fields.push_back(std::move(view));
  return {};
}

}  // namespace carya::transforms
