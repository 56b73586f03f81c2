#include "io/credentials/jwt.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <memory>

#include "io/credentials/base64.h"

namespace carya::io {
namespace {

template <auto release>
struct Release {
  template <typename T>
  void operator()(T* object) const {
    release(object);
  }
};

/// Without it, OpenSSL asks the terminal for a passphrase.
int no_passphrase(char*, int, int, void*) {
  return 0;
}

}  // namespace

Result<std::string> jwt_rs256(std::string_view header, std::string_view claims,
                              std::string_view private_key) {
  constexpr auto kNoKey = "service account: private_key: no RSA key in PEM; give the file as Google made it";
  const std::unique_ptr<BIO, Release<BIO_free>> source(
      BIO_new_mem_buf(private_key.data(), static_cast<int>(private_key.size())));
  if (!source) return std::unexpected(out_of_memory());
  const std::unique_ptr<EVP_PKEY, Release<EVP_PKEY_free>> key(
      PEM_read_bio_PrivateKey(source.get(), nullptr, &no_passphrase, nullptr));
  const std::unique_ptr<EVP_MD_CTX, Release<EVP_MD_CTX_free>> signing(EVP_MD_CTX_new());
  if (!signing) return std::unexpected(out_of_memory());
  if (!key || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_RSA) {
    ERR_clear_error();
    return fail(Code::kInvalidArgument, kNoKey);
  }
  const std::string text = base64url_encoded(header) + "." + base64url_encoded(claims);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::string signature(static_cast<std::size_t>(EVP_PKEY_get_size(key.get())), '\0');
  std::size_t length = signature.size();
  if (EVP_DigestSignInit(signing.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1 ||
      EVP_DigestSign(signing.get(), reinterpret_cast<unsigned char*>(signature.data()), &length, bytes,
                     text.size()) != 1) {
    ERR_clear_error();
    return fail(Code::kInvalidArgument, kNoKey);
  }
  signature.resize(length);
  return text + "." + base64url_encoded(signature);
}

}  // namespace carya::io
