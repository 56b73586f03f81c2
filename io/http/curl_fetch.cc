#include "io/http/curl_fetch.h"

#include <memory>
#include <string>

#include "base/escape.h"

namespace carya::io {
namespace {

constexpr std::size_t kBodyMax = 1 << 20;
constexpr long kConnectMs = 1000;  // who gives tokens is near, or one of the largest services

std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* body) noexcept try {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + size * count > kBodyMax) return 0;
  text.append(bytes, size * count);
  return size * count;
} catch (...) {
  return 0;
}

/// "https://host:port" of a URL: what may be shown of it.
std::string origin_of(const std::string& url) {
  const std::size_t begin = url.find("://");
  return escaped(url.substr(0, url.find_first_of("/?#", begin == std::string::npos ? 0 : begin + 3)));
}

}  // namespace

Result<FetchAnswer> curl_fetch(const CurlLibrary& curl, const StoreWay& way, const FetchQuestion& question) {
  const std::unique_ptr<CURL, decltype(curl.easy_cleanup)> handle(curl.easy_init(), curl.easy_cleanup);
  if (!handle) return std::unexpected(out_of_memory());
  curl_slist* lines = nullptr;
  const auto free_lines = [&](void*) { curl.slist_free_all(lines); };
  const std::unique_ptr<void, decltype(free_lines)> freed(&lines, free_lines);
  for (const std::string& line : question.headers) {
    curl_slist* const longer = curl.slist_append(lines, line.c_str());
    if (longer == nullptr) return std::unexpected(out_of_memory());
    lines = longer;
  }
  FetchAnswer answer;
  const auto set = [&](CURLoption option, auto value) { curl.easy_setopt(handle.get(), option, value); };
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_URL, question.url.c_str());
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(kProtocols, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(question.limit_ms));
  set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  set(CURLOPT_USERAGENT, "carya");
  // Set also where there is none, so that libcurl does not ask the environment.
  set(CURLOPT_PROXY, question.direct ? "" : way.proxy.c_str());
  set(CURLOPT_NOPROXY, way.no_proxy.c_str());
  if (!way.authority.empty()) set(CURLOPT_CAINFO, way.authority.c_str());
  if (question.method == "POST") {
    set(CURLOPT_POST, 1L);
    set(CURLOPT_POSTFIELDS, question.body.c_str());
    set(CURLOPT_POSTFIELDSIZE, static_cast<long>(question.body.size()));
  } else if (question.method != "GET") {
    set(CURLOPT_CUSTOMREQUEST, question.method.c_str());
  }
  set(CURLOPT_HTTPHEADER, lines);
  set(CURLOPT_WRITEFUNCTION, &on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&answer.body));
  const CURLcode code = curl.easy_perform(handle.get());
  if (code != CURLE_OK) return fail(Code::kIo, origin_of(question.url) + ": " + curl.easy_strerror(code));
  long status = 0;
  curl.easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  return answer;
}

}  // namespace carya::io
