#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace carya::io {

/// Keys of an account. Never written to a state, plan, log or message: nothing in Carya formats one.
struct AwsCredentials {
  std::string access_key;  ///< "": none, requests are not signed
  std::string secret_key;
  std::string session_token;  ///< "": none

  bool operator==(const AwsCredentials&) const = default;
};

/// A request as AWS Signature Version 4 sees it.
struct SigningInput {
  std::string_view method;                                 ///< "GET"
  std::string_view encoded_path;                           ///< begins with '/'
  std::vector<std::pair<std::string, std::string>> query;  ///< not encoded, in any order
  std::vector<std::pair<std::string, std::string>>
      headers;                      ///< names in lower case, in any order; with "host"
  std::string_view payload_sha256;  ///< of the body, 64 hexadecimal digits
  std::string_view region;
  std::string_view service;
  std::string_view amz_date;  ///< "20150830T123600Z"
};

/// SHA-256 of no bytes.
inline constexpr std::string_view kEmptySha256 =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The query as it is signed and sent: encoded, sorted, each name with '='.
std::string canonical_query(const std::vector<std::pair<std::string, std::string>>& query);

/// The value of the Authorization header.
/// Source: AWS, "Signature Version 4 signing process" (create a signed request).
std::string sigv4_authorization(const SigningInput& input, const AwsCredentials& credentials);

/// The headers ("name: value") that sign a GET or HEAD of S3: x-amz-date, x-amz-content-sha256, the session token, and
/// Authorization. None without an access key. `unix_seconds`: the store's time.
std::vector<std::string> s3_signature(const AwsCredentials& credentials, std::string_view region,
                                      std::string_view method, std::string_view host, std::string_view path,
                                      const std::vector<std::pair<std::string, std::string>>& query,
                                      std::int64_t unix_seconds);

}  // namespace carya::io
