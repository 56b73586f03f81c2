#include "io/http/store_access.h"

#include <cstdlib>
#include <ctime>

#include "base/clock.h"

namespace carya::io {
namespace {

constexpr std::int64_t kClockOffMax = 240;  // S3 allows 15 minutes
constexpr std::int64_t kReadAgainNs = 1'000'000'000;

}  // namespace

StoreAccess::StoreAccess(AwsProfile profile) : profile_(std::move(profile)), read_ns_(monotonic_ns()) {}

Result<StoreUrl> StoreAccess::parse(std::string_view url) const {
  const MutexLock lock(mutex_);
  return parse_store_url(url, profile_.settings);
}

std::string StoreAccess::authority() const {
  const MutexLock lock(mutex_);
  return profile_.settings.authority;
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
  profile_.credentials = read_aws_profile().credentials;
  read_ns_ = now_ns;
}

}  // namespace carya::io
