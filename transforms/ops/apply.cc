#include "transforms/ops/apply.h"

#include <algorithm>
#include <array>

#include "transforms/ops/geometry.h"
#include "transforms/ops/registry.h"

namespace carya::transforms {
namespace {

constexpr std::string_view kName = "random_apply";
constexpr std::string_view kAllowed = "geometric and color ops that leave shapes as they are";

std::unexpected<Error> inside(const Error& error) {
  return fail(error.code, std::string(kName) + ": " + error.message);
}

// Sizes that tell an op that keeps every size from one that changes some: what ops do to a size is to fix it,
// to add to it, or to scale it by its shorter side, and none of these leaves both as they are.
constexpr std::array<ImageSize, 2> kProbes{{{1009, 2003}, {2011, 1013}}};

void set_unknown_sizes(std::vector<FieldState>& fields, ImageSize size) {
  for (FieldState& field : fields) {
    if (field.form != FieldState::Form::kImage) continue;
    if (field.spec.shape[0] < 0) field.spec.shape[0] = size.height;
    if (field.spec.shape[1] < 0) field.spec.shape[1] = size.width;
  }
}

// The images of a sample have one size where a geometric op takes them, so one that is known tells the
// others.
ImageSize known_size(const std::vector<FieldState>& fields) {
  ImageSize size;
  for (const FieldState& field : fields) {
    if (field.form != FieldState::Form::kImage) continue;
    size.height = std::max(size.height, field.spec.shape[0]);
    size.width = std::max(size.width, field.spec.shape[1]);
  }
  return size;
}

bool keeps(const FieldState& before, const FieldState& after) {
  return before.spec == after.spec && before.form == after.form && before.layout == after.layout &&
         before.values == after.values && before.unit == after.unit;
}

}  // namespace

Result<std::unique_ptr<Op>> RandomApply::parse(Params& params) {
  constexpr auto kTakes = [](const Op& op) {
    return op.traits().kind == OpKind::kGeometric || op.traits().kind == OpKind::kColor;
  };
  ASSIGN(auto inner, parse_inner(params, kTakes, kAllowed));
  const double p = params.number("p", 0.0, 1.0, 0.5);
  TRY(params.finish());
  return std::make_unique<RandomApply>(params.take_canonical(), std::move(inner), p);
}

RandomApply::RandomApply(Json::Object canonical, std::vector<std::unique_ptr<Op>> inner, double p)
    : Op(std::string(kName), OpTraits{.kind = OpKind::kGroup, .random = true}, std::move(canonical)),
      inner_(std::move(inner)),
      p_(p) {}

Status RandomApply::infer_inner(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  for (const auto& op : inner_) {
    std::vector<std::size_t> taken;
    const Status status = op->infer(fields, taken);
    if (!status) return inside(status.error());
    indices.insert(indices.end(), taken.begin(), taken.end());
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return {};
}

Status RandomApply::check_shapes(const std::vector<FieldState>& fields) const {
  const ImageSize known = known_size(fields);
  for (const ImageSize& probe : kProbes) {
    std::vector<FieldState> before = fields;
    set_unknown_sizes(before, {known.height < 0 ? probe.height : known.height,
                               known.width < 0 ? probe.width : known.width});
    std::vector<FieldState> after = before;
    std::vector<std::size_t> indices;
    const bool taken = infer_inner(after, indices).has_value();
    for (std::size_t f = 0; f < fields.size(); ++f)
      if (!taken || !keeps(before[f], after[f]))
        return fail(Code::kInvalidArgument, "random_apply: ops change the shape of " + fields[f].spec.name +
                                                ", " + fields[f].spec.to_string() + "; give " +
                                                std::string(kAllowed));
  }
  return {};
}

Status RandomApply::infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  std::vector<FieldState> after = fields;
  TRY(infer_inner(after, indices));
  TRY(check_shapes(fields));
  fields = std::move(after);
  return {};
}

}  // namespace carya::transforms
