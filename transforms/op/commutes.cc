// Which neighbours may change places, and how far (commutes() of op.h).
//
// Relaxed is the policy of Pecan's AutoOrder and cedar's reordering, which let ops pass each other unless
// they are told not to, with three limits: what is measured in pixels stays where pixels keep their size;
// what an op shows beyond the image keeps its color; and whether a record is broken, and every shape, stay as
// declared.

#include <algorithm>

#include "transforms/op/op.h"

namespace carya::transforms {
namespace {

bool is_color(const Op& op, ColorRule rule) {
  return op.traits().color == rule;
}

// What leaves a part or another size of an image, wherever in the image that part lies.
bool cuts(const Op& op) {
  const OpTraits& traits = op.traits();
  return (traits.is_window || traits.is_resize) && !traits.in_pixels;
}

// As far as the ops of a group that may least: one passes the others one after the other.
Commutes group_commutes(const Op& first, const Op& second) {
  const bool first_is_group = !first.inner().empty();
  Commutes least = Commutes::kExact;
  for (const auto& op : (first_is_group ? first : second).inner()) {
    const Commutes one = first_is_group ? commutes(*op, second) : commutes(first, *op);
    if (one == Commutes::kNever) return one;
    least = std::max(least, one);
  }
  return least;
}

// Whether what an op shows beyond the image may go through a color, which would surely make another color of
// it.
bool keeps_beyond(const OpTraits& color, Beyond beyond) {
  switch (beyond) {
    case Beyond::kNothing:
      return true;
    case Beyond::kBlack:
      return color.keeps_black || !color.pixelwise;
    case Beyond::kGray:
      return !color.pixelwise || color.random;
    case Beyond::kColors:
      return false;
  }
  return false;
}

Commutes color_and_geometric(const Op& color, const Op& geometric) {
  const OpTraits& changed = color.traits();
  const OpTraits& moved = geometric.traits();
  // Colors do not ask where they are, but for the place of an erased rectangle, which is as likely mirrored.
  const bool erases = is_color(color, ColorRule::kErase);
  if (moved.is_flip) return erases ? Commutes::kRelaxed : Commutes::kExact;
  if (erases) return Commutes::kNever;  // its size and whether it is seen depend on what is cut away after it
  const bool same_pixels =
      moved.pixels == Pixels::kCopied || (moved.pixels == Pixels::kOrBlack && changed.keeps_black);
  if (changed.pixelwise && same_pixels) return Commutes::kExact;
  if (changed.in_pixels && moved.rescales) return Commutes::kNever;
  return keeps_beyond(changed, moved.beyond) ? Commutes::kRelaxed : Commutes::kNever;
}

// Colors that are sums of values with weights that add up to one: they differ by what is rounded last.
Commutes two_colors(const Op& first, const Op& second) {
  using enum ColorRule;
  const auto are = [&](ColorRule one, ColorRule other) {
    return (is_color(first, one) && is_color(second, other)) ||
           (is_color(second, one) && is_color(first, other));
  };
  if (are(kGray, kInvert) || are(kGray, kBlur) || are(kInvert, kBlur)) return Commutes::kRounding;
  if (are(kGray, kMixed)) return Commutes::kRelaxed;
  return Commutes::kNever;
}

Commutes two_geometric(const Op& first, const Op& second) {
  const OpTraits& one = first.traits();
  const OpTraits& other = second.traits();
  if (one.is_flip && other.is_flip) return Commutes::kExact;
  // A mirrored crop at a mirrored place: the draws decide another place, equally likely.
  if ((one.is_flip && cuts(second)) || (other.is_flip && cuts(first))) return Commutes::kRelaxed;
  const bool warp_and_cut = (one.is_warp && cuts(second)) || (other.is_warp && cuts(first));
  return warp_and_cut && !one.in_pixels && !other.in_pixels ? Commutes::kRelaxed : Commutes::kNever;
}

// A cast to float32 that leaves a picture, and an op on its pixels: on levels, what the op computes is
// rounded to them, and cut at both ends.
Commutes cast_and_picture(const Op& cast, const Op& other) {
  const OpTraits& traits = other.traits();
  if (!cast.traits().pixelwise) return Commutes::kNever;
  if (traits.kind == OpKind::kGeometric) {
    if (traits.pixels != Pixels::kComputed) return Commutes::kExact;
    return traits.overshoots ? Commutes::kRelaxed : Commutes::kRounding;
  }
  if (traits.kind != OpKind::kColor || !traits.takes_floats || !cast.traits().takes_floats)
    return Commutes::kNever;
  return traits.amplifies ? Commutes::kRelaxed : Commutes::kRounding;
}

// What is known of such a function.
class Pixelwise final : public Op {
 public:
  Pixelwise() : Op("function", {.kind = OpKind::kColor, .random = true, .pixelwise = true}, {}) {}
  Status infer(std::vector<FieldState>&, std::vector<std::size_t>&) const override { return {}; }
};

}  // namespace

Commutes commutes(const Op& first, const Op& second) {
  const OpKind one = first.traits().kind;
  const OpKind other = second.traits().kind;
  if (one == OpKind::kViews || other == OpKind::kViews) return Commutes::kNever;
  if (one == OpKind::kUser || other == OpKind::kUser) return Commutes::kNever;
  // Objects know where pixels lie, not which color they have.
  if (one == OpKind::kObjects || other == OpKind::kObjects) {
    const bool with_color = one == OpKind::kColor || other == OpKind::kColor;
    return with_color ? Commutes::kExact : Commutes::kNever;
  }
  if (!first.inner().empty() || !second.inner().empty()) return group_commutes(first, second);
  // Where values lie and what they are do not touch each other. normalize does both, so it stays.
  const PointRule rule = first.traits().point, other_rule = second.traits().point;
  if (rule == PointRule::kCast && other_rule == PointRule::kLayout) return Commutes::kExact;
  if (rule == PointRule::kLayout && other_rule == PointRule::kCast) return Commutes::kExact;
  if (one == OpKind::kPoint) return cast_and_picture(first, second);
  if (other == OpKind::kPoint) return cast_and_picture(second, first);
  if (one == OpKind::kColor && other == OpKind::kColor) return two_colors(first, second);
  if (one == OpKind::kGeometric && other == OpKind::kGeometric) return two_geometric(first, second);
  if (one == OpKind::kColor && other == OpKind::kGeometric) return color_and_geometric(first, second);
  if (one == OpKind::kGeometric && other == OpKind::kColor) return color_and_geometric(second, first);
  return Commutes::kNever;
}

std::string_view commutes_name(Commutes commutes) {
  switch (commutes) {
    case Commutes::kNever:
      break;
    case Commutes::kExact:
      return "exact";
    case Commutes::kRounding:
      return "rounding";
    case Commutes::kRelaxed:
      return "relaxed";
  }
  return "never";
}

Commutes commutes_with_pixelwise(const Op& op) {
  static const Pixelwise kFunction;
  return commutes(kFunction, op);
}

}  // namespace carya::transforms
