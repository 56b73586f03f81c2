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

/// The most ops of a pipeline.
inline constexpr std::size_t kOpsMax = 64;
/// The most fields of a sample.
inline constexpr std::size_t kFieldsMax = 64;

class Op;

/// The state of one field at one point of the chain, while shapes are inferred.
struct FieldState {
  enum class Form : std::uint8_t {
    kEncoded,  ///< bytes of a file
    /// A picture, decoded or from an array. Geometric ops take it as uint8 (height, width, channels), also cast to
    /// float32.
    kImage,
    kTensor,    ///< any other array
    kAudio,     ///< samples: (frames) of mono audio, (channels, frames) else
    kSpectrum,  ///< of mono audio: (bins, frames), or (frames, bins) if `time_first`
    kLabel,     ///< int64 scalar of the manifest
    kObjects,   ///< of the objects in the main picture: boxes or what goes with them (ops/objects)
  };

  TensorSpec spec;
  Form form = Form::kEncoded;
  Layout layout = Layout::kHwc;  ///< the axis that the channels are on, for ops that work per channel
  /// A point op has taken the field. Ops that need a picture refuse it, even if it still looks like one.
  bool values = false;
  bool unit = false;  ///< a float32 picture whose values are in 0..1 instead of 0..255
  static constexpr std::size_t kNoField = SIZE_MAX;
  // kAudio, kSpectrum:
  std::int64_t rate = 0;  ///< Hz of the samples; 0: each file's own
  std::size_t length_field =
      kNoField;  ///< the field that counts what is no padding: samples, or frames of a spectrum
  bool time_first = false;
  std::int64_t power =
      0;  ///< of a spectrum with the bins of its transform: 1 magnitudes, 2 powers; of others 0
  // kTensor:
  std::int64_t rows_max =
      -1;  ///< the most rows of a record, where their number differs between records; else -1
  // kObjects:
  enum class Part : std::uint8_t { kNone, kBoxes, kKeyPoints, kRows, kCount };
  Part part = Part::kNone;
  const Op* boxes_op = nullptr;  ///< the op that told what the fields are; it outlives this state
};

/// The field of the main image. Color and point ops take it by default; geometric ops treat other images as extra.
inline constexpr std::string_view kMainField = "image";

/// The effect of an op on a sample's tensors. It decides how a plan runs the op.
enum class OpKind : std::uint8_t {
  kDecode,     ///< encoded bytes -> image, array
  kGeometric,  ///< moves the pixels of HWC images, in the same way in all images of a sample
  kColor,      ///< changes the values of HWC images in place, each image by itself
  kPoint,      ///< changes each value by itself, or its place: cast, normalize, layout
  kGroup,      ///< runs all of its inner ops, or none of them
  kViews,      ///< makes two pictures of one, each with ops of its own
  kAudio,      ///< decodes audio, changes samples, or makes a spectrum of them
  kUser,       ///< a user's own: whole fields, in whatever way
  kObjects,    ///< the objects in the picture: what they are, and which of them stay
};

/// What changes if two neighbouring ops swap places (DESIGN section 7).
enum class Commutes : std::uint8_t {
  kNever,
  kExact,     ///< the bits stay the same
  kRounding,  ///< values change by at most one unit
  kRelaxed,   ///< other pixels of the same distribution
};

/// The origin of the pixels of a geometric op's result.
enum class Pixels : std::uint8_t {
  kComputed,  ///< from several pixels of the image, or from a given color
  kOrBlack,   ///< from one pixel of the image, or 0
  kCopied,    ///< from one pixel of the image
};

/// What the result of a geometric op may show where the image has no pixel.
enum class Beyond : std::uint8_t {
  kNothing,
  kBlack,
  kGray,    ///< a color with the same value in every channel
  kColors,  ///< one value per channel, so the number of channels is fixed
};

/// The computation of a color op, as far as it decides which ops may pass it.
enum class ColorRule : std::uint8_t {
  kOther,
  kGray,    ///< a weighted mean of a pixel's channels, in all of them
  kInvert,  ///< 255 minus each value
  kBlur,    ///< a weighted mean of neighbours, channel by channel
  kMixed,   ///< a blend of the image with a mean of itself, channel by channel; it commutes with grayscale
  kErase,   ///< overwrites a rectangle, whose place depends on the image's size
};

/// What a point op leaves unchanged.
enum class PointRule : std::uint8_t {
  kOther,
  kCast,    ///< changes the type of values, not their places
  kLayout,  ///< changes the places of values, not the values
};

