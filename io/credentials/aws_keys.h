#pragma once

#include "base/error.h"
#include "io/credentials/environment.h"
#include "io/credentials/fetch.h"
#include "io/credentials/grant.h"

namespace carya::io {

/// What S3 is asked with, the first that there is, in the order of Amazon's SDKs:
///
/// 1. The variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN.
/// 2. AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN, as EKS sets them: STS gives keys for the token of the file.
/// 3. The profile: a role by its `source_profile` or `credential_source`, a web identity, keys, or the program
///    `credential_process`.
/// 4. A container's address: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI (ECS) or AWS_CONTAINER_CREDENTIALS_FULL_URI (EKS pod
///    identity), with the token of AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE or AWS_CONTAINER_AUTHORIZATION_TOKEN.
/// 5. The metadata service of a machine of EC2 (version 2), or the one at AWS_EC2_METADATA_SERVICE_ENDPOINT, unless
///    AWS_EC2_METADATA_DISABLED is "true". Other machines ask nobody.
///
/// An empty grant: none of these. Errors: kInvalidArgument (a profile that cannot be followed), kPermission (refused), kIo
/// (who gives keys is away). No message holds a secret. Threads: thread-safe; `fetch` is called in the caller's.
/// Source: AWS SDKs and Tools Reference Guide, "Standardized credential providers".
Result<Grant> aws_keys(const Environment& environment, const Fetch& fetch);

}  // namespace carya::io
