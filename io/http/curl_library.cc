#include "io/http/curl_library.h"

#include <dlfcn.h>

#include <string>

namespace carya::io {
namespace {

constexpr unsigned kVersionMin = 0x074400;  // 7.68: curl_multi_wakeup()

template <typename Function>
bool take(void* library, const char* name, Function* into) {
  *into = reinterpret_cast<Function>(::dlsym(library, name));
  return *into != nullptr;
}

Result<const CurlLibrary*> load() {
  static constexpr const char* kNames[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
  void* library = nullptr;
  for (const char* name : kNames)
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(Code::kUnsupported,
                "URL: libcurl.so.4 is not on this machine; install it (Debian: apt-get install libcurl4)");
  static CurlLibrary curl;
  decltype(&curl_version_info) version = nullptr;
  decltype(&curl_global_init) global_init = nullptr;
  const bool complete = take(library, "curl_version_info", &version) &&
                        take(library, "curl_global_init", &global_init) &&
                        take(library, "curl_easy_init", &curl.easy_init) &&
                        take(library, "curl_easy_cleanup", &curl.easy_cleanup) &&
                        take(library, "curl_easy_reset", &curl.easy_reset) &&
                        take(library, "curl_easy_setopt", &curl.easy_setopt) &&
                        take(library, "curl_easy_getinfo", &curl.easy_getinfo) &&
                        take(library, "curl_easy_perform", &curl.easy_perform) &&
                        take(library, "curl_easy_strerror", &curl.easy_strerror) &&
                        take(library, "curl_multi_init", &curl.multi_init) &&
                        take(library, "curl_multi_cleanup", &curl.multi_cleanup) &&
                        take(library, "curl_multi_setopt", &curl.multi_setopt) &&
                        take(library, "curl_multi_add_handle", &curl.multi_add_handle) &&
                        take(library, "curl_multi_remove_handle", &curl.multi_remove_handle) &&
                        take(library, "curl_multi_perform", &curl.multi_perform) &&
                        take(library, "curl_multi_poll", &curl.multi_poll) &&
                        take(library, "curl_multi_wakeup", &curl.multi_wakeup) &&
                        take(library, "curl_multi_info_read", &curl.multi_info_read) &&
                        take(library, "curl_slist_append", &curl.slist_append) &&
                        take(library, "curl_slist_free_all", &curl.slist_free_all);
  if (!complete || version(CURLVERSION_NOW)->version_num < kVersionMin ||
      global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return fail(Code::kUnsupported, "URL: the libcurl of this machine is too old; install 7.68 or newer");
  return &curl;
}

}  // namespace

Result<const CurlLibrary*> curl_library() {
  static const Result<const CurlLibrary*> loaded = load();
  return loaded;
}

}  // namespace carya::io
