#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "io/credentials/fetch.h"
#include "io/credentials/grant.h"

namespace carya::io {

/// The token of an OAuth answer: JSON with `access_token` and `expires_in`, or Azure's `expires_on`.
/// `subject`: who was asked, for messages. Errors: kPermission (it refused), kIo (it is away, or its answer is none).
Result<Grant> token_of(const Result<FetchAnswer>& answer, std::string_view subject);

/// The same of an answer that is no success; for those that have another form.
Error fetch_error(const Result<FetchAnswer>& answer, std::string_view subject);

/// A text of a JSON object; "" where it has none of that name.
std::string text_of(const nlohmann::json& document, const char* name);

/// The text of a file of at most 1 MiB. Errors: as open(2); kInvalidArgument (too long).
Result<std::string> small_file(const std::string& path);

/// Whether a secret may be sent there: https, or a host that is this machine.
bool is_private_url(std::string_view url);

}  // namespace carya::io
