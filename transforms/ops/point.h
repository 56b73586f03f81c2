#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transforms/op/op.h"
#include "transforms/op/params.h"

namespace carya::transforms {

/// What a point op does to one field: arithmetic on each value, then where the values lie.
struct PointStep {
  enum class Math : std::uint8_t {
    kNone,    ///< values stay
    kAffine,  ///< x * a + b per channel, to float32
    kCast,    ///< to `to`, by the rules of to_dtype
  };
  Math math = Math::kNone;
  DType from = DType::kUint8;
  DType to = DType::kUint8;
  bool scale = false;      ///< kCast
  std::vector<float> a{};  ///< kAffine: one, or one per channel
  std::vector<float> b{};
  Layout layout_in = Layout::kHwc;
  Layout layout_out = Layout::kHwc;
};

/// An op that takes each value by itself. Without `fields` it takes `image`.
class PointOp : public Op {
 public:
  PointOp(std::string op_name, Json::Object canonical, std::optional<std::vector<std::string>> fields,
          OpTraits traits = {.kind = OpKind::kPoint});
  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const final;

  /// What it does to a field that infer() accepted, as the field was before.
  virtual PointStep step(const FieldState& in) const = 0;

 protected:
  virtual Status infer_field(FieldState& field) const = 0;

  /// float32, and one number or one for each channel of `parameter`.
  Status check_floats(const FieldState& field, std::string_view parameter, std::size_t count) const;

 private:
  std::optional<std::vector<std::string>> fields_;
};

/// (x - mean) / std per channel, to float32; on uint8 x / 255 first. Computed as x * a + b with two
/// roundings, a and b rounded once from double. Source: torchvision v2 Normalize after ToDtype(float32,
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
  std::optional<Layout> layout_;  // none: keep
};

/// Cast, with scale between 0..255 and 0..1. Source: torchvision v2 ToDtype; uint8 -> float32 is x * (1 /
/// 255), within one unit in the last place of x / 255; float32 -> uint8 is trunc(x * 255.999), and out of
/// range the nearest end (NaN: 0), where the reference leaves it open.
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

/// Move the channel axis. Source: numpy.transpose; exact.
class ToLayout final : public PointOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  ToLayout(Json::Object canonical, Layout layout, std::optional<std::vector<std::string>> fields);
  PointStep step(const FieldState& in) const override;

 private:
  Status infer_field(FieldState& field) const override;

  Layout layout_;
};

/// x - mean per channel, float32. Computed as x + b, b = -mean rounded once from double. Source: numpy;
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

/// x * factor per channel, float32; factor rounded once from double. Source: numpy; exact.
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
