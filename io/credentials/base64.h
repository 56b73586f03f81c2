#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace carya::io {

/// Base64 of RFC 4648, section 4, with padding.
std::string base64_encoded(std::string_view bytes);
/// Of section 5 (for URLs), without padding.
std::string base64url_encoded(std::string_view bytes);
/// The bytes of section 4's form with its padding; nothing where it is none.
std::optional<std::string> base64_decoded(std::string_view text);

}  // namespace carya::io
