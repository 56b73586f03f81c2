#include "io/http/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/error.h"
#include "io/http/store_url.h"

namespace carya::io {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

std::string hex(const Digest& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

Digest sha256(std::string_view text) {
  Digest digest;
  CHECK(EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1);
  return digest;
}

Digest hmac(std::string_view key, std::string_view text) {
  Digest digest;
  CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
             nullptr) != nullptr);
  return digest;
}

std::string_view bytes(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// Without blanks at the ends, and with one for each run of them inside.
std::string trimmed(std::string_view value) {
  std::string text;
  for (const char c : value)
    if (c != ' ' || (!text.empty() && text.back() != ' ')) text += c;
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

}  // namespace

std::string canonical_query(const std::vector<std::pair<std::string, std::string>>& query) {
  std::vector<std::pair<std::string, std::string>> encoded;
  for (const auto& [name, value] : query) encoded.emplace_back(percent_encoded(name), percent_encoded(value));
  std::ranges::sort(encoded);
  std::string text;
  for (const auto& [name, value] : encoded) {
    if (!text.empty()) text += '&';
    text += name;
    text += '=';
    text += value;
  }
  return text;
}

std::string sigv4_authorization(const SigningInput& input, const AwsCredentials& credentials) {
  auto headers = input.headers;
  std::ranges::sort(headers);
  std::string canonical = std::string(input.method) + "\n" + std::string(input.encoded_path) + "\n" +
                          canonical_query(input.query) + "\n";
  std::string names;
  for (const auto& [name, value] : headers) {
    canonical += name + ":" + trimmed(value) + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  canonical += "\n" + names + "\n" + std::string(input.payload_sha256);

  const std::string day(input.amz_date.substr(0, 8));
  const std::string scope =
      day + "/" + std::string(input.region) + "/" + std::string(input.service) + "/aws4_request";
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + std::string(input.amz_date) + "\n" + scope + "\n" + hex(sha256(canonical));
  Digest key = hmac("AWS4" + credentials.secret_key, day);
  for (const std::string_view part : {input.region, input.service, std::string_view("aws4_request")})
    key = hmac(bytes(key), part);
  return "AWS4-HMAC-SHA256 Credential=" + credentials.access_key + "/" + scope + ", SignedHeaders=" + names +
         ", Signature=" + hex(hmac(bytes(key), to_sign));
}

std::vector<std::string> s3_signature(const AwsCredentials& credentials, std::string_view region,
                                      std::string_view method, std::string_view host, std::string_view path,
                                      const std::vector<std::pair<std::string, std::string>>& query,
                                      std::int64_t unix_seconds) {
  if (credentials.access_key.empty()) return {};
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  CHECK(::gmtime_r(&seconds, &utc) != nullptr);
  std::array<char, 32> date{};
  std::strftime(date.data(), date.size(), "%Y%m%dT%H%M%SZ", &utc);

  SigningInput input{
      .method = method,
      .encoded_path = path,
      .query = query,
      .headers = {{"x-amz-content-sha256", std::string(kEmptySha256)}, {"x-amz-date", date.data()}},
      .payload_sha256 = kEmptySha256,
      .region = region,
      .service = "s3",
      .amz_date = date.data()};
  if (!credentials.session_token.empty())
    input.headers.emplace_back("x-amz-security-token", credentials.session_token);
  std::vector<std::string> lines;
  for (const auto& [name, value] : input.headers) lines.push_back(name + ": " + value);
  input.headers.emplace_back("host", host);
  lines.push_back("Authorization: " + sigv4_authorization(input, credentials));
  return lines;
}

}  // namespace carya::io
