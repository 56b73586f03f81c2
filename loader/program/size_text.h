#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace carya::loader {

/// The number of bytes in a size with a unit ("512MiB", "8GB"), or in a share ("50%") of `whole_bytes`.
/// Errors: kInvalidArgument, with the two allowed forms.
Result<std::uint64_t> parse_size(const std::string& text, std::uint64_t whole_bytes);

}  // namespace carya::loader
