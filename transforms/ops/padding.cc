#include <fmt/core.h>
#include <algorithm>

#include "transforms/ops/crops.h"

namespace carya::transforms {
namespace {

constexpr std::int64_t kPaddingMax = 16'384;

}  // namespace

Padding Padding::read(Params& params, bool nullable) {
  Padding padding;
  constexpr std::string_view kWhat = "[left, top, right, bottom]";
  std::optional<std::vector<std::int64_t>> sides;
  if (nullable)
    sides = params.integers_or_null("padding", 4, 4, 0, kPaddingMax, kWhat);
  else
    sides = params.integers("padding", 4, 4, 0, kPaddingMax, kWhat);
  if (sides) std::copy_n(sides->begin(), 4, padding.ltrb.begin());
  return padding;
}

Fill Fill::read(Params& params) {
  const auto colors = [&](std::string_view key) {
    std::vector<std::uint8_t> values;
    for (const std::int64_t value :
         params.integers(key, 1, 4, 0, 255, "one value, or one per channel", std::vector<std::int64_t>{0}))
      values.push_back(static_cast<std::uint8_t>(value));
    return values;
  };
  Fill fill;
  fill.values = fill.extra_values = colors("fill");
  if (params.has("extra_fill")) fill.extra_values = colors("extra_fill");
  return fill;
}

void Padding::read_filling(Params& params) {
  fill = Fill::read(params);
  constexpr std::array kModes{PaddingMode::kConstant, PaddingMode::kEdge, PaddingMode::kReflect,
                              PaddingMode::kSymmetric};
  mode = kModes[params.choice("padding_mode", {"constant", "edge", "reflect", "symmetric"})];
}

void Fill::put_into(Step& step) const {
  for (std::size_t c = 0; c < step.fill.size(); ++c) {
    step.fill[c] = values[std::min(c, values.size() - 1)];
    step.extra_fill[c] = extra_values[std::min(c, extra_values.size() - 1)];
  }
}

Pixels Padding::pixels(bool reaches_outside) const {
  const Beyond color = fill.beyond();
  if (color == Beyond::kColors) return Pixels::kComputed;  // tied to a number of channels
  if (!reaches_outside || mode != PaddingMode::kConstant) return Pixels::kCopied;
  return color == Beyond::kBlack ? Pixels::kOrBlack : Pixels::kComputed;
}

Beyond Fill::beyond() const {
  if (values.size() > 1 || extra_values.size() > 1) return Beyond::kColors;
  return values[0] == 0 && extra_values[0] == 0 ? Beyond::kBlack : Beyond::kGray;
}

Beyond Padding::beyond(bool reaches_outside) const {
  const Beyond color = fill.beyond();
  if (color == Beyond::kColors) return color;
  return reaches_outside && mode == PaddingMode::kConstant ? color : Beyond::kNothing;
}

Status Fill::check_channels(std::string_view op_name, bool extra, std::int64_t channels) const {
  const std::size_t count = (extra ? extra_values : values).size();
  if (count == 1 || static_cast<std::int64_t>(count) == channels) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("{}: fill has {} values and {} {} channels; give one value, or one per channel{}",
                          op_name, count, extra ? "an image beside the main one" : "an image", channels,
                          extra ? ", or extra_fill, which is 0 for a mask" : ""));
}

Status Padding::check_room(std::string_view op_name, ImageSize in, std::int64_t top, std::int64_t left,
                           std::int64_t bottom, std::int64_t right, Code code) const {
  if (mode != PaddingMode::kReflect && mode != PaddingMode::kSymmetric) return {};
  const std::int64_t spare = mode == PaddingMode::kReflect ? 1 : 0;  // the edge itself is not repeated
  const bool fits_rows = in.height < 0 || std::max(top, bottom) + spare <= in.height;
  const bool fits_columns = in.width < 0 || std::max(left, right) + spare <= in.width;
  if (fits_rows && fits_columns) return {};
  return fail(code, fmt::format("{}: padding [{}, {}, {}, {}] of an image of {}; give in reflect mode less "
                                "than the image's side, in symmetric mode at most that",
                                op_name, left, top, right, bottom, size_text(in)));
}

ImageSize read_size(Params& params, std::string_view key) {
  const std::vector<std::int64_t> size = params.integers(key, 2, 2, 1, kSideMax, "[height, width]");
  if (size[0] * size[1] > kPixelsMax) params.reject(key, fmt::format("at most {} pixels", kPixelsMax));
  return {size[0], size[1]};
}

}  // namespace carya::transforms
