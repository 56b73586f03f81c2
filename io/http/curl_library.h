#pragma once

#include <curl/curl.h>

#include "base/error.h"

namespace carya::io {

/// The functions of libcurl that are used. Loaded when the first URL is opened, not linked: a process that reads no URL
/// has no libcurl, and a wheel brings none along (docs/decisions/019).
struct CurlLibrary {
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_multi_init) multi_init;
  decltype(&curl_multi_cleanup) multi_cleanup;
  decltype(&curl_multi_setopt) multi_setopt;
  decltype(&curl_multi_add_handle) multi_add_handle;
  decltype(&curl_multi_remove_handle) multi_remove_handle;
  decltype(&curl_multi_perform) multi_perform;
  decltype(&curl_multi_poll) multi_poll;
  decltype(&curl_multi_wakeup) multi_wakeup;
  decltype(&curl_multi_info_read) multi_info_read;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
};

/// CURLOPT_PROTOCOLS and CURLOPT_REDIR_PROTOCOLS: their newer names are not in libcurl 7.68.
inline constexpr auto kProtocols = static_cast<CURLoption>(181),
                      kRedirectProtocols = static_cast<CURLoption>(182);

/// Load it once per process. Errors: kUnsupported (not installed, or older than 7.68). Threads: thread-safe.
Result<const CurlLibrary*> curl_library();

}  // namespace carya::io
