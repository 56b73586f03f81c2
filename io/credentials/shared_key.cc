#include "io/credentials/shared_key.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>

#include "base/error.h"
#include "io/credentials/base64.h"

namespace carya::io {
namespace {

constexpr std::array<std::string_view, 11> kStandard = {
    "content-encoding",  "content-language", "content-length", "content-md5",         "content-type", "date",
    "if-modified-since", "if-match",         "if-none-match",  "if-unmodified-since", "range"};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string http_date(std::int64_t unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  CHECK(::gmtime_r(&seconds, &utc) != nullptr);
  // strftime() would name days and months in the language of the process.
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::array<char, 32> rest{};
  std::strftime(rest.data(), rest.size(), "%Y %H:%M:%S GMT", &utc);
  const std::string day = (utc.tm_mday < 10 ? "0" : "") + std::to_string(utc.tm_mday);
  return std::string(kDays[utc.tm_wday]) + ", " + day + " " + kMonths[utc.tm_mon] + " " + rest.data();
}

}  // namespace

std::vector<std::string> shared_key_headers(const UnsignedRequest& request, const Grant& keys) {
  const auto key = base64_decoded(keys.secret_key);
  if (!key || keys.access_key.empty()) return {};
  const std::string date = http_date(request.unix_seconds);
  Headers headers = request.headers;
  headers.emplace_back("x-ms-date", date);
  std::ranges::sort(headers);
  std::string to_sign = std::string(request.method) + "\n";
  for (const std::string_view name : kStandard) {
    const auto found = std::ranges::find(headers, name, [](const auto& header) { return header.first; });
    to_sign += (found == headers.end() ? "" : found->second) + "\n";
  }
  for (const auto& [name, value] : headers)
    if (name.starts_with("x-ms-")) to_sign += name + ":" + value + "\n";
  to_sign += "/" + keys.access_key + std::string(request.path);
  Query query = request.query;
  for (auto& [name, value] : query) name = lower(name);
  std::ranges::sort(query);
  for (const auto& [name, value] : query) to_sign += "\n" + name + ":" + value;

  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  CHECK(HMAC(EVP_sha256(), key->data(), static_cast<int>(key->size()),
             reinterpret_cast<const unsigned char*>(to_sign.data()), to_sign.size(), digest.data(),
             nullptr) != nullptr);
  const std::string signature = base64_encoded({reinterpret_cast<const char*>(digest.data()), digest.size()});
  return {"x-ms-date: " + date, "Authorization: SharedKey " + keys.access_key + ":" + signature};
}

}  // namespace carya::io
