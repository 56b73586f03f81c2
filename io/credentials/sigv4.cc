#include "io/credentials/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/error.h"

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
std::string canonical_value(std::string_view value) {
  std::string text;
  for (const char c : value)
    if (c != ' ' || (!text.empty() && text.back() != ' ')) text += c;
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  return hex(sha256(bytes));
}

Hash128 sha256_half(std::string_view bytes) {
  const Digest digest = sha256(bytes);
  Hash128 half;
  for (std::size_t i = 0; i < 16; ++i) {
    std::uint64_t& word = i < 8 ? half.high : half.low;
    word = word << 8 | digest[i];
  }
  return half;
}

std::string sigv4_authorization(const SigningInput& input, const Grant& keys, const SigningWords& words) {
  Headers headers = input.headers;
  std::ranges::sort(headers);
  std::string canonical = std::string(input.method) + "\n" + std::string(input.encoded_path) + "\n" +
                          canonical_query(input.query) + "\n";
  std::string names;
  for (const auto& [name, value] : headers) {
    canonical += name + ":" + canonical_value(value) + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  canonical += "\n" + names + "\n" + std::string(input.payload_sha256);

  const std::string day(input.date.substr(0, 8)), algorithm(words.algorithm);
  const std::string scope = day + "/" + std::string(input.region) + "/" + std::string(input.service) + "/" +
                            std::string(words.terminator);
  const std::string to_sign =
      algorithm + "\n" + std::string(input.date) + "\n" + scope + "\n" + hex(sha256(canonical));
  Digest key = hmac(std::string(words.key_prefix) + keys.secret_key, day);
  for (const std::string_view part : {input.region, input.service, words.terminator})
    key = hmac(bytes(key), part);
  return algorithm + " Credential=" + keys.access_key + "/" + scope + ", SignedHeaders=" + names +
         ", Signature=" + hex(hmac(bytes(key), to_sign));
}

std::vector<std::string> sigv4_headers(const UnsignedRequest& request, const Grant& keys,
                                       std::string_view region, std::string_view service,
                                       const SigningWords& words) {
  if (keys.access_key.empty()) return {};
  const auto seconds = static_cast<std::time_t>(request.unix_seconds);
  std::tm utc{};
  CHECK(::gmtime_r(&seconds, &utc) != nullptr);
  std::array<char, 32> date{};
  std::strftime(date.data(), date.size(), "%Y%m%dT%H%M%SZ", &utc);

  const std::string begin(words.header_start);
  const std::string payload = request.body.empty() ? std::string(kEmptySha256) : sha256_hex(request.body);
  Headers added = {{begin + "content-sha256", payload}, {begin + "date", date.data()}};
  if (!keys.token.empty()) added.emplace_back(begin + "security-token", keys.token);
  std::vector<std::string> lines;
  for (const auto& [name, value] : added) lines.push_back(name + ": " + value);
  for (const auto& [name, value] : request.headers)
    if (name.starts_with(begin)) added.emplace_back(name, value);
  added.emplace_back("host", request.host);
  const SigningInput input{.method = request.method,
                           .encoded_path = request.path,
                           .query = request.query,
                           .headers = std::move(added),
                           .payload_sha256 = payload,
                           .region = region,
                           .service = service,
                           .date = date.data()};
  lines.push_back("Authorization: " + sigv4_authorization(input, keys, words));
  return lines;
}

}  // namespace carya::io
