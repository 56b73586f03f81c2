#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "io/credentials/grant.h"
#include "io/credentials/percent_encoding.h"

namespace carya::io {

/// Headers of a request by name in lower case, in any order.
using Headers = std::vector<std::pair<std::string, std::string>>;

/// The words by which Google's form of Signature Version 4 differs from Amazon's.
struct SigningWords {
  std::string_view algorithm;     ///< "AWS4-HMAC-SHA256"
  std::string_view key_prefix;    ///< "AWS4"
  std::string_view terminator;    ///< "aws4_request"
  std::string_view header_start;  ///< "x-amz-"
};
inline constexpr SigningWords kAmazonWords{"AWS4-HMAC-SHA256", "AWS4", "aws4_request", "x-amz-"};
inline constexpr SigningWords kGoogleWords{"GOOG4-HMAC-SHA256", "GOOG4", "goog4_request", "x-goog-"};

/// A request as Signature Version 4 sees it.
struct SigningInput {
  std::string_view method;        ///< "GET"
  std::string_view encoded_path;  ///< begins with '/'
  Query query;
  Headers headers;                  ///< those that are signed; with "host"
  std::string_view payload_sha256;  ///< of the body, 64 hexadecimal digits
  std::string_view region;
  std::string_view service;
  std::string_view date;  ///< "20150830T123600Z"
};

/// SHA-256 of no bytes.
inline constexpr std::string_view kEmptySha256 =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// SHA-256 of bytes, as 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);
/// Its first half, for names of what is kept: nobody finds two texts with the same one.
Hash128 sha256_half(std::string_view bytes);

/// The value of the Authorization header.
/// Source: AWS, "Signature Version 4 signing process" (create a signed request); Google Cloud Storage, "HMAC keys" and
/// "Signatures" (the same with other words).
std::string sigv4_authorization(const SigningInput& input, const Grant& keys,
                                const SigningWords& words = kAmazonWords);

/// What is asked of a store, before it is signed.
struct UnsignedRequest {
  std::string_view method;  ///< "GET"
  std::string_view host;    ///< as the Host header has it
  std::string_view path;    ///< encoded; begins with '/'
  Query query;
  Headers headers;                ///< that are sent, without Host
  std::string_view body;          ///< ""
  std::int64_t unix_seconds = 0;  ///< of the store's clock
};

/// The headers ("name: value") that sign a request by Signature Version 4: the date, the body's hash, the session token,
/// and Authorization. Signed are these, the host, and those headers of the request that begin as the words say. None
/// without an access key.
std::vector<std::string> sigv4_headers(const UnsignedRequest& request, const Grant& keys,
                                       std::string_view region, std::string_view service,
                                       const SigningWords& words = kAmazonWords);

}  // namespace carya::io
