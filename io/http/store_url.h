#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace carya::io {

/// What a store needs to know beside a URL. Nothing in it is secret.
struct StoreSettings {
  std::string region = "us-east-1";  ///< of S3
  std::string endpoint;              ///< "http://host:9000" of another S3 than Amazon's; "": Amazon's
  std::string google_endpoint;       ///< of another Cloud Storage than Google's; "": Google's
  std::string azure_endpoint;        ///< of another Blob Storage than Azure's; "": Azure's

  bool operator==(const StoreSettings&) const = default;
};

/// How a store is asked: how requests are signed and objects listed.
enum class StoreKind : std::uint8_t { kHttp, kS3, kGoogle, kAzure };

/// An object of a store, as it is asked for.
struct StoreUrl {
  StoreKind kind = StoreKind::kHttp;
  std::string origin;   ///< "https://host:port"
  std::string host;     ///< the Host header: without the scheme's own port
  std::string target;   ///< the path that is sent, percent-encoded; begins with '/'
  std::string account;  ///< of Azure
  std::string bucket;   ///< a bucket, of Azure a container; "": plain HTTP
  std::string key;      ///< in the bucket, as it is called: not encoded
  /// The origin is the cloud's own, or the one that the environment names. Only there a token may be sent: a URL of
  /// somebody else's pipeline may name any host.
  bool trusted = false;

  std::string url() const { return origin + target; }
};

/// Whether a path begins with a scheme ("s3://..."), and so is none on this machine.
bool has_scheme(std::string_view path);

/// Where a URL's place ends, which all objects of one source share: "s3://bucket", "az://account/container",
/// "https://host". `url` has a scheme.
std::string_view place_of(std::string_view url);

/// Read "s3://bucket/key", "gs://bucket/key", "az://account/container/key", the same of another server than the cloud's
/// ("s3+https://host/bucket/key"), "https://host/path", and each with http.
///
/// Keys are taken as they are. The path of an http URL is sent as it is; what no URL may hold, such as a blank, is
/// percent-encoded.
///
/// Errors: kUnsupported (another scheme: the message names those that there are), kInvalidArgument (no bucket or host,
///         a user or password, a query or fragment, which could hold a secret).
Result<StoreUrl> parse_store_url(std::string_view url, const StoreSettings& settings);

}  // namespace carya::io
