#pragma once

#include <memory>
#include <vector>

#include "transforms/op/params.h"
#include "transforms/ops/geometry.h"

namespace carya::transforms {

/// The longest side that an op may ask for, and the most pixels of its result.
inline constexpr std::int64_t kSideMax = 65'535;
inline constexpr std::int64_t kPixelsMax = 178'956'970;

/// The value beside the image: one for all channels, or one per channel.
struct Fill {
  std::vector<std::uint8_t> values{0};
  std::vector<std::uint8_t> extra_values{0};  ///< of images other than the main one
  /// Reads fill and extra_fill, which is in the canonical form where it is given.
  static Fill read(Params& params);
  void put_into(Step& step) const;
  /// Of all images together: what holds of one holds of each.
  Beyond beyond() const;
  Status check_channels(std::string_view op_name, bool extra, std::int64_t channels) const;
};

/// The pixels outside of the image, for `pad` and `random_crop`.
struct Padding {
  std::array<std::int64_t, 4> ltrb{};  ///< left, top, right, bottom; >= 0
  PaddingMode mode = PaddingMode::kConstant;
  Fill fill;
  /// Reads padding; null is allowed if `nullable`.
  static Padding read(Params& params, bool nullable);
  /// Reads fill and padding_mode.
  void read_filling(Params& params);
  /// The origin of the pixels of a window.
  Pixels pixels(bool reaches_outside) const;
  Beyond beyond(bool reaches_outside) const;
  /// Check that reflection finds enough pixels. The limits are those of torchvision and torch.
  Status check_room(std::string_view op_name, ImageSize in, std::int64_t top, std::int64_t left,
                    std::int64_t bottom, std::int64_t right, Code code) const;
};

/// Reads [height, width], both 1..kSideMax, at most kPixelsMax pixels.
ImageSize read_size(Params& params, std::string_view key);

/// The law of a window with random area and aspect ratio. Source: torchvision v2 RandomResizedCrop (ten tries, then the
/// largest centre window within the ratios); log and exp are det_log and det_exp.
class RandomPart {
 public:
  struct Ranges {
    std::array<double, 2> scale{};  ///< of the area, in parts of the image's
    std::array<double, 2> ratio{};  ///< width to height
    static Ranges read(Params& params);
  };
  explicit RandomPart(const Ranges& ranges);
  /// Add the window that is drawn; its size.
  ImageSize draw(SampleRng& rng, ImageSize in, StepList& steps) const;
  /// About the mean share of the image's pixels.
  double reads() const;

 private:
  Ranges ranges_;
  std::array<double, 2> log_ratio_;
};

/// A random part, resized to `size`.
class RandomResizedCrop final : public GeometricOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  RandomResizedCrop(Json::Object canonical, ImageSize size, const RandomPart& part, Step resize);
  Result<ImageSize> infer_size(ImageSize in) const override;
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;

 private:
  ImageSize size_;
  RandomPart part_;
  Step resize_;
};

/// A random part as it is.
class RandomSizedCrop final : public GeometricOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  RandomSizedCrop(Json::Object canonical, const RandomPart& part);
  Result<ImageSize> infer_size(ImageSize) const override { return ImageSize{}; }
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;

 private:
  RandomPart part_;
};

/// A window of `size` at a uniformly random place, after padding. Source: torchvision v2 RandomCrop.
class RandomCrop final : public GeometricOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  RandomCrop(Json::Object canonical, ImageSize size, Padding padding, bool pad_if_needed);
  Result<ImageSize> infer_size(ImageSize in) const override;
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;

 private:
  Status check_channels(bool extra, std::int64_t channels) const override {
    return padding_.fill.check_channels(name(), extra, channels);
  }
  Status check_fits(ImageSize in, Code code) const;

  ImageSize size_;
  Padding padding_;
  bool pad_if_needed_;
};

/// The window of `size` in the middle, padded with 0 if the image is smaller. Source: torchvision v2 center_crop.
class CenterCrop final : public GeometricOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  CenterCrop(Json::Object canonical, ImageSize size);
  Result<ImageSize> infer_size(ImageSize) const override { return size_; }
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;

 private:
  ImageSize size_;
};

/// The window at (top, left), padded with 0 where it lies outside. Source: torchvision v2 crop.
class Crop final : public GeometricOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  Crop(Json::Object canonical, std::int64_t top, std::int64_t left, ImageSize size);
  Result<ImageSize> infer_size(ImageSize) const override { return size_; }
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;

 private:
  std::int64_t top_;
  std::int64_t left_;
  ImageSize size_;
};

/// A window that has the centre of a box in it and overlaps one of those by a share that is drawn; objects whose centre
/// is outside are left out. Source: torchvision v2 RandomIoUCrop, after Liu et al., "SSD: Single Shot MultiBox
/// Detector", ECCV 2016, section 2.2.
///
/// Draws: an option, then up to `trials` windows, until one is found or the option is 1 or more, which leaves the image
/// as it is. Without an object, or after kOptionsMax options, it stays too: the reference may draw for ever.
class RandomIouCrop final : public GeometricOp {
 public:
  struct Options {
    std::array<double, 2> scale{};  ///< of each side of the window, in parts of the image's
    std::array<double, 2> ratio{};  ///< width to height
    std::vector<double> overlaps;   ///< intersection over union, at least
    std::int64_t trials = 0;
  };
  static constexpr int kOptionsMax = 50;

  static Result<std::unique_ptr<Op>> parse(Params& params);
  RandomIouCrop(Json::Object canonical, Options options);
  Result<ImageSize> infer_size(ImageSize) const override { return ImageSize{}; }
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;
  Status resolve_with(SampleRng& rng, ImageSize in, Objects& objects, StepList& steps) const override;

 private:
  Status check_fields(const std::vector<FieldState>& fields) const override;
  Box draw(SampleRng& rng, ImageSize in) const;

  Options options_;
};

}  // namespace carya::transforms
