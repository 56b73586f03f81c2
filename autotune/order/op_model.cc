#include "autotune/order/op_model.h"

#include <fmt/core.h>
#include <cmath>
#include <utility>

namespace carya::autotune {
namespace {

std::unexpected<Error> unusable(const std::string& subject, std::string_view part, double number) {
  return fail(Code::kInvalidArgument,
              fmt::format("{}: {} is {}; it must be a finite number of at least 0", subject, part, number));
}

Status check(const Change& change, const std::string& subject, std::string_view part) {
  if (!usable(change.scale)) return unusable(subject, std::string(part) + " scale", change.scale);
  if (!usable(change.add)) return unusable(subject, std::string(part) + " add", change.add);
  return {};
}

}  // namespace

bool usable(double number) {
  return std::isfinite(number) && number >= 0;
}

std::string_view sense_name(Sense sense) {
  switch (sense) {
    case Sense::kOff:
      return "off";
    case Sense::kExact:
      return "exact";
    case Sense::kRounding:
      return "rounding";
    case Sense::kRelaxed:
      return "relaxed";
  }
  return "unknown";
}

Result<Sense> sense_from_name(std::string_view name) {
  for (const Sense sense : {Sense::kOff, Sense::kExact, Sense::kRounding, Sense::kRelaxed})
    if (name == sense_name(sense)) return sense;
  return fail(Code::kInvalidArgument,
              "reorder=\"" + std::string(name) +
                  "\" is unknown; write \"off\", \"exact\", \"rounding\" or \"relaxed\"");
}

bool allows(Sense sense, Commutes commutes) {
  switch (sense) {
    case Sense::kOff:
      return false;
    case Sense::kExact:
      return commutes >= Commutes::kExact;
    case Sense::kRounding:
      return commutes >= Commutes::kRounding;
    case Sense::kRelaxed:
      return commutes >= Commutes::kRelaxed;
  }
  return false;
}

// b(a(x)) = b.scale * a.scale * x + b.scale * a.add + b.add: the factors of x are always equal.
bool commute(const Change& a, const Change& b) {
  return b.scale * a.add + b.add == a.scale * b.add + a.add;
}

bool commute(const SizeRule& a, const SizeRule& b) {
  return commute(a.pixels, b.pixels) && commute(a.channels, b.channels) &&
         commute(a.element_bytes, b.element_bytes);
}

Status check(const FittedCost& cost, const std::string& subject) {
  const std::pair<std::string_view, double> parts[] = {{"fixed_ns", cost.fixed_ns},
                                                       {"per_byte_in_ns", cost.per_byte_in_ns},
                                                       {"per_element_in_ns", cost.per_element_in_ns},
                                                       {"per_byte_out_ns", cost.per_byte_out_ns},
                                                       {"per_element_out_ns", cost.per_element_out_ns}};
  for (const auto& [part, number] : parts)
    if (!usable(number)) return unusable(subject, part, number);
  return {};
}

Status check(const OpModel& op) {
  if (op.name.empty()) return fail(Code::kInvalidArgument, "an op of the chain has no name; give it one");
  const std::string subject = "op " + op.name;
  TRY(check(op.cost, subject));
  TRY(check(op.size.pixels, subject, "pixels"));
  TRY(check(op.size.channels, subject, "channels"));
  TRY(check(op.size.element_bytes, subject, "element_bytes"));
  if (op.per_pixel && !op.size.pixels.keeps())
    return fail(
        Code::kInvalidArgument,
        subject + " is per pixel, and its size rule changes the number of pixels; one of the two is wrong");
  if (op.geometric && (!op.size.channels.keeps() || !op.size.element_bytes.keeps()))
    return fail(Code::kInvalidArgument, subject +
                                            " is geometric, and its size rule changes channels or element "
                                            "bytes; one of the two is wrong");
  return {};
}

}  // namespace carya::autotune
