#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace carya::io {

/// Overwrites a secret: its memory goes to others then.
void wipe(std::string& secret);

/// What a store is asked with: keys that sign requests, or a token that is sent along. Never written to a state, plan,
/// log or message: nothing in Carya formats one. It is overwritten at its end.
struct Grant {
  std::string access_key;      ///< "": no keys
  std::string secret_key;      ///< of the same account
  std::string token;           ///< with keys: the session's; without: an OAuth token; "": none
  std::int64_t expires_s = 0;  ///< seconds since 1970; 0: never
  bool in_query = false;       ///< the token is a part of the URL's query: a shared access signature of Azure

  /// Neither keys nor a token: requests are sent as anybody's, as for public buckets.
  bool empty() const { return access_key.empty() && token.empty(); }
  bool operator==(const Grant&) const = default;
  ~Grant() {
    wipe(secret_key);
    wipe(token);
  }
};

/// When a grant that begins to be used at `now_s` is asked for again, and from when on it signs nothing: 5 minutes and 10 s
/// before it expires, or half and a quarter of its time where that is less. 0: never, as for one that never expires.
struct GrantTimes {
  std::int64_t renew_s = 0, good_until_s = 0;
};
GrantTimes times_of(const Grant& grant, std::int64_t now_s);

/// Whether all parts may stand in a header: printable, without line ends, at most 16 KiB long.
bool is_sendable(const Grant& grant);
bool is_sendable(std::string_view value);

/// Seconds since 1970 of "2026-01-31T12:00:00Z", also with a fraction of a second or "+00:00"; 0 where it is none.
std::int64_t iso_time_seconds(std::string_view text);

}  // namespace carya::io
