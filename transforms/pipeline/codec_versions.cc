#include "transforms/pipeline/codec_versions.h"

#include "transforms/kernels/codec/png.h"
#include "transforms/kernels/codec/turbo_jpeg.h"

namespace carya::transforms {

std::vector<std::string> codec_versions() {
  return {jpeg_turbo_version(), png_version()};
}

}  // namespace carya::transforms
