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
  Fill fill;
  fill.values.clear();
  for (const std::int64_t value :
       params.integers("fill", 1, 4, 0, 255, "one value, or one per channel", std::vector<std::int64_t>{0}))
    fill.values.push_back(static_cast<std::uint8_t>(value));
  return fill;
}

void Padding::read_filling(Params& params) {
  fill = Fill::read(params);
  constexpr std::array kModes{PaddingMode::kConstant, PaddingMode::kEdge, PaddingMode::kReflect,
                              PaddingMode::kSymmetric};
  mode = kModes[params.choice("padding_mode", {"constant", "edge", "reflect", "symmetric"})];
}

std::array<std::uint8_t, 4> Fill::pixel() const {
  std::array<std::uint8_t, 4> bytes;
  for (std::size_t c = 0; c < bytes.size(); ++c) bytes[c] = values[std::min(c, values.size() - 1)];
  return bytes;
}

Pixels Padding::pixels(bool reaches_outside) const {
  if (fill.values.size() > 1) return Pixels::kComputed;  // tied to a number of channels
  if (!reaches_outside || mode != PaddingMode::kConstant) return Pixels::kCopied;
  return fill.values[0] == 0 ? Pixels::kOrBlack : Pixels::kComputed;
}

Beyond Fill::beyond() const {
  if (values.size() > 1) return Beyond::kColors;
  return values[0] == 0 ? Beyond::kBlack : Beyond::kGray;
}

Beyond Padding::beyond(bool reaches_outside) const {
  if (fill.values.size() > 1) return Beyond::kColors;
  return reaches_outside && mode == PaddingMode::kConstant ? fill.beyond() : Beyond::kNothing;
}

Status Fill::check_channels(std::string_view op_name, std::int64_t channels) const {
  if (values.size() == 1 || static_cast<std::int64_t>(values.size()) == channels) return {};
  return fail(
      Code::kInvalidArgument,
      fmt::format("{}: fill has {} values and an image {} channels; give one value, or one per channel",
                  op_name, values.size(), channels));
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
