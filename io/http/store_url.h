#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace carya::io {

/// What a store needs to know beside a URL. Nothing in it is secret.
struct StoreSettings {
  std::string region = "us-east-1";  ///< of S3
  std::string endpoint;              ///< "http://host:9000" of another S3 than Amazon's; "": Amazon's
  std::string authority;             ///< the file of a private CA; "": the system's

  bool operator==(const StoreSettings&) const = default;
};

/// An object of a store, as it is asked for.
struct StoreUrl {
  bool s3 = false;     ///< signed, and listed, as S3 is; else plain HTTP
  std::string origin;  ///< "https://host:port"
  std::string host;    ///< the Host header: without the scheme's own port
  std::string target;  ///< the path that is sent, percent-encoded; begins with '/'
  std::string bucket;  ///< of S3
  std::string key;     ///< of S3, as it is called: not encoded

  std::string url() const { return origin + target; }
};

/// Whether a path begins with a scheme ("s3://..."), and so is none on this machine.
bool has_scheme(std::string_view path);

/// Read "s3://bucket/key", "s3+https://host/bucket/key" (another S3), "https://host/path" and the same with http.
///
/// Keys of S3 are taken as they are. The path of an http URL is sent as it is; what no URL may hold, such as a blank,
/// is percent-encoded.
///
/// Errors: kUnsupported (another scheme: the message names those that there are), kInvalidArgument (no bucket or host,
///         a user or password, a query or fragment, which could hold a secret).
Result<StoreUrl> parse_store_url(std::string_view url, const StoreSettings& settings);

/// Percent-encode all but letters, digits and "-._~", and the characters of `keep`.
std::string percent_encoded(std::string_view text, std::string_view keep = "");

}  // namespace carya::io
