#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transforms/kernels/codec/image_codec.h"
#include "transforms/op/op.h"
#include "transforms/op/params.h"

namespace carya::transforms {

/// Decodes a JPEG or PNG, recognized by its content, to uint8 (height, width, 3 or 1). Source: Pillow's
/// open().convert("RGB" or "L"), with libjpeg-turbo's accurate DCT; apply_exif: ImageOps.exif_transpose.
class DecodeImage final : public Op {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  DecodeImage(Json::Object canonical, ColorMode mode, bool apply_exif,
              std::optional<std::vector<std::string>> fields);
  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const override;

  ColorMode mode() const { return mode_; }
  bool apply_exif() const { return apply_exif_; }

 private:
  ColorMode mode_;
  bool apply_exif_;
  std::optional<std::vector<std::string>> fields_;
};

}  // namespace carya::transforms
