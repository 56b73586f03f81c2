#include "io/http/store_access.h"

#include <cstdlib>
#include <ctime>
#include <initializer_list>
#include <utility>

#include "base/clock.h"

namespace carya::io {
namespace {

constexpr std::int64_t kClockOffMax = 240;  // S3 allows 15 minutes
constexpr std::int64_t kReadAgainNs = 1'000'000'000;

Mutex current_mutex;

/// Under current_mutex.
std::shared_ptr<StoreAccess>& current_access() {
  static std::shared_ptr<StoreAccess> access;
  return access;
}

std::string first_of(const AwsProfile& profile, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto found = profile.variables.find(name);
        found != profile.variables.end() && !found->second.empty())
      return found->second;
  return "";
}

StoreAccess::Way way_of(const AwsProfile& profile, bool tls) {
  return {.authority = tls ? profile.settings.authority : "",
          .proxy = tls ? first_of(profile, {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"})
                       : first_of(profile, {"http_proxy", "all_proxy", "ALL_PROXY"}),
          .no_proxy = first_of(profile, {"no_proxy", "NO_PROXY"})};
}

}  // namespace

StoreAccess::StoreAccess(AwsProfile profile)
    : plain_(way_of(profile, false)),
      tls_(way_of(profile, true)),
      profile_(std::move(profile)),
      read_ns_(monotonic_ns()) {}

std::shared_ptr<StoreAccess> StoreAccess::current() {
  const MutexLock lock(current_mutex);
  return current_access();
}

void StoreAccess::set_current(std::shared_ptr<StoreAccess> access) {
  const MutexLock lock(current_mutex);
  current_access() = std::move(access);
}

Result<StoreUrl> StoreAccess::parse(std::string_view url) const {
  const MutexLock lock(mutex_);
  return parse_store_url(url, profile_.settings);
}

bool StoreAccess::signs(const StoreUrl& url) const {
  const MutexLock lock(mutex_);
  return url.s3 && !profile_.credentials.access_key.empty();
}

std::vector<std::string> StoreAccess::sign(
    const StoreUrl& url, std::string_view method,
    const std::vector<std::pair<std::string, std::string>>& query) const {
  if (!url.s3) return {};
  const MutexLock lock(mutex_);
  return s3_signature(profile_.credentials, profile_.settings.region, method, url.host, url.target, query,
                      static_cast<std::int64_t>(std::time(nullptr)) + clock_off_s_.load());
}

void StoreAccess::refused(const Answer& answer) {
  if (const auto theirs = http_date_seconds(answer.date)) {
    const std::int64_t off = *theirs - static_cast<std::int64_t>(std::time(nullptr));
    if (std::abs(off - clock_off_s_.load()) > kClockOffMax) clock_off_s_ = off;
  }
  const MutexLock lock(mutex_);
  const std::int64_t now_ns = monotonic_ns();
  if (now_ns - read_ns_ < kReadAgainNs) return;
  profile_.credentials = read_aws_profile(profile_.variables).credentials;
  read_ns_ = now_ns;
}

}  // namespace carya::io