/// The CPU time for one image that an op is assumed to take until it has been measured. It depends on the bytes and
/// elements of the image before ("in") and after ("out") the op. Costs go by bytes where possible: ops on float32
/// pictures, which have four times the bytes, are plain loops.
struct AssumedCost {
  double fixed_ns = 0;
  double per_byte_in_ns = 0;
  double per_byte_out_ns = 0;
  double per_element_out_ns = 0;
};

/// What the optimizer may know of an op without running it. It knows no op by its name. tests/transforms/order_test.cc
/// checks every trait.
struct OpTraits {
  OpKind kind = OpKind::kPoint;
  bool random = false;                ///< the op draws from the sample's random numbers
  Pixels pixels = Pixels::kComputed;  ///< kGeometric: where pixels come from
  bool waits = false;    ///< kGeometric: the op is only noted; the next op that makes a picture does its work
  bool is_flip = false;  ///< kGeometric: mirrors the image
  bool is_window = false;            ///< kGeometric: the result is a part of the image
  bool is_resize = false;            ///< kGeometric: the image, or the part that is left, gets another size
  bool is_warp = false;              ///< kGeometric: a matrix says which pixels are taken
  Beyond beyond = Beyond::kNothing;  ///< kGeometric: what the result shows beside the image
  bool rescales = false;             ///< kGeometric: the content becomes larger or smaller
  double reads = 1;         ///< kGeometric: about the mean share of the image's pixels that the op reads
  bool overshoots = false;  ///< kGeometric: computed values are cut at 0 and 255 on uint8 images
  bool in_pixels = false;   ///< the op's parameters are lengths in pixels, which do not scale with the image
  /// kColor, kPoint: each pixel depends on itself alone, and the result is a picture.
  bool pixelwise = false;
  bool keeps_black = false;  ///< kColor, kPoint: a pixel that is 0 in all channels stays 0
  /// kColor: takes pictures of float32 values in 0..1 too. kPoint: makes such pictures.
  bool takes_floats = false;
  bool amplifies = false;  ///< kColor: differences between values grow, also those from rounding
  ColorRule color = ColorRule::kOther;
  PointRule point = PointRule::kOther;
  AssumedCost assumed_cost = {.fixed_ns = 500, .per_byte_in_ns = 0.5};
  bool writes_given_memory = true;  ///< the op may be the last one of a plan without a copy after it
  std::uint32_t version = 1;        ///< part of the fingerprint; it rises when the bits of the result change
};

/// One logical transformation of a sample: a small immutable class with checked parameters. It has no kernels. The plan
/// asks a decode op for its mode, a geometric op and a color op for their steps, and a point op for its arithmetic.
/// Threads: const is thread-safe.
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
  /// The op as Python code: "center_crop(size=[224, 224])".
  const std::string& text() const { return text_; }

  /// The rule of shapes and dtypes: check the fields that the op is given, and set what it makes of them. `indices`
  /// gets the fields that the op takes, ascending. Errors: kInvalidArgument with op, field, what was given and what to
  /// give.
  virtual Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const = 0;

  /// The inner ops of a kGroup or kViews, in order; empty for all other kinds.
  virtual std::span<const std::unique_ptr<Op>> inner() const { return {}; }

 protected:
  /// Make the error kInvalidArgument "name: field is dtype[shape]; give `allowed`".
  std::unexpected<Error> refuse(const FieldState& field, std::string_view allowed) const;

 private:
  std::string name_;
  OpTraits traits_;
  std::string json_;
  std::string text_;
};

/// Whether `first` and `second`, neighbours in this order, may swap places. Random ops keep their own draws (DESIGN
/// section 4). A group may as far as all its ops may; an op that makes views never may. Source:
/// tests/transforms/commute_test.cc proves every kExact pair.
Commutes commutes(const Op& first, const Op& second);

/// "never", "exact", "rounding", "relaxed".
std::string_view commutes_name(Commutes commutes);

/// How far an op may swap places with a function that computes each pixel from itself alone, on either side of it.
Commutes commutes_with_pixelwise(const Op& op);

/// The indices of `names` in `fields`. Errors: kInvalidArgument if one of them is missing.
Result<std::vector<std::size_t>> find_fields(std::string_view op_name, const std::vector<FieldState>& fields,
                                             const std::vector<std::string>& names);

/// The indices of `names` in `fields`; without `names`, the index of `image`. Errors: kInvalidArgument.
Result<std::vector<std::size_t>> fields_or_main(std::string_view op_name,
                                                const std::vector<FieldState>& fields,
                                                const std::optional<std::vector<std::string>>& names);

/// The names of all fields for messages: "image, label".
std::string field_names(const std::vector<FieldState>& fields);

}  // namespace carya::transforms
