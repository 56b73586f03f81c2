#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transforms/op/op.h"
#include "transforms/op/params.h"

namespace carya::transforms {

/// The work of a point op on one field: arithmetic on each value, then a new order of the values.
struct PointStep {
  enum class Math : std::uint8_t {
    kNone,    ///< values stay
    kAffine,  ///< x * a + b per channel, to float32
    kCast,    ///< to `to`, by the rules of ToDtype
  };
  Math math = Math::kNone;
  DType from = DType::kUint8;
  DType to = DType::kUint8;
  bool scale = false;      ///< kCast
  std::vector<float> a{};  ///< kAffine: one factor, or one per channel
  std::vector<float> b{};
  Layout layout_in = Layout::kHwc;
  Layout layout_out = Layout::kHwc;
};

/// The assumed cost of a point op, which runs while the result is stored.
inline constexpr AssumedCost kStoreCost{.per_element_out_ns = 0.05};

/// An op that changes each value by itself. Without `fields` it takes `image`.
class PointOp : public Op {
 public:
  PointOp(std::string op_name, Json::Object canonical, std::optional<std::vector<std::string>> fields,
          OpTraits traits = {.kind = OpKind::kPoint, .assumed_cost = kStoreCost});
  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const final;

  /// The op's work on a field that infer() accepted, given the field's state before the op.
  virtual PointStep step(const FieldState& in) const = 0;

 protected:
  virtual Status infer_field(FieldState& field) const = 0;

  /// Check that the field is float32, and that `parameter` has one number or one for each channel.
  Status check_floats(const FieldState& field, std::string_view parameter, std::size_t count) const;

 private:
  std::optional<std::vector<std::string>> fields_;
};

/// (x - mean) / std per channel, as float32; uint8 is divided by 255 first. It is computed as x * a + b with two
/// roundings, where a and b are each rounded once from double. Source: torchvision v2 Normalize after ToDtype(float32,
/// scale=True); within 2e-6 of it.
class Normalize final : public PointOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  Normalize(Json::Object canonical, std::vector<double> mean, std::vector<double> std,
            std::optional<Layout> layout, std::optional<std::vector<std::string>> fields);
  PointStep step(const FieldState& in) const override;

 private:
  Status infer_field(FieldState& field) const override;

  std::vector<double> mean_;
  std::vector<double> std_;
  std::optional<Layout> layout_;  // none: keep the layout
};

/// Casts; with `scale`, between 0..255 and 0..1. Source: torchvision v2 ToDtype. uint8 -> float32 is x * (1 / 255),
/// within one unit in the last place of x / 255. float32 -> uint8 is trunc(x * 255.999); values out of range become the
/// nearest end (NaN: 0), which the reference does not define. float32 -> float16 and bfloat16 are to_halves().
class ToDtype final : public PointOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  ToDtype(Json::Object canonical, DType dtype, bool scale, std::optional<std::vector<std::string>> fields);
  PointStep step(const FieldState& in) const override;

 private:
  Status infer_field(FieldState& field) const override;

  DType dtype_;
  bool scale_;
};

/// Moves the channel axis. Source: numpy.transpose; exact.
class ToLayout final : public PointOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  ToLayout(Json::Object canonical, Layout layout, std::optional<std::vector<std::string>> fields);
  PointStep step(const FieldState& in) const override;

 private:
  Status infer_field(FieldState& field) const override;

  Layout layout_;
};

/// x - mean per channel, float32. It is computed as x + b, where b = -mean is rounded once from double. Source: numpy;
/// exact.
class SubtractMean final : public PointOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  SubtractMean(Json::Object canonical, std::vector<double> mean,
               std::optional<std::vector<std::string>> fields);
  PointStep step(const FieldState& in) const override;

 private:
  Status infer_field(FieldState& field) const override;

  std::vector<double> mean_;
};

/// x * factor per channel, float32; the factor is rounded once from double. Source: numpy; exact.
class Scale final : public PointOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  Scale(Json::Object canonical, std::vector<double> factor, std::optional<std::vector<std::string>> fields);
  PointStep step(const FieldState& in) const override;

 private:
  Status infer_field(FieldState& field) const override;

  std::vector<double> factor_;
};

}  // namespace carya::transforms
