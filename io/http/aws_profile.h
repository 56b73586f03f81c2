#pragma once

#include <functional>
#include <map>
#include <string>

#include "io/http/sigv4.h"
#include "io/http/store_url.h"

namespace carya::io {

/// What the environment and the profile files say of stores.
struct AwsProfile {
  AwsCredentials credentials;
  StoreSettings settings;
  /// The variables as they were. Only a thread of the user's asks the environment, since it may change there while
  /// another thread reads it.
  std::map<std::string, std::string> variables;

  bool operator==(const AwsProfile&) const = default;
};

/// Reads a variable of the environment: null when it is not set.
using Variable = std::function<const char*(const char* name)>;

/// Credentials, region and endpoint in the order of Amazon's SDKs: the variables AWS_ACCESS_KEY_ID,
/// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
/// CURL_CA_BUNDLE, AWS_CA_BUNDLE, SSL_CERT_FILE, then the profile AWS_PROFILE ("default") of ~/.aws/credentials and ~/.aws/config (AWS_SHARED_CREDENTIALS_FILE,
/// AWS_CONFIG_FILE). What is nowhere stays empty; a file that cannot be read is none. Cost: two small files at most.
/// Source: AWS SDKs and Tools Reference Guide, "Shared config and credentials files".
AwsProfile read_aws_profile(const Variable& variable);

/// The same by this process's environment. Threads: those of a user's call.
AwsProfile read_aws_profile();
/// The same by variables that were read before: files may be others since.
AwsProfile read_aws_profile(std::map<std::string, std::string> variables);

}  // namespace carya::io
