#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/credentials/sigv4.h"

namespace carya::io {

/// The headers ("name: value") that sign a request by Azure's Shared Key: x-ms-date and Authorization. None where the key
/// is no base64. Signed are the standard headers that Azure names (without Range: x-ms-range is sent in its place), and all
/// that begin with "x-ms-".
///
/// `keys`: access_key is the account, secret_key its key in base64.
/// Source: Azure Storage REST, "Authorize with Shared Key" (the Blob service, version 2015-02-21 and later).
std::vector<std::string> shared_key_headers(const UnsignedRequest& request, const Grant& keys);

}  // namespace carya::io
