#pragma once

#include <string>
#include <vector>

namespace carya::transforms {

/// The libraries that decode pictures, with their versions ("libjpeg-turbo 2.1.5", "libspng 0.7.3"), in the form of a
/// pipeline's fingerprint. Threads: thread-safe.
std::vector<std::string> codec_versions();

}  // namespace carya::transforms
