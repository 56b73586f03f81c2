#pragma once

#include "io/credentials/fetch.h"
#include "io/http/curl_library.h"
#include "io/http/store_access.h"

namespace carya::io {

/// Asks one question by libcurl, in the calling thread, on a connection of its own. Redirects are not followed: what is
/// asked for tokens names its place itself. Errors: as Fetch.
Result<FetchAnswer> curl_fetch(const CurlLibrary& curl, const StoreWay& way, const FetchQuestion& question);

}  // namespace carya::io
