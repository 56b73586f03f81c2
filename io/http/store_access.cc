#include "io/http/store_access.h"

#include <cstdlib>
#include <ctime>
#include <utility>

#include "base/mutex.h"
#include "io/credentials/aws_keys.h"
#include "io/credentials/azure_grant.h"
#include "io/credentials/google_grant.h"
#include "io/credentials/shared_key.h"

namespace carya::io {
namespace {

constexpr std::int64_t kClockOffMax = 240;  // S3 allows 15 minutes

Mutex current_mutex;

/// Under current_mutex.
std::shared_ptr<StoreAccess>& current_access() {
  static std::shared_ptr<StoreAccess> access;
  return access;
}

/// "host:9023", as Google's emulator variable may be, is one of http.
std::string with_scheme(const std::string& endpoint) {
  return endpoint.empty() || endpoint.contains("://") ? endpoint : "http://" + endpoint;
}

StoreSettings settings_of(const StoreSources& sources) {
  return {.region = sources.profile.region,
          .endpoint = sources.profile.endpoint,
          .google_endpoint = with_scheme(sources.environment.get("STORAGE_EMULATOR_HOST")),
          .azure_endpoint = azure_endpoint(sources.environment)};
}

}  // namespace

StoreSources read_store_sources() {
  StoreSources sources{.environment = read_environment()};
  sources.profile = read_aws_profile(sources.environment);
  return sources;
}

StoreWay way_of(const StoreSources& sources, bool tls) {
  const Environment& environment = sources.environment;
  return {.authority = tls ? sources.profile.ca_bundle : "",
          .proxy = tls ? environment.first({"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"})
                       : environment.first({"http_proxy", "all_proxy", "ALL_PROXY"}),
          .no_proxy = environment.first({"no_proxy", "NO_PROXY"})};
}

StoreAccess::StoreAccess(StoreSources sources, Fetch fetch)
    : sources_(std::move(sources)),
      settings_(settings_of(sources_)),
      plain_(way_of(sources_, false)),
      tls_(way_of(sources_, true)),
      fetch_(std::move(fetch)),
      aws_([this] { return aws_keys(sources_.environment, fetch_); }),
      google_([this] { return google_grant(sources_.environment, fetch_); }) {}

std::shared_ptr<StoreAccess> StoreAccess::current() {
  const MutexLock lock(current_mutex);
  return current_access();
}

void StoreAccess::set_current(std::shared_ptr<StoreAccess> access) {
  const MutexLock lock(current_mutex);
  current_access() = std::move(access);
}

Renewal* StoreAccess::renewal(const StoreUrl& url) {
  if (url.kind == StoreKind::kS3) return &aws_;
  if (url.kind == StoreKind::kGoogle) return &google_;
  if (url.kind == StoreKind::kHttp) return nullptr;
  const MutexLock lock(mutex_);
  auto& found = azure_[url.account];
  if (!found)
    found = std::make_unique<Renewal>(
        [this, account = url.account] { return azure_grant(sources_.environment, account, fetch_); });
  return found.get();
}

/// What a store is asked with. A token is sent to those only who may have it.
Grant StoreAccess::grant(const StoreUrl& url) {
  Renewal* const from = renewal(url);
  Grant found = from == nullptr ? Grant{} : from->current();
  return found.access_key.empty() && !url.trusted ? Grant{} : found;
}

Signature StoreAccess::sign(const StoreUrl& url, const UnsignedRequest& request) {
  if (url.kind == StoreKind::kHttp) return {};
  const Grant found = grant(url);
  UnsignedRequest now = request;
  now.unix_seconds = static_cast<std::int64_t>(std::time(nullptr)) + clock_off_s_.load();
  if (url.kind == StoreKind::kS3) return {.headers = sigv4_headers(now, found, settings_.region, "s3")};
  if (found.in_query) return {.query = found.token};
  if (found.access_key.empty() && !found.token.empty())
    return {.headers = {"Authorization: Bearer " + found.token}};
  if (url.kind == StoreKind::kAzure) return {.headers = shared_key_headers(now, found)};
  return {.headers = sigv4_headers(now, found, "auto", "storage", kGoogleWords)};
}

bool StoreAccess::lacks_for_now(const StoreUrl& url) {
  Renewal* const from = renewal(url);
  if (from == nullptr) return false;
  const auto failure = from->failure();
  return failure && failure->code == Code::kIo && from->current().empty();
}

std::string StoreAccess::advice(const StoreUrl& url) {
  constexpr auto kGoogleWays =
      "GOOGLE_APPLICATION_CREDENTIALS (the file of a service account), GOOGLE_OAUTH_ACCESS_TOKEN, or "
      "GS_ACCESS_KEY_ID "
      "and GS_SECRET_ACCESS_KEY";
  constexpr auto kAmazonWays =
      "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile in ~/.aws/credentials, or a role of the "
      "machine";
  constexpr auto kAzureWays =
      "AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_CONNECTION_STRING, or an identity of Entra "
      "(AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_FEDERATED_TOKEN_FILE or AZURE_CLIENT_SECRET)";
  const std::string ways = url.kind == StoreKind::kGoogle  ? kGoogleWays
                           : url.kind == StoreKind::kAzure ? kAzureWays
                                                           : kAmazonWays;
  Renewal* const from = renewal(url);
  if (from == nullptr)
    return "there are no credentials: what is behind a plain URL is read as anybody; give s3://, gs:// or "
           "az:// for a "
           "store that asks who reads";
  if (!grant(url).empty()) return "give credentials that may read it: " + ways;
  if (const auto failure = from->failure()) return "no credentials could be had: " + failure->message;
  if (!from->current().empty())
    return "a token is sent to the cloud's own servers only; name this one by STORAGE_EMULATOR_HOST or "
           "AZURE_STORAGE_ENDPOINT, or give keys";
  return "there are no credentials: give them by " + ways;
}

void StoreAccess::refused(const StoreUrl& url, const Answer& answer) {
  if (const auto theirs = http_date_seconds(answer.date)) {
    const std::int64_t off = *theirs - static_cast<std::int64_t>(std::time(nullptr));
    if (std::abs(off - clock_off_s_.load()) > kClockOffMax) clock_off_s_ = off;
  }
  if (Renewal* const from = renewal(url)) from->refused();
}

}  // namespace carya::io
