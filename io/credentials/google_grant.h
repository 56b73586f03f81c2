#pragma once

#include "base/error.h"
#include "io/credentials/environment.h"
#include "io/credentials/fetch.h"
#include "io/credentials/grant.h"

namespace carya::io {

/// What Google Cloud Storage is asked with, the first that there is:
///
/// 1. HMAC keys: GS_ACCESS_KEY_ID with GS_SECRET_ACCESS_KEY.
/// 2. GOOGLE_OAUTH_ACCESS_TOKEN, as `gcloud auth print-access-token` says it.
/// 3. The JSON file GOOGLE_APPLICATION_CREDENTIALS names, else ~/.config/gcloud/application_default_credentials.json: of
///    a service account (a token signed by its key is exchanged for one of an hour), or of a user (`gcloud auth
///    application-default login`).
/// 4. The metadata server of a machine of Google's, or the one at GCE_METADATA_HOST. Other machines ask nobody.
///
/// An empty grant: none of these. Errors: kInvalidArgument (a file that is none), kPermission (refused), kIo (who gives
/// tokens is away). No message holds a secret.
/// Source: Google Cloud, "How Application Default Credentials works"; RFC 7523 (JWT bearer grants).
Result<Grant> google_grant(const Environment& environment, const Fetch& fetch);

}  // namespace carya::io
