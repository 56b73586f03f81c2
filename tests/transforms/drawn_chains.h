#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "transforms/op/op.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::transforms::testing {

using Order = std::vector<std::size_t>;

/// One op of each kind and, where its traits depend on parameters, of each trait.
inline const std::vector<std::string>& picture_ops() {
  static const std::vector<std::string> kOps = {
      R"({"op":"random_horizontal_flip"})",
      R"({"op":"random_vertical_flip"})",
      R"({"op":"random_crop","size":[40,50]})",
      R"({"op":"random_crop","size":[60,40],"padding":[9,5,3,7],"padding_mode":"reflect"})",
      R"({"op":"random_crop","size":[48,48],"padding":[6,6,6,6],"fill":[0]})",
      R"({"op":"random_crop","size":[48,48],"padding":[6,6,6,6],"fill":[9]})",
      R"({"op":"random_crop","size":[48,48],"fill":[9,8,7]})",
      R"({"op":"center_crop","size":[70,90]})",
      R"({"op":"crop","top":-3,"left":4,"height":44,"width":52})",
      R"({"op":"pad","padding":[1,2,3,4],"padding_mode":"edge"})",
      R"({"op":"pad","padding":[3,3,3,3],"fill":[0]})",
      R"({"op":"pad","padding":[3,3,3,3],"fill":[200]})",
      R"({"op":"resize","size":[66,71]})",
      R"({"op":"random_resized_crop","size":[52,44]})",
      R"({"op":"invert"})",
      R"({"op":"solarize","threshold":0})",
      R"({"op":"solarize","threshold":100})",
      R"({"op":"posterize","bits":3})",
      R"({"op":"grayscale","num_output_channels":3})",
      R"({"op":"grayscale"})",
      R"({"op":"random_grayscale","p":0.5})",
      R"({"op":"autocontrast"})",
      R"({"op":"equalize"})",
      R"({"op":"adjust_sharpness","sharpness_factor":1.8})",
      R"({"op":"gaussian_blur","kernel_size":[7,3],"sigma":[0.5,3]})",
      R"({"op":"rotate","angle":30})",
      R"({"op":"rotate","angle":-8,"interpolation":"bilinear","fill":[90]})",
      R"({"op":"random_rotation","degrees":20,"center":[20,30]})",
      R"({"op":"affine","angle":5,"translate":[9,-4],"scale":1.2,"shear":[4,0],"fill":[1,2,3]})",
      R"({"op":"random_affine","degrees":20,"shear":[-9,9]})",
      R"({"op":"color_jitter","brightness":0.5,"saturation":0.5,"hue":0.3})",
      R"({"op":"color_jitter","contrast":0.5})",
      R"({"op":"random_erasing","p":0.8,"value":[3]})",
      R"({"op":"to_dtype","dtype":"float32","scale":true})",
      R"({"op":"resize","size":[66,71],"interpolation":"bicubic"})",
      R"({"op":"random_apply","p":0.6,"ops":[{"op":"random_vertical_flip"},{"op":"posterize","bits":2}]})",
      R"({"op":"random_apply","p":0.6,"ops":[{"op":"color_jitter","brightness":0.5},{"op":"invert"}]})",
  };
  return kOps;
}

inline const std::vector<std::string>& endings() {
  static const std::vector<std::string> kEndings = {
      "",
      R"(,{"op":"to_layout","layout":"CHW"},{"op":"to_dtype","dtype":"float32","scale":true})",
      R"(,{"op":"normalize","mean":0.4,"std":0.2})",
  };
  return kEndings;
}

/// Chains and orders drawn from a seed.
class Drawn {
 public:
  explicit Drawn(std::uint32_t seed) : random_(seed) {}
  std::size_t below(std::size_t count) { return random_() % count; }

  /// A pipeline of a decode, up to `count` ops on pictures that end with one size, and an ending.
  std::string chain(std::size_t count) {
    std::string ops = R"({"op":"decode_image"})";
    for (std::size_t i = 0; i < count; ++i) ops += "," + picture_ops()[below(picture_ops().size())];
    return ops + R"(,{"op":"center_crop","size":[40,46]})" + endings()[below(endings().size())];
  }

  /// Random exchanges of neighbours that commute at least so far.
  Order exchanged(const Pipeline& pipeline, Commutes least) {
    const auto& ops = pipeline.ops();
    Order order(ops.size());
    std::iota(order.begin(), order.end(), 0);
    for (int i = 0; i < 200; ++i) {
      const std::size_t at = below(order.size() - 1);
      const Commutes how = commutes(*ops[order[at]], *ops[order[at + 1]]);
      if (how != Commutes::kNever && how <= least) std::swap(order[at], order[at + 1]);
    }
    return order;
  }

 private:
  std::mt19937 random_;
};

}  // namespace carya::transforms::testing
