#include "io/http/store_url.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/escape.h"
#include "io/credentials/percent_encoding.h"

namespace carya::io {
namespace {

constexpr std::string_view kGoogle = "https://storage.googleapis.com";
constexpr std::string_view kAzure = ".blob.core.windows.net";

std::unexpected<Error> wrong(std::string_view url, const std::string& wanted) {
  return fail(Code::kInvalidArgument, escaped(url) + ": " + wanted);
}

bool is_bucket(std::string_view name) {
  return name.size() >= 3 && name.size() <= 63 && std::ranges::all_of(name, [](unsigned char c) {
           return c < 0x80 && (std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_');
         });
}

/// Of Azure: it is a part of a host's name.
bool is_account(std::string_view name) {
  return name.size() >= 3 && name.size() <= 24 && std::ranges::all_of(name, [](unsigned char c) {
           return c < 0x80 && (std::isdigit(c) != 0 || std::islower(c) != 0);
         });
}

/// "host", "host:9000" or "[::1]:9000": no user, no blank, nothing that ends a host.
bool is_authority(std::string_view text) {
  return !text.empty() && text.size() <= 260 && std::ranges::all_of(text, [](unsigned char c) {
    return is_unreserved(c) || c == ':' || c == '[' || c == ']';
  });
}

/// "bucket/a/b" as "bucket" and "a/b".
std::pair<std::string_view, std::string_view> cut(std::string_view path) {
  const std::size_t slash = std::min(path.find('/'), path.size());
  return {path.substr(0, slash), path.substr(std::min(slash + 1, path.size()))};
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

/// "http://host:9000" of an endpoint's URL: its scheme and its host.
struct Endpoint {
  std::string_view scheme, authority;
};

Result<Endpoint> endpoint_of(std::string_view url, std::string_view store) {
  while (url.ends_with('/')) url.remove_suffix(1);
  const std::size_t colon = url.find("://");
  const std::string_view scheme = url.substr(0, colon);
  if (colon == std::string_view::npos || (scheme != "http" && scheme != "https"))
    return fail(Code::kInvalidArgument, "endpoint of " + std::string(store) + ": " + escaped(url) +
                                            ": no URL; give one such as http://host:9000");
  return Endpoint{scheme, url.substr(colon + 3)};
}

bool is_same_server(std::string_view url, std::string_view other) {
  while (other.ends_with('/')) other.remove_suffix(1);
  return !other.empty() && url == other;
}

/// A bucket and key below an endpoint: the bucket is a part of the path. `own`: the cloud's, or the environment's.
Result<StoreUrl> below(std::string_view url, std::string_view endpoint, std::string_view store, bool own,
                       std::string_view bucket, std::string_view key) {
  ASSIGN(const Endpoint at, endpoint_of(endpoint, store));
  ASSIGN(StoreUrl found, at_origin(url, at.scheme, at.authority));
  found.target = "/" + std::string(bucket) + "/" + percent_encoded(key, "/");
  found.trusted = own;
  return found;
}

Result<StoreUrl> s3(std::string_view url, std::string_view endpoint, bool own, std::string_view path,
                    const StoreSettings& settings) {
  const auto [bucket, key] = cut(path);
  if (!is_bucket(bucket)) return wrong(url, "no bucket; give a URL such as s3://bucket/train-0000.tar");
  const std::string amazon = "https://s3." + settings.region + ".amazonaws.com";
  Result<StoreUrl> store;
  if (!endpoint.empty() || bucket.contains('.')) {  // no certificate is for a bucket with dots
    store = below(url, endpoint.empty() ? amazon : endpoint, "S3", own, bucket, key);
  } else {
    store = at_origin(url, "https", std::string(bucket) + "." + amazon.substr(8));
    if (store) {
      store->target = "/" + percent_encoded(key, "/");
      store->trusted = own;
    }
  }
  if (!store) return store;
  store->kind = StoreKind::kS3;
  store->bucket = bucket;
  store->key = key;
  return store;
}

Result<StoreUrl> google(std::string_view url, std::string_view endpoint, bool own, std::string_view path) {
  const auto [bucket, key] = cut(path);
  if (!is_bucket(bucket)) return wrong(url, "no bucket; give a URL such as gs://bucket/train-0000.tar");
  ASSIGN(StoreUrl store,
         below(url, endpoint.empty() ? kGoogle : endpoint, "Cloud Storage", own, bucket, key));
  store.kind = StoreKind::kGoogle;
  store.bucket = bucket;
  store.key = key;
  return store;
}

/// "az://account/container/key": the account is a part of the host's name, or of another server's path.
Result<StoreUrl> azure(std::string_view url, std::string_view endpoint, bool own, std::string_view path) {
  const auto [account, inside] = cut(path);
  const auto [container, key] = cut(inside);
  if (!is_account(account) || !is_bucket(container) ||
      container.find_first_of("._") != std::string_view::npos)
    return wrong(url, "no account and container; give a URL such as az://account/container/train-0000.tar");
  Result<StoreUrl> store;
  if (endpoint.empty()) {
    store = at_origin(url, "https", std::string(account) + std::string(kAzure));
    if (store) {
      store->target = "/" + std::string(container) + "/" + percent_encoded(key, "/");
      store->trusted = true;
    }
  } else {
    store =
        below(url, endpoint, "Blob Storage", own, std::string(account) + "/" + std::string(container), key);
  }
  if (!store) return store;
  if (key.empty()) store->target.pop_back();  // "/container" is what a listing signs
  store->kind = StoreKind::kAzure;
  store->account = account;
  store->bucket = container;
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

std::string_view place_of(std::string_view url) {
  const std::size_t begin = url.find("://");
  const std::string_view scheme = url.substr(0, begin);
  int parts = scheme.starts_with("az") ? 2 : 1;
  if (scheme.contains('+')) ++parts;
  std::size_t end = begin + 2;
  for (; parts > 0 && end != std::string_view::npos; --parts) end = url.find('/', end + 1);
  return url.substr(0, end);
}

Result<StoreUrl> parse_store_url(std::string_view url, const StoreSettings& settings) {
  const std::size_t colon = std::min(url.find("://"), url.size());
  const std::string_view scheme = url.substr(0, colon);
  const std::string_view rest = url.substr(std::min(colon + 3, url.size()));
  if (rest.contains('\0')) return wrong(url, "a URL with a NUL; give it without");
  const auto [first, path] = cut(rest);
  if (scheme == "http" || scheme == "https") {
    if (path.contains('?') || path.contains('#'))
      return fail(Code::kInvalidArgument,
                  "URL: " + escaped(url.substr(0, url.find_first_of("?#"))) +
                      "...: it has a query or fragment, which could hold a secret; give it without");
    ASSIGN(StoreUrl store, at_origin(url, scheme, first));
    store.target = "/" + percent_encoded(path, "/%!$&'()*+,;=:@");
    return store;
  }
  const std::size_t plus = std::min(scheme.find('+'), scheme.size());
  const std::string_view store = scheme.substr(0, plus);
  const std::string_view transport = scheme.substr(std::min(plus + 1, scheme.size()));
  const bool elsewhere = transport == "http" || transport == "https";  // the URL says at which server
  if (elsewhere || plus == scheme.size()) {
    const std::string named = elsewhere ? std::string(transport) + "://" + std::string(first) : "";
    const std::string_view inside = elsewhere ? path : rest;
    const auto at = [&](const std::string& usual) { return elsewhere ? std::string_view(named) : usual; };
    const auto own = [&](const std::string& usual) { return !elsewhere || is_same_server(named, usual); };
    if (store == "s3") return s3(url, at(settings.endpoint), own(settings.endpoint), inside, settings);
    if (store == "az") return azure(url, at(settings.azure_endpoint), own(settings.azure_endpoint), inside);
    if (store == "gs")
      return google(url, at(settings.google_endpoint), own(settings.google_endpoint), inside);
  }
  return fail(Code::kUnsupported,
              escaped(scheme) +
                  ":// is not read; give s3://, gs://, az://, https:// or http://, copy the data, or "
                  "mount it as a folder");
}

}  // namespace carya::io
