#include "io/http/http_request.h"

#include <string.h>

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

namespace carya::io {
namespace {

constexpr std::size_t kFailureMax = 4096;
constexpr long kBufferBytes = 256 << 10;
constexpr long kRedirectsMax = 5;
constexpr const char* kAzureVersion = "x-ms-version: 2021-12-02";
// CURLOPT_CAINFO_BLOB: of libcurl 7.77, and not of every TLS library.
constexpr auto kAuthorityBlob = static_cast<CURLoption>(40309);

/// "Range: bytes=0-9" as {"range", "bytes=0-9"}, which is signed.
std::pair<std::string, std::string> header_of(const std::string& line) {
  const std::size_t colon = line.find(": ");
  std::string name = line.substr(0, colon);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return {std::move(name), line.substr(colon + 2)};
}

}  // namespace

Result<std::unique_ptr<HttpRequest>> HttpRequest::create(const CurlLibrary& curl, const HttpLimits& limits) {
  std::unique_ptr<HttpRequest> request(new HttpRequest(curl, limits));
  request->handle_ = curl.easy_init();
  if (request->handle_ == nullptr) return std::unexpected(out_of_memory());
  request->set_up();
  return request;
}

HttpRequest::~HttpRequest() {
  drop_headers();
  if (handle_ != nullptr) curl_.easy_cleanup(handle_);
}

/// Tokens are among them: they are overwritten.
void HttpRequest::drop_headers() {
  for (curl_slist* line = headers_; line != nullptr; line = line->next)
    explicit_bzero(line->data, std::strlen(line->data));
  if (headers_ != nullptr) curl_.slist_free_all(std::exchange(headers_, nullptr));
}

void HttpRequest::forget() {
  curl_.easy_setopt(handle_, CURLOPT_HTTPHEADER, static_cast<curl_slist*>(nullptr));
  drop_headers();
  lent_by_.reset();
  if (has_secret_url_) curl_.easy_setopt(handle_, CURLOPT_URL, question_.url.origin.c_str());
}

/// What no request changes.
void HttpRequest::set_up() {
  const auto set = [this](CURLoption option, auto value) { curl_.easy_setopt(handle_, option, value); };
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_BUFFERSIZE, kBufferBytes);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(limits_.connect_ms));
  set(CURLOPT_LOW_SPEED_LIMIT, 1024L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(limits_.stalled_s));
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  set(CURLOPT_MAXREDIRS, kRedirectsMax);
  set(kProtocols, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
  set(CURLOPT_USERAGENT, "carya");
  set(CURLOPT_PRIVATE, static_cast<void*>(this));
  set(CURLOPT_HEADERFUNCTION, &HttpRequest::on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, &HttpRequest::on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
}

Status HttpRequest::prepare(StoreAccess& access, HttpQuestion question, Sink sink) {
  access_ = &access;
  question_ = std::move(question);
  if (question_.range) {  // whoever asked may be gone when the answer ends
    pin_ = question_.range->pin;
    question_.range->pin = pin_;
  }
  sink_ = std::move(sink);
  answer_ = {};
  verdict_ = std::nullopt;
  received_ = 0;
  failure_.clear();
  drop_headers();

  const bool azure = question_.url.kind == StoreKind::kAzure;
  std::vector<std::string> lines = {"Accept-Encoding: identity"};
  if (azure) lines.emplace_back(kAzureVersion);
  if (question_.range) {
    const RangeWanted& range = *question_.range;
    lines.push_back(fmt::format("{}: bytes={}-{}", azure ? "x-ms-range" : "Range", range.offset,
                                range.offset + range.bytes - 1));
    if (std::string line = pin_condition(range.pin); !line.empty()) lines.push_back(std::move(line));
  }
  UnsignedRequest asked{.method = question_.head ? "HEAD" : "GET",
                        .host = question_.url.host,
                        .path = question_.url.target,
                        .query = question_.query};
  for (const std::string& line : lines) asked.headers.push_back(header_of(line));
  Signature signature = access.sign(question_.url, asked);
  lent_by_ = std::move(signature.by);
  for (std::string& line : signature.headers) lines.push_back(std::move(line));
  for (const std::string& line : lines) {
    if (line.find_first_of("\r\n") != std::string::npos)
      return fail(Code::kInvalidArgument,
                  "stores: a header with a line end; look at the region and the keys");
    curl_slist* const longer = curl_.slist_append(headers_, line.c_str());
    if (longer == nullptr) return std::unexpected(out_of_memory());
    headers_ = longer;
  }
  std::string url = question_.url.url();
  const bool tls = url.starts_with("https:");
  const StoreWay& way = access.way(tls);
  if (way.authority != authority_) {  // only a reset brings the system's back
    curl_.easy_reset(handle_);
    set_up();
    authority_ = way.authority;
  }
  std::string query = canonical_query(question_.query);
  if (!signature.query.empty()) query += (query.empty() ? "" : "&") + signature.query;
  if (!query.empty()) url += "?" + query;
  has_secret_url_ = !signature.query.empty();
  const auto set = [this](CURLoption option, auto value) {
    return curl_.easy_setopt(handle_, option, value) == CURLE_OK;
  };
  // Set also where there is none, so that libcurl does not ask the environment.
  set(CURLOPT_PROXY, way.proxy.c_str());
  set(CURLOPT_NOPROXY, way.no_proxy.c_str());
  if (!authority_.empty() &&
      access.is_lent()) {  // whose file another process names: its path is not opened again
    authority_bytes_ = access.authority(tls);
    CHECK(authority_bytes_ != nullptr);
    curl_blob blob{.data = const_cast<char*>(authority_bytes_->data()),
                   .len = authority_bytes_->size(),
                   .flags = CURL_BLOB_NOCOPY};
    if (!set(kAuthorityBlob, &blob))
      return fail(
          Code::kUnsupported,
          "stores: this libcurl takes no authority from memory; install libcurl 7.77 with OpenSSL, or give "
          "daemon=\"embedded\"");
  } else if (!authority_.empty()) {
    set(CURLOPT_CAINFO, authority_.c_str());
  }
  const bool all =
      set(CURLOPT_URL, url.c_str()) && set(CURLOPT_HTTPHEADER, headers_) &&
      (question_.head ? set(CURLOPT_NOBODY, 1L) : set(CURLOPT_HTTPGET, 1L)) &&
      set(CURLOPT_FOLLOWLOCATION,
          question_.url.kind == StoreKind::kHttp ? 1L : 0L) &&  // a signature is for one host
      set(kRedirectProtocols, static_cast<long>(tls ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS));
  return all ? Status() : std::unexpected(out_of_memory());
}

std::size_t HttpRequest::on_header(char* bytes, std::size_t size, std::size_t count, void* self) noexcept
    try {
  static_cast<HttpRequest*>(self)->answer_.take({bytes, size * count});
  return size * count;
} catch (...) {
  return 0;
}

std::size_t HttpRequest::on_body(char* bytes, std::size_t size, std::size_t count, void* self) noexcept try {
  HttpRequest& request = *static_cast<HttpRequest*>(self);
  const std::size_t length = size * count;
  if (!request.verdict_) request.verdict_ = request.judge();
  if (*request.verdict_ != Verdict::kGood) {
    if (request.failure_.size() + length > kFailureMax) return 0;
    request.failure_.append(bytes, length);
    return length;
  }
  if (request.question_.range && length > request.question_.range->bytes - request.received_) {
    request.verdict_ = Verdict::kAgain;  // more than it said
    return 0;
  }
  request.received_ += length;
  return request.sink_(std::as_bytes(std::span(bytes, length))) ? length : 0;
} catch (...) {
  return 0;
}

Verdict HttpRequest::judge() const {
  if (question_.range) return judge_range(answer_, *question_.range);
  if (answer_.status == 200) return Verdict::kGood;
  return answer_.status == 0 ? Verdict::kAgain : judge_status(answer_.status);
}

int HttpRequest::on_progress(void* goes_on, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept try {
  return (*static_cast<const GoesOn*>(goes_on))() ? 0 : 1;
} catch (...) {
  return 1;
}

RequestEnd HttpRequest::perform(const GoesOn& goes_on) {
  curl_.easy_setopt(handle_, CURLOPT_NOPROGRESS, goes_on ? 0L : 1L);
  curl_.easy_setopt(handle_, CURLOPT_XFERINFOFUNCTION, &HttpRequest::on_progress);
  curl_.easy_setopt(handle_, CURLOPT_XFERINFODATA, static_cast<const void*>(&goes_on));
  RequestEnd how = end(curl_.easy_perform(handle_));
  curl_.easy_setopt(handle_, CURLOPT_NOPROGRESS, 1L);  // who asked is gone when libcurl closes the connection
  curl_.easy_setopt(handle_, CURLOPT_XFERINFODATA, static_cast<void*>(nullptr));
  forget();
  return how;
}

RequestEnd HttpRequest::end(CURLcode code) {
  RequestEnd end{.retry_after_s = answer_.retry_after_s};
  const bool answered = code == CURLE_OK || (verdict_ && *verdict_ != Verdict::kGood);
  if (answered) {
    end.verdict = verdict_ ? *verdict_ : judge();
    const bool is_short =
        end.verdict == Verdict::kGood && question_.range && received_ != question_.range->bytes;
    if (is_short) end.verdict = Verdict::kAgain;
    if (end.verdict == Verdict::kGood) return end;
    if (end.verdict == Verdict::kRefused) access_->refused(question_.url, answer_, lent_by_);
    end.why = is_short ? fmt::format("the store sent {} B of {} B; give a longer io_timeout=", received_,
                                     question_.range->bytes)
                       : answer_failure(answer_, end.verdict, question_.range ? &*question_.range : nullptr,
                                        failure_, access_->advice(question_.url));
    if (end.verdict == Verdict::kRefused && access_->lacks_for_now(question_.url))
      end.verdict = Verdict::kAgain;
    return end;
  }
  const std::string said = curl_.easy_strerror(code);
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      end.verdict = Verdict::kWrong;
      end.why = said + "; name the file of a private CA by SSL_CERT_FILE (or AWS_CA_BUNDLE)";
      break;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_TOO_MANY_REDIRECTS:
      end.verdict = Verdict::kWrong;
      end.why = said + "; give the URL of the object itself";
      break;
    default:
      end.verdict = Verdict::kAgain;
      end.why = said + "; look at the network and the store, or give a longer io_timeout=";
  }
  return end;
}

}  // namespace carya::io
