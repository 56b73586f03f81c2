#include "io/http/store_access.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/clock.h"
#include "base/escape.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "io/credentials/aws_keys.h"
#include "io/credentials/azure_grant.h"
#include "io/credentials/google_grant.h"
#include "io/credentials/shared_key.h"

namespace carya::io {
namespace {

constexpr std::int64_t kClockOffMax = 240;  // S3 allows 15 minutes
constexpr std::size_t kRegionMax = 64, kPathMax = 4096, kAuthorityMax = 1 << 20;

Mutex current_mutex;

/// Under current_mutex.
std::shared_ptr<StoreAccess>& current_access() {
  static std::shared_ptr<StoreAccess> access;
  return access;
}

std::string bucket_of(const StoreUrl& url) {
  return url.origin + "/" + url.bucket;
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

/// A file that somebody else names: to open it waits for nobody, and no more is read than an authority has.
Result<std::string> read_authority(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY));
  struct stat found{};
  std::string bytes(kAuthorityMax + 1, '\0');
  std::size_t filled = 0;
  if (file && ::fstat(file.get(), &found) == 0 && S_ISREG(found.st_mode))
    for (ssize_t got = 1; got > 0 && filled < bytes.size();
         filled += static_cast<std::size_t>(std::max<ssize_t>(got, 0)))
      got = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
  if (filled == 0 || filled > kAuthorityMax)
    return fail(Code::kInvalidArgument, "stores: " + escaped(path) +
                                            " is no authority: give SSL_CERT_FILE (or AWS_CA_BUNDLE) the "
                                            "path without links of a file that can "
                                            "be read and has at most 1 MiB");
  bytes.resize(filled);
  return bytes;
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

std::string StoreTerms::key() const {
  std::string all;
  bool plainly = true;
  for (const std::string* text :
       {&settings.endpoint, &settings.google_endpoint, &settings.azure_endpoint, &plain.authority,
        &plain.proxy, &plain.no_proxy, &tls.authority, &tls.proxy, &tls.no_proxy}) {
    plainly = plainly && text->empty();
    all += std::to_string(text->size()) + ":" + *text;
  }
  return plainly ? "" : sha256_hex(all);
}

Status StoreTerms::check() const {
  const auto in_region = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  if (settings.region.size() > kRegionMax || !std::ranges::all_of(settings.region, in_region))
    return fail(Code::kInvalidArgument,
                "stores: a region has letters a to z, digits and -, at most 64; give another AWS_REGION");
  for (const std::string* text : {&settings.endpoint, &settings.google_endpoint, &settings.azure_endpoint,
                                  &plain.proxy, &plain.no_proxy, &tls.proxy, &tls.no_proxy})
    if (!is_sendable(*text))
      return fail(Code::kInvalidArgument,
                  "stores: an endpoint or a proxy with characters that no URL has; give it without");
  const auto in_path = [](unsigned char c) { return c >= 0x20 && c != 0x7f; };
  for (const std::string* text : {&plain.authority, &tls.authority})
    if (text->size() > kPathMax || !std::ranges::all_of(*text, in_path))
      return fail(
          Code::kInvalidArgument,
          "stores: the path of an authority with control characters, or a long one; give another one");
  return {};
}

std::string account_of(const StoreUrl& url) {
  switch (url.kind) {
    case StoreKind::kS3:
      return "s3";
    case StoreKind::kGoogle:
      return "gs";
    case StoreKind::kAzure:
      return "az:" + url.account;
    case StoreKind::kHttp:
      break;
  }
  return "";
}

bool StoreAccess::asks_as_anybody(const StoreUrl& url) const {
  return url.kind == StoreKind::kHttp && !way(url.origin.starts_with("https:")).proxy.contains('@');
}

StoreAccess::StoreAccess(StoreSources sources, Fetch fetch)
    : sources_(std::move(sources)),
      terms_{settings_of(sources_), way_of(sources_, false), way_of(sources_, true)},
      fetch_(std::move(fetch)),
      aws_([this] { return aws_keys(sources_.environment, fetch_); }),
      google_([this] { return google_grant(sources_.environment, fetch_); }) {}

StoreAccess::StoreAccess(StoreTerms terms, std::vector<std::shared_ptr<LentGrants>> lent)
    : terms_(std::move(terms)),
      is_lent_(true),
      aws_([]() -> Result<Grant> { return Grant{}; }),  // never asked
      google_([]() -> Result<Grant> { return Grant{}; }),
      lent_(std::move(lent)) {}

std::shared_ptr<StoreAccess> StoreAccess::apart() {
  CHECK(is_lent_);
  auto made = std::make_shared<StoreAccess>(terms_, lent());
  const std::array read{authority(false), authority(true)};
  const MutexLock lock(made->mutex_);
  made->authorities_ = read;
  return made;
}

Status StoreAccess::read_authorities() {
  for (const bool tls : {false, true}) {
    if (way(tls).authority.empty() || authority(tls)) continue;
    ASSIGN(std::string bytes, read_authority(way(tls).authority));
    const MutexLock lock(mutex_);
    authorities_[tls ? 1 : 0] = std::make_shared<const std::string>(std::move(bytes));
  }
  return {};
}

std::shared_ptr<const std::string> StoreAccess::authority(bool tls) {
  const MutexLock lock(mutex_);
  return authorities_[tls ? 1 : 0];
}

void StoreAccess::join(StoreAccess& other) {
  CHECK(is_lent_ && other.is_lent_);
  const auto more = other.lent();
  const MutexLock lock(mutex_);
  for (auto& [bucket, turn] : turns_) {  // of one that has gone the next one has it
    auto at = std::ranges::find(lent_, turn.lock());
    while (at != lent_.end() && (*at)->is_gone()) ++at;
    turn = at != lent_.end() ? *at : nullptr;
  }
  std::erase_if(
      lent_, [&](const auto& one) { return one->is_gone() || std::ranges::find(more, one) != more.end(); });
  lent_.insert(lent_.end(), more.begin(), more.end());
}

std::optional<std::string> StoreAccess::rights() {
  std::string all = terms_.key() + "/" + terms_.settings.region;
  for (const auto& one : lent()) {
    const auto its = one->rights();
    if (!its) return std::nullopt;
    all += "/" + *its;
  }
  return sha256_hex(all);
}

std::vector<std::shared_ptr<LentGrants>> StoreAccess::lent() {
  const MutexLock lock(mutex_);
  return lent_;
}

std::shared_ptr<StoreAccess> StoreAccess::current() {
  const MutexLock lock(current_mutex);
  return current_access();
}

void StoreAccess::set_current(std::shared_ptr<StoreAccess> access) {
  const MutexLock lock(current_mutex);
  current_access() = std::move(access);
}

/// Null for stores that are asked as anybody, and where grants are lent.
Renewal* StoreAccess::renewal(const StoreUrl& url) {
  if (is_lent_) return nullptr;
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

/// From the one whose turn it is on.
std::vector<std::shared_ptr<LentGrants>> StoreAccess::lent_in_turn(const StoreUrl& url) {
  const MutexLock lock(mutex_);
  auto all = lent_;
  if (const auto turn = turns_.find(bucket_of(url)); turn != turns_.end())
    if (const auto at = std::ranges::find(all, turn->second.lock()); at != all.end())
      std::ranges::rotate(all, at);
  return all;
}

/// The one that there is, whoever may have it.
StoreAccess::Found StoreAccess::any_grant(const StoreUrl& url) {
  if (Renewal* const from = renewal(url)) return {.grant = from->current()};
  for (const auto& one : lent_in_turn(url))
    if (Grant found = one->current(account_of(url)); !found.empty()) return {.grant = found, .by = one};
  return {};
}

/// What a store is asked with. A token is sent to those only who may have it.
StoreAccess::Found StoreAccess::grant(const StoreUrl& url) {
  Found found = any_grant(url);
  return found.grant.access_key.empty() && !url.trusted ? Found{} : found;
}

std::optional<Error> StoreAccess::failure(const StoreUrl& url) {
  if (Renewal* const from = renewal(url)) return from->failure();
  std::optional<Error> last;
  for (const auto& one : lent()) {
    last = one->failure(account_of(url));
    if (!last) return last;
  }
  return last;
}

LentGrant StoreAccess::lend(const StoreUrl& url, bool refused) {
  LentGrant lent{.account = account_of(url), .grant = {}};
  Renewal* const from = renewal(url);
  if (from == nullptr) return lent;
  if (refused) from->refused();
  lent.grant = from->current();
  if (const auto failure = from->failure(); failure && lent.grant.empty()) {
    lent.why = failure->message;
    lent.for_now = failure->code == Code::kIo;
  }
  return lent;
}

bool StoreAccess::waits(const StoreUrl& url) {
  if (!is_lent_) return false;
  const auto all = lent();
  return !all.empty() && url.kind != StoreKind::kHttp && std::ranges::all_of(all, [&](const auto& one) {
    return one->is_gone() || one->waits(account_of(url));
  });
}

Signature StoreAccess::sign(const StoreUrl& url, const UnsignedRequest& request) {
  if (url.kind == StoreKind::kHttp) return {};
  const auto [found, by] = grant(url);
  Signature signature = sign(url, request, found);
  signature.by = by;
  return signature;
}

Signature StoreAccess::sign(const StoreUrl& url, const UnsignedRequest& request, const Grant& found) {
  UnsignedRequest now = request;
  now.unix_seconds = unix_s() + clock_off_s_.load();
  if (url.kind == StoreKind::kS3) return {.headers = sigv4_headers(now, found, terms_.settings.region, "s3")};
  if (found.in_query) return {.query = found.token};
  if (found.access_key.empty() && !found.token.empty())
    return {.headers = {"Authorization: Bearer " + found.token}};
  if (url.kind == StoreKind::kAzure) return {.headers = shared_key_headers(now, found)};
  return {.headers = sigv4_headers(now, found, "auto", "storage", kGoogleWords)};
}

bool StoreAccess::lacks_for_now(const StoreUrl& url) {
  const auto failed = failure(url);
  return failed && failed->code == Code::kIo && any_grant(url).grant.empty();
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
  if (url.kind == StoreKind::kHttp)
    return "there are no credentials: what is behind a plain URL is read as anybody; give s3://, gs:// or "
           "az:// for a "
           "store that asks who reads";
  if (!grant(url).grant.empty()) return "give credentials that may read it: " + ways;
  if (const auto failed = failure(url)) return "no credentials could be had: " + failed->message;
  if (!any_grant(url).grant.empty())
    return "a token is sent to the cloud's own servers only; name this one by STORAGE_EMULATOR_HOST or "
           "AZURE_STORAGE_ENDPOINT, or give keys";
  return "there are no credentials: give them by " + ways;
}

void StoreAccess::refused(const StoreUrl& url, const Answer& answer, const std::shared_ptr<LentGrants>& by) {
  if (const auto theirs = http_date_seconds(answer.date)) {
    const std::int64_t off = *theirs - unix_s();
    if (std::abs(off - clock_off_s_.load()) > kClockOffMax) clock_off_s_ = off;
  }
  if (Renewal* const from = renewal(url)) from->refused();
  for (const auto& one : by ? std::vector{by} : lent()) one->refused();
  if (!by || any_grant(url).by != by) return;  // its turn is over already
  const MutexLock lock(mutex_);
  const auto at = std::ranges::find(lent_, by);
  if (at != lent_.end()) turns_[bucket_of(url)] = at + 1 != lent_.end() ? *(at + 1) : lent_.front();
}

}  // namespace carya::io
