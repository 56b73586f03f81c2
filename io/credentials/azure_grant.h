#pragma once

#include <string>

#include "base/error.h"
#include "io/credentials/environment.h"
#include "io/credentials/fetch.h"
#include "io/credentials/grant.h"

namespace carya::io {

/// What an account of Azure's Blob Storage is asked with, the first that there is:
///
/// 1. Its key: AZURE_STORAGE_KEY or AZURE_STORAGE_ACCOUNT_KEY, else the AccountKey of AZURE_STORAGE_CONNECTION_STRING. One
///    of another account, as AZURE_STORAGE_ACCOUNT or the AccountName says, is none.
/// 2. A shared access signature: AZURE_STORAGE_SAS_TOKEN, else that of the connection string.
/// 3. A token of Microsoft Entra, for AZURE_TENANT_ID and AZURE_CLIENT_ID: by the file AZURE_FEDERATED_TOKEN_FILE (workload
///    identity) or by AZURE_CLIENT_SECRET.
/// 4. The managed identity of a machine of Azure's, or of the one at AZURE_POD_IDENTITY_AUTHORITY_HOST.
///
/// An empty grant: none of these. Errors: kInvalidArgument (a key that is none), kPermission (refused), kIo (who gives
/// tokens is away). No message holds a secret.
/// Source: Azure Storage, "Configure connection strings"; Microsoft identity platform, "client credentials flow".
Result<Grant> azure_grant(const Environment& environment, const std::string& account, const Fetch& fetch);

/// The server that AZURE_STORAGE_ENDPOINT names, or the connection string of an emulator, without the account; "": Azure's.
std::string azure_endpoint(const Environment& environment);

}  // namespace carya::io
