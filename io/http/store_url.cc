#include "io/http/store_url.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/escape.h"

namespace carya::io {
namespace {

bool is_unreserved(unsigned char c) {
  return (c < 0x80 && std::isalnum(c) != 0) || c == '-' || c == '.' || c == '_' || c == '~';
}

std::unexpected<Error> wrong(std::string_view url, const std::string& wanted) {
  return fail(Code::kInvalidArgument, escaped(url) + ": " + wanted);
}

bool is_bucket(std::string_view name) {
  return name.size() >= 3 && name.size() <= 63 && std::ranges::all_of(name, [](unsigned char c) {
           return c < 0x80 && (std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_');
         });
}

/// "host", "host:9000" or "[::1]:9000": no user, no blank, nothing that ends a host.
bool is_authority(std::string_view text) {
  return !text.empty() && text.size() <= 260 && std::ranges::all_of(text, [](unsigned char c) {
    return is_unreserved(c) || c == ':' || c == '[' || c == ']';
  });
}

std::string without_own_port(std::string_view scheme, std::string_view authority) {
  const std::string_view own = scheme == "https" ? ":443" : ":80";
  if (authority.ends_with(own)) authority.remove_suffix(own.size());
  return std::string(authority);
}

Result<StoreUrl> at_origin(std::string_view url, std::string_view scheme, std::string_view authority) {
  if (authority.contains('@'))
    return fail(Code::kInvalidArgument,
                "URL: it holds a user or a password; give it without, and secrets by the environment");
  if (!is_authority(authority)) return wrong(url, "no host; give a URL such as https://host/train-0000.tar");
  StoreUrl store;
  store.origin = std::string(scheme) + "://" + std::string(authority);
  store.host = without_own_port(scheme, authority);
  return store;
}

/// A bucket and key below an endpoint: the bucket is a part of the path.
Result<StoreUrl> s3_at(std::string_view url, std::string_view scheme, std::string_view authority,
                       std::string_view bucket, std::string_view key) {
  ASSIGN(StoreUrl store, at_origin(url, scheme, authority));
  store.target = "/" + std::string(bucket) + "/" + percent_encoded(key, "/");
  return store;
}

Result<StoreUrl> s3(std::string_view url, std::string_view bucket, std::string_view key,
                    const StoreSettings& settings) {
  if (!is_bucket(bucket)) return wrong(url, "no bucket; give a URL such as s3://bucket/train-0000.tar");
  Result<StoreUrl> store;
  if (!settings.endpoint.empty()) {
    std::string_view endpoint = settings.endpoint;
    while (endpoint.ends_with('/')) endpoint.remove_suffix(1);
    const std::size_t scheme = endpoint.find("://");
    const std::string_view name = endpoint.substr(0, scheme);
    if (scheme == std::string_view::npos || (name != "http" && name != "https"))
      return fail(Code::kInvalidArgument,
                  "endpoint of S3: " + escaped(endpoint) + ": no URL; give one such as http://host:9000");
    store = s3_at(url, name, endpoint.substr(scheme + 3), bucket, key);
  } else {
    const std::string amazon = "s3." + settings.region + ".amazonaws.com";
    if (bucket.contains('.')) {  // no certificate is for a bucket with dots
      store = s3_at(url, "https", amazon, bucket, key);
    } else {
      store = at_origin(url, "https", std::string(bucket) + "." + amazon);
      if (store) store->target = "/" + percent_encoded(key, "/");
    }
  }
  if (!store) return store;
  store->s3 = true;
  store->bucket = bucket;
  store->key = key;
  return store;
}

}  // namespace

bool has_scheme(std::string_view path) {
  const std::size_t colon = path.find("://");
  if (colon == std::string_view::npos || colon < 2 || std::isalpha(static_cast<unsigned char>(path[0])) == 0)
    return false;
  return std::ranges::all_of(path.substr(0, colon), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
  });
}

std::string percent_encoded(std::string_view text, std::string_view keep) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_unreserved(byte) || keep.contains(c)) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

Result<StoreUrl> parse_store_url(std::string_view url, const StoreSettings& settings) {
  const std::size_t colon = std::min(url.find("://"), url.size());
  const std::string_view scheme = url.substr(0, colon);
  const std::string_view rest = url.substr(std::min(colon + 3, url.size()));
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view first = rest.substr(0, slash);
  const std::string_view path = rest.substr(std::min(slash + 1, rest.size()));
  if (rest.contains('\0')) return wrong(url, "a URL with a NUL; give it without");
  if (scheme == "s3") return s3(url, first, path, settings);
  if (scheme == "s3+http" || scheme == "s3+https") {
    const std::size_t next = std::min(path.find('/'), path.size());
    const StoreSettings here{.region = settings.region,
                             .endpoint = std::string(scheme.substr(3)) + "://" + std::string(first)};
    return s3(url, path.substr(0, next), path.substr(std::min(next + 1, path.size())), here);
  }
  if (scheme == "http" || scheme == "https") {
    if (path.contains('?') || path.contains('#'))
      return fail(Code::kInvalidArgument,
                  "URL: " + escaped(url.substr(0, url.find_first_of("?#"))) +
                      "...: it has a query or fragment, which could hold a secret; give it without");
    ASSIGN(StoreUrl store, at_origin(url, scheme, first));
    store.target = "/" + percent_encoded(path, "/%!$&'()*+,;=:@");
    return store;
  }
  return fail(Code::kUnsupported,
              escaped(scheme) +
                  ":// is not read; give s3://, https:// or http://, copy the data, or mount it as a folder");
}

}  // namespace carya::io
