#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace carya::io {

/// A JSON Web Token over two JSON documents, signed with RS256 by a private key in PEM.
/// Errors: kInvalidArgument (no RSA key in PEM, or one behind a passphrase).
/// Source: RFC 7515 (compact serialization), RFC 7518 section 3.3.
Result<std::string> jwt_rs256(std::string_view header, std::string_view claims, std::string_view private_key);

}  // namespace carya::io
