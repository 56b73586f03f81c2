#pragma once

#include <array>
#include <memory>
#include <optional>

#include "transforms/ops/color.h"

namespace carya::transforms {

/// Converts to luma with probability p and keeps the number of channels. Source: torchvision v2 RandomGrayscale.
class RandomGrayscale final : public ColorOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  RandomGrayscale(Json::Object canonical, double p, std::optional<std::vector<std::string>> fields);
  void draw(SampleRng& rng, ImageSize size, std::int64_t channels, ColorSteps& steps) const override;

 private:
  double p_;
};

/// Changes brightness, contrast, saturation and hue by random factors, in random order. Source: torchvision v2
/// ColorJitter. The first three give the pixels of PIL images, hue those of tensors within 1 level.
///
/// Draws: the order (three draws, below 4, 3 and 2, that shuffle from the end), then a factor for each of the four. A
/// factor that is not given is drawn too, so that no factor depends on which others are given.
class ColorJitter final : public ColorOp {
 public:
  /// [low, high] of a factor; none: no change.
  using Range = std::optional<std::array<double, 2>>;

  static Result<std::unique_ptr<Op>> parse(Params& params);
  /// `ranges` are those of brightness, contrast, saturation and hue (in turns of the circle).
  ColorJitter(Json::Object canonical, const std::array<Range, 4>& ranges,
              std::optional<std::vector<std::string>> fields);
  void draw(SampleRng& rng, ImageSize size, std::int64_t channels, ColorSteps& steps) const override;

 private:
  std::array<Range, 4> ranges_;
};

}  // namespace carya::transforms
