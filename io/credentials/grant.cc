#include "io/credentials/grant.h"

#include <string.h>
#include <time.h>

#include <algorithm>
#include <ctime>

namespace carya::io {
namespace {

constexpr std::size_t kValueMax = 16 << 10;
constexpr std::int64_t kAheadS = 300;
constexpr std::int64_t kOnItsWayS = 10;  // that a request may wait for a connection, once it is signed

}  // namespace

void wipe(std::string& secret) {
  explicit_bzero(secret.data(), secret.size());
  secret.clear();
}

GrantTimes times_of(const Grant& grant, std::int64_t now_s) {
  if (grant.expires_s == 0) return {};
  const std::int64_t left = grant.expires_s - now_s;
  return {.renew_s = grant.expires_s - std::min(kAheadS, left / 2),
          .good_until_s = grant.expires_s - std::min(kOnItsWayS, left / 4)};
}

bool is_sendable(std::string_view value) {
  return value.size() <= kValueMax &&
         std::ranges::all_of(value, [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
}

bool is_sendable(const Grant& grant) {
  return is_sendable(grant.access_key) && is_sendable(grant.secret_key) && is_sendable(grant.token);
}

std::int64_t iso_time_seconds(std::string_view text) {
  std::tm utc{};
  const std::string copy(text);
  const char* end = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &utc);
  if (end == nullptr) return 0;
  if (*end == '.')
    for (++end; *end >= '0' && *end <= '9';) ++end;
  const std::string_view zone = end;
  if (zone != "Z" && zone != "+00:00" && zone != "+0000") return 0;
  return static_cast<std::int64_t>(::timegm(&utc));
}

}  // namespace carya::io
