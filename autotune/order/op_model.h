#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace carya::autotune {

/// Whether it is finite and at least 0.
bool usable(double number);

/// How far two ops may change places when they are neighbours (DESIGN section 7), from never to freely.
enum class Commutes : std::uint8_t {
  kNever,
  kRelaxed,   ///< same distribution, other pixels
  kRounding,  ///< within one unit
  kExact,     ///< same bits
};

/// How far the user lets the optimizer reorder a pipeline; the names are `reorder=` in Python.
enum class Sense : std::uint8_t {
  kOff,       ///< the declared order; fusion is still chosen, it changes no bit
  kExact,     ///< pairs that commute with the same bits
  kRounding,  ///< also pairs that commute within one unit
  kRelaxed,   ///< also pairs that keep the distribution only
};

/// "off", "exact", "rounding", "relaxed".
std::string_view sense_name(Sense sense);
/// Errors: kInvalidArgument with the four names.
Result<Sense> sense_from_name(std::string_view name);
/// Whether a pair that commutes so far may be exchanged under `sense`.
bool allows(Sense sense, Commutes commutes);

/// The mean size of one sample at a point of the chain. Means are enough: costs are linear in sizes, and the
/// rules below are affine.
struct Size {
  double pixels = 0;  ///< positions: pixels, audio frames, tokens; the bytes of a sample still encoded
  double channels = 1;
  double element_bytes = 1;

  double elements() const { return pixels * channels; }
  double bytes() const { return elements() * element_bytes; }
};

/// after = scale * before + add, both at least 0.
struct Change {
  double scale = 1;
  double add = 0;

  static Change keep() { return {}; }
  static Change set(double value) { return {.scale = 0, .add = value}; }
  static Change scaled(double factor) { return {.scale = factor, .add = 0}; }
  double operator()(double before) const { return scale * before + add; }
  bool keeps() const { return scale == 1 && add == 0; }
};

/// Whether first a, then b, gives what first b, then a, gives, for every size before.
bool commute(const Change& a, const Change& b);

/// What an op does to the size of a sample. The three parts change independently of each other, so that
/// `resize(224)` (sets pixels), `grayscale` (sets channels) and `to_float` (sets element_bytes) commute.
struct SizeRule {
  Change pixels;
  Change channels;
  Change element_bytes;

  Size operator()(const Size& before) const {
    return {pixels(before.pixels), channels(before.channels), element_bytes(before.element_bytes)};
  }
};
bool commute(const SizeRule& a, const SizeRule& b);

/// CPU time fitted to measurements, linear in the quantity that drives it. Decoding is a matter of bytes in
/// and elements out, a per-pixel op of elements in, a copy of bytes. Every coefficient is at least 0.
struct FittedCost {
  double fixed_ns = 0;  ///< per sample
  double per_byte_in_ns = 0;
  double per_element_in_ns = 0;
  double per_byte_out_ns = 0;
  double per_element_out_ns = 0;

  double ns(const Size& in, const Size& out) const {
    return fixed_ns + per_byte_in_ns * in.bytes() + per_element_in_ns * in.elements() +
           per_byte_out_ns * out.bytes() + per_element_out_ns * out.elements();
  }
};

/// What the planner knows of one op of a chain. Which pairs commute and which fuse belongs to both ops of the
/// pair and stands in the chain (autotune/order/chain.h).
struct OpModel {
  std::string name;            ///< several ops may share one
  bool random = false;         ///< draws from the sample's random numbers
  bool per_pixel = false;      ///< each value by itself: the number of pixels stays
  bool geometric = false;      ///< moves pixels: channels and element bytes stay
  bool keep_position = false;  ///< nothing passes it
  std::vector<std::string>
      depends_on;  ///< ops that run before it: a name, or "name#1" for the second so called
  SizeRule size;
  FittedCost cost;  ///< alone, not fused with a neighbour
};

/// Finite numbers of at least 0, a name, and a size rule that fits the kind. Errors: kInvalidArgument with
/// the op and the number.
Status check(const OpModel& op);

/// Errors: kInvalidArgument, "`subject`: ..." with the coefficient that is negative or not finite.
Status check(const FittedCost& cost, const std::string& subject);

}  // namespace carya::autotune
