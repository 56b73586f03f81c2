#pragma once

#include <map>
#include <string>

#include "io/credentials/environment.h"
#include "io/credentials/grant.h"

namespace carya::io {

/// What the environment and the profile files say of S3.
struct AwsProfile {
  Grant keys;            ///< that stand there; empty: others may be had (aws_keys.h)
  std::string region;    ///< "us-east-1" where nobody says another
  std::string endpoint;  ///< of another S3 than Amazon's; "": Amazon's
  std::string ca_bundle;
  /// What the profile AWS_PROFILE says, by its names there.
  std::map<std::string, std::string> values;

  bool operator==(const AwsProfile&) const = default;
};

/// Keys, region and endpoint in the order of Amazon's SDKs: the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
/// AWS_SESSION_TOKEN, AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, then the profile
/// AWS_PROFILE ("default") of ~/.aws/credentials and ~/.aws/config (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE). What
/// is nowhere stays empty; a file that cannot be read is none. Cost: two small files at most.
/// Source: AWS SDKs and Tools Reference Guide, "Shared config and credentials files".
AwsProfile read_aws_profile(const Environment& environment);

/// What the files say of one profile.
std::map<std::string, std::string> aws_profile_values(const Environment& environment,
                                                      const std::string& profile);
/// One of them; "" where there is none.
std::string value_of(const std::map<std::string, std::string>& values, const char* name);
/// The keys in them; none where one is missing.
Grant profile_keys(const std::map<std::string, std::string>& values);
/// Those of the variables; none where one is missing.
Grant environment_keys(const Environment& environment);

}  // namespace carya::io
