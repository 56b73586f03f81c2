#pragma once

#include <array>
#include <memory>
#include <optional>

#include "transforms/ops/color.h"

namespace carya::transforms {

/// Luma with probability p, in as many channels as there were. Source: torchvision v2 RandomGrayscale.
class RandomGrayscale final : public ColorOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  RandomGrayscale(Json::Object canonical, double p, std::optional<std::vector<std::string>> fields);
  void draw(SampleRng& rng, ImageSize size, std::int64_t channels, ColorSteps& steps) const override;

 private:
  double p_;
};

/// Brightness, contrast, saturation and hue by random factors, in random order. Source: torchvision v2
/// ColorJitter; the first three have the pixels of PIL images, hue those of tensors within 1 level.
///
/// Draws: the order (three draws below 4, 3 and 2 that shuffle from the end), then a factor for each of the
/// four, given or not, so that a factor does not depend on which others are given.
class ColorJitter final : public ColorOp {
 public:
  /// [low, high] of a factor; none: left alone.
  using Range = std::optional<std::array<double, 2>>;

  static Result<std::unique_ptr<Op>> parse(Params& params);
  /// `ranges`: brightness, contrast, saturation, hue (in turns of the circle).
  ColorJitter(Json::Object canonical, const std::array<Range, 4>& ranges,
              std::optional<std::vector<std::string>> fields);
  void draw(SampleRng& rng, ImageSize size, std::int64_t channels, ColorSteps& steps) const override;

 private:
  std::array<Range, 4> ranges_;
};

}  // namespace carya::transforms
