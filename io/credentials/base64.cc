#include "io/credentials/base64.h"

#include <openssl/evp.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace carya::io {

std::string base64_encoded(std::string_view bytes) {
  CHECK(bytes.size() <= std::numeric_limits<int>::max() / 2);
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock ends with a NUL
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

std::string base64url_encoded(std::string_view bytes) {
  std::string text = base64_encoded(bytes);
  text.resize(std::min(text.find('='), text.size()));
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  return text;
}

std::optional<std::string> base64_decoded(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0 || text.size() > (1 << 20)) return std::nullopt;
  if (text.find('=') < text.size() - 2) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int length =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (length < 0) return std::nullopt;
  // It counts the bytes that padding stands for, too.
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.resize(static_cast<std::size_t>(length) - padding);
  return bytes;
}

}  // namespace carya::io
