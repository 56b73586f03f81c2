// Which neighbours may change places, and how far (commutes() of op.h).
//
// Relaxed is the policy of Pecan's AutoOrder and cedar's reordering, which let ops pass each other unless
// they are told not to, with three limits: what is measured in pixels stays where pixels keep their size;
// what an op shows beyond the image keeps its color; and whether a record is broken, and every shape, stay as
// declared.

#include <algorithm>
#include <array>

#include "transforms/op/op.h"

namespace carya::transforms {
namespace {

template <std::size_t N>
bool is_one_of(const Op& op, const std::array<std::string_view, N>& names) {
  return std::ranges::find(names, op.name()) != names.end();
}

constexpr std::array<std::string_view, 2> kFlips{"random_horizontal_flip", "random_vertical_flip"};
constexpr std::array<std::string_view, 2> kGrays{"grayscale", "random_grayscale"};
// What takes the weight of an image's pixels from each other, channel by channel: a gray of it is it of a
// gray.
constexpr std::array<std::string_view, 2> kMixed{"color_jitter", "adjust_sharpness"};
constexpr std::array<std::string_view, 4> kCuts{"center_crop", "random_crop", "random_resized_crop",
                                                "resize"};
constexpr std::array<std::string_view, 4> kWarps{"affine", "random_affine", "random_rotation", "rotate"};

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
  const bool erases = color.name() == "random_erasing";
  if (is_one_of(geometric, kFlips)) return erases ? Commutes::kRelaxed : Commutes::kExact;
  if (erases) return Commutes::kNever;  // its size and whether it is seen depend on what is cut away after it
  const bool same_pixels =
      moved.pixels == Pixels::kCopied || (moved.pixels == Pixels::kOrBlack && changed.keeps_black);
  if (changed.pixelwise && same_pixels) return Commutes::kExact;
  if (changed.in_pixels && moved.rescales) return Commutes::kNever;
  return keeps_beyond(changed, moved.beyond) ? Commutes::kRelaxed : Commutes::kNever;
}

// Colors that are sums of values with weights that add up to one: they differ by what is rounded last.
Commutes two_colors(const Op& first, const Op& second) {
  const auto are = [&](auto&& one, auto&& other) {
    return (one(first) && other(second)) || (one(second) && other(first));
  };
  const auto gray = [](const Op& op) { return is_one_of(op, kGrays); };
  const auto inverts = [](const Op& op) { return op.name() == "invert"; };
  const auto blurs = [](const Op& op) { return op.name() == "gaussian_blur"; };
  if (are(gray, inverts) || are(gray, blurs) || are(inverts, blurs)) return Commutes::kRounding;
  if (are(gray, [](const Op& op) { return is_one_of(op, kMixed); })) return Commutes::kRelaxed;
  return Commutes::kNever;
}

Commutes two_geometric(const Op& first, const Op& second) {
  const auto are = [&](const auto& one, const auto& other) {
    return (is_one_of(first, one) && is_one_of(second, other)) ||
           (is_one_of(second, one) && is_one_of(first, other));
  };
  if (are(kFlips, kFlips)) return Commutes::kExact;
  // A mirrored crop at a mirrored place: the draws decide another place, equally likely.
  if (are(kFlips, kCuts)) return Commutes::kRelaxed;
  if (!are(kWarps, kCuts) || first.traits().in_pixels || second.traits().in_pixels) return Commutes::kNever;
  return Commutes::kRelaxed;
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
  // A jitter stretches what its base was rounded by.
  return other.name() == "color_jitter" ? Commutes::kRelaxed : Commutes::kRounding;
}

}  // namespace

Commutes commutes(const Op& first, const Op& second) {
  const OpKind one = first.traits().kind;
  const OpKind other = second.traits().kind;
  if (one == OpKind::kViews || other == OpKind::kViews) return Commutes::kNever;
  if (!first.inner().empty() || !second.inner().empty()) return group_commutes(first, second);
  // Where values lie and what they are do not touch each other. normalize does both, so it stays.
  const bool dtype_then_layout = first.name() == "to_dtype" && second.name() == "to_layout";
  const bool layout_then_dtype = first.name() == "to_layout" && second.name() == "to_dtype";
  if (dtype_then_layout || layout_then_dtype) return Commutes::kExact;
  if (one == OpKind::kPoint) return cast_and_picture(first, second);
  if (other == OpKind::kPoint) return cast_and_picture(second, first);
  if (one == OpKind::kColor && other == OpKind::kColor) return two_colors(first, second);
  if (one == OpKind::kGeometric && other == OpKind::kGeometric) return two_geometric(first, second);
  if (one == OpKind::kColor && other == OpKind::kGeometric) return color_and_geometric(first, second);
  if (one == OpKind::kGeometric && other == OpKind::kColor) return color_and_geometric(second, first);
  return Commutes::kNever;
}

}  // namespace carya::transforms
