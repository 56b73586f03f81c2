#include "transforms/codecs.h"

#include "transforms/kernels/jpeg_turbo.h"
#include "transforms/kernels/png.h"

namespace carya::transforms {

std::vector<std::string> codec_versions() {
  return {jpeg_turbo_version(), png_version()};
}

}  // namespace carya::transforms
