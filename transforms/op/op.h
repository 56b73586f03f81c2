#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "transforms/kernels/store/store.h"
#include "transforms/op/json.h"
#include "transforms/op/tensor.h"

namespace carya::transforms {

/// Ops of a pipeline, at most.
inline constexpr std::size_t kOpsMax = 64;
/// Fields of a sample, at most.
inline constexpr std::size_t kFieldsMax = 64;

/// What the chain knows of one field at one point, while shapes are inferred.
struct FieldState {
  enum class Form : std::uint8_t {
    kEncoded,  ///< bytes of a file
    kImage,    ///< a picture, decoded or an array; geometric ops take it while it is uint8 (height, width,
               ///< channels), or such a picture cast to float32
    kTensor,   ///< any other array
    kLabel,    ///< int64 scalar of the manifest
  };

  TensorSpec spec;
  Form form = Form::kEncoded;
  Layout layout = Layout::kHwc;  ///< which axis the channels are on, for ops that work per channel
  bool values = false;  ///< a point op has taken it: no picture any more for ops that need one, even where it
                        ///< still looks like one
  bool unit = false;    ///< a float32 picture: 1 is what 255 was
};

/// The field that leads geometric ops and that point ops take by default.
inline constexpr std::string_view kMainField = "image";

/// What an op does to a sample's tensors, which decides how a plan runs it.
enum class OpKind : std::uint8_t {
  kDecode,     ///< encoded bytes -> image
  kGeometric,  ///< moves pixels of HWC images; all images of a sample alike
  kColor,      ///< changes values of HWC images where they are; each image by itself
  kPoint,      ///< each value by itself, and where it lies: cast, normalize, layout
  kGroup,      ///< other ops, all of them or none
  kViews,      ///< one picture into two, each by other ops
};

/// How far two neighbouring ops may change places (DESIGN section 7).
enum class Commutes : std::uint8_t {
  kNever,
  kExact,     ///< same bits
  kRounding,  ///< within one unit
  kRelaxed,   ///< same distribution, other pixels
};

/// Where the pixels of a geometric op's result come from.
enum class Pixels : std::uint8_t {
  kComputed,  ///< from several pixels of the image, or from a color that is given
  kOrBlack,   ///< from one pixel of the image, or 0
  kCopied,    ///< from one pixel of the image
};

/// What a geometric op may show beside pixels of the image.
enum class Beyond : std::uint8_t {
  kNothing,
  kBlack,
  kGray,    ///< a color with the same value in every channel
  kColors,  ///< one value per channel: the op is tied to their number
};

/// What the optimizer may know of an op without running it. No trait is believed:
/// tests/transforms/order_test.cc.
struct OpTraits {
  OpKind kind = OpKind::kPoint;
  bool random = false;                ///< draws from the sample's random numbers
  Pixels pixels = Pixels::kComputed;  ///< kGeometric
  bool waits = false;                 ///< kGeometric: only noted, what comes after does it on its way
  Beyond beyond = Beyond::kNothing;   ///< kGeometric
  bool rescales = false;              ///< kGeometric: what is in the image becomes larger or smaller
  double reads = 1;                 ///< kGeometric: the mean share of the image's pixels that it reads, about
  bool overshoots = false;          ///< kGeometric: computes values that are cut at 0 and 255 on uint8 images
  bool in_pixels = false;           ///< what it does is measured in pixels, whatever they show
  bool pixelwise = false;           ///< kColor, kPoint: each pixel from itself alone, and it stays a picture
  bool keeps_black = false;         ///< kColor, kPoint: 0 in all channels stays 0
  bool takes_floats = false;        ///< kColor: pictures of float32 values in 0..1 too; kPoint: makes them
  bool writes_given_memory = true;  ///< can be the last op of a plan without a copy after it
  std::uint32_t version = 1;        ///< part of the fingerprint; rises when the bits of the result change
};

/// One logical transformation of a sample: a small immutable class with checked parameters. Kernels live
/// elsewhere; the plan asks a decode op for its mode, a geometric op and a color op for their steps, a
/// point op for its arithmetic. Threads: const is thread-safe.
class Op {
 public:
  Op(std::string name, OpTraits traits, Json::Object canonical);
  virtual ~Op() = default;
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;

  const std::string& name() const { return name_; }
  const OpTraits& traits() const { return traits_; }
  /// The canonical JSON object, with every parameter (transforms/FORMAT.md).
  const std::string& json() const { return json_; }
  /// "center_crop(size=[224, 224])": as Python would write it.
  const std::string& text() const { return text_; }

  /// Shape and dtype rule: check what the op is given and write what it makes. Which fields the op takes is
  /// in `indices`, ascending. Errors: kInvalidArgument with op, field, what was given and what to give.
  virtual Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const = 0;

  /// Of a kGroup and a kViews: the ops that it does, in order. Of the others: none.
  virtual std::span<const std::unique_ptr<Op>> inner() const { return {}; }

 protected:
  /// kInvalidArgument: "name: field is dtype[shape]; give what".
  std::unexpected<Error> refuse(const FieldState& field, std::string_view allowed) const;

 private:
  std::string name_;
  OpTraits traits_;
  std::string json_;
  std::string text_;
};

/// May `first` and `second`, neighbours in this order, change places? Random ops keep their own draws (DESIGN
/// section 4). A group may as far as all its ops may; what makes views, never. Source: proven by
/// tests/transforms/commute_test.cc for every kExact pair.
Commutes commutes(const Op& first, const Op& second);

/// The indices of `names` in `fields`. Errors: kInvalidArgument when one is not there.
Result<std::vector<std::size_t>> find_fields(std::string_view op_name, const std::vector<FieldState>& fields,
                                             const std::vector<std::string>& names);

/// The indices of `names` in `fields`; without names that of `image`. Errors: kInvalidArgument.
Result<std::vector<std::size_t>> fields_or_main(std::string_view op_name,
                                                const std::vector<FieldState>& fields,
                                                const std::optional<std::vector<std::string>>& names);

/// "image, label": for messages.
std::string field_names(const std::vector<FieldState>& fields);

}  // namespace carya::transforms
