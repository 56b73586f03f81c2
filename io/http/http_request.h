#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/http/answer.h"
#include "io/http/curl_library.h"
#include "io/http/store_access.h"

namespace carya::io {

/// What is asked of a store.
struct HttpQuestion {
  StoreUrl url;
  bool head = false;  ///< headers only
  Query query;
  std::optional<RangeWanted> range;  ///< its pin is copied; nothing: the whole answer
};

/// How a request ended.
struct RequestEnd {
  Verdict verdict = Verdict::kAgain;
  std::string why;  ///< unless kGood: what and what to do
  std::uint32_t retry_after_s = 0;
};

/// One request to a store, by libcurl; used again and again, which keeps its connection. TLS certificates are always
/// checked. CURL_CA_BUNDLE, AWS_CA_BUNDLE or SSL_CERT_FILE names a private CA; http_proxy,
/// https_proxy, all_proxy and no_proxy mean what they mean to libcurl.
///
/// Threads: owner only. The callbacks of libcurl let no exception out.
class HttpRequest {
 public:
  /// Takes the next bytes of a good answer; false ends the request.
  using Sink = std::function<bool(std::span<const std::byte> bytes)>;

  static Result<std::unique_ptr<HttpRequest>> create(const CurlLibrary& curl, const HttpLimits& limits);
  ~HttpRequest();
  HttpRequest(const HttpRequest&) = delete;
  HttpRequest& operator=(const HttpRequest&) = delete;

  /// Make everything ready for perform() or a multi handle.
  Status prepare(StoreAccess& access, HttpQuestion question, Sink sink);
  /// The verdict after libcurl ended with `code`.
  RequestEnd end(CURLcode code);
  /// Do it now, in this thread, for as long as `goes_on`, which is asked once a second at least; empty: to its end.
  RequestEnd perform(const GoesOn& goes_on = {});

  /// Forget what let the last request in: its headers, and its URL's query. After libcurl has let go of it.
  void forget();

  CURL* handle() const { return handle_; }
  const Answer& answer() const { return answer_; }

 private:
  HttpRequest(const CurlLibrary& curl, const HttpLimits& limits) : curl_(curl), limits_(limits) {}
  void set_up();
  void drop_headers();
  static std::size_t on_header(char* bytes, std::size_t size, std::size_t count, void* self) noexcept;
  static int on_progress(void* goes_on, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept;
  static std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* self) noexcept;
  Verdict judge() const;

  const CurlLibrary& curl_;
  const HttpLimits limits_;
  std::string authority_;                               // that the handle was set up with
  std::shared_ptr<const std::string> authority_bytes_;  // of one that a client names; the handle has no copy
  CURL* handle_ = nullptr;
  curl_slist* headers_ = nullptr;  // of the request under way
  bool has_secret_url_ = false;    // its query lets in
  StoreAccess* access_ = nullptr;
  std::shared_ptr<LentGrants> lent_by_;  // whose grant lets it in
  HttpQuestion question_;
  std::string pin_;  // of the range
  Sink sink_;
  Answer answer_;
  std::optional<Verdict> verdict_;  // once a body has begun
  std::uint64_t received_ = 0;      // bytes of a good answer
  std::string failure_;             // the beginning of another's body
};

}  // namespace carya::io
