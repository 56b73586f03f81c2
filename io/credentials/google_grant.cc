#include "io/credentials/google_grant.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/escape.h"
#include "io/credentials/jwt.h"
#include "io/credentials/percent_encoding.h"
#include "io/credentials/token_answer.h"

namespace carya::io {
namespace {

constexpr std::int64_t kJwtSeconds = 3600;
constexpr std::int64_t kMetadataMs = 2000;
constexpr const char* kScope = "https://www.googleapis.com/auth/devstorage.read_only";
constexpr const char* kTokenUri = "https://oauth2.googleapis.com/token";
constexpr const char* kJwtGrant = "urn:ietf:params:oauth:grant-type:jwt-bearer";

FetchQuestion token_question(const std::string& url, const Query& form) {
  return {.url = url,
          .method = "POST",
          .headers = {"Content-Type: application/x-www-form-urlencoded"},
          .body = canonical_query(form)};
}

/// A token for a document of `path`. Errors: as google_grant().
Result<Grant> token_by_file(const std::string& path, const Fetch& fetch) {
  const std::string shown = escaped(path);
  ASSIGN(const std::string text, small_file(path));
  const auto document = nlohmann::json::parse(text, nullptr, false);
  const std::string type = document.is_object() ? text_of(document, "type") : "";
  std::string token_uri = document.is_object() ? text_of(document, "token_uri") : "";
  if (token_uri.empty()) token_uri = kTokenUri;
  if (!is_private_url(token_uri))
    return fail(Code::kInvalidArgument,
                shown + ": its token_uri is no https:// URL; give the file as Google made it");
  const std::string subject = "the token server that " + shown + " names";
  if (type == "authorized_user")
    return token_of(fetch(token_question(token_uri, {{"grant_type", "refresh_token"},
                                                     {"client_id", text_of(document, "client_id")},
                                                     {"client_secret", text_of(document, "client_secret")},
                                                     {"refresh_token", text_of(document, "refresh_token")}})),
                    subject);
  if (type != "service_account")
    return fail(Code::kInvalidArgument,
                shown +
                    ": it is of no service account and no user; give such a file by "
                    "GOOGLE_APPLICATION_CREDENTIALS, or a token by GOOGLE_OAUTH_ACCESS_TOKEN");
  const std::int64_t now = unix_s();
  const nlohmann::json header = {
      {"alg", "RS256"}, {"typ", "JWT"}, {"kid", text_of(document, "private_key_id")}};
  const nlohmann::json claims = {{"iss", text_of(document, "client_email")},
                                 {"scope", kScope},
                                 {"aud", token_uri},
                                 {"iat", now},
                                 {"exp", now + kJwtSeconds}};
  ASSIGN(const std::string jwt,
         jwt_rs256(header.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace),
                   claims.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace),
                   text_of(document, "private_key")));
  return token_of(fetch(token_question(token_uri, {{"grant_type", kJwtGrant}, {"assertion", jwt}})), subject);
}

/// Whether this is a machine of Google's, by what its firmware says.
bool is_of_google() {
  const auto product = small_file("/sys/class/dmi/id/product_name");
  return product && product->starts_with("Google");
}

Result<Grant> token_by_metadata(const std::string& host, const Fetch& fetch) {
  const auto answer =
      fetch({.url = "http://" + host + "/computeMetadata/v1/instance/service-accounts/default/token",
             .headers = {"Metadata-Flavor: Google"},
             .limit_ms = kMetadataMs,
             .direct = true});
  if (answer && answer->status == 404) return Grant{};  // a machine without an account
  return token_of(answer, "the metadata server " + escaped(host));
}

}  // namespace

Result<Grant> google_grant(const Environment& environment, const Fetch& fetch) {
  Grant keys{.access_key = environment.get("GS_ACCESS_KEY_ID"),
             .secret_key = environment.get("GS_SECRET_ACCESS_KEY")};
  if (!keys.access_key.empty() && !keys.secret_key.empty()) return keys;
  if (const std::string& token = environment.get("GOOGLE_OAUTH_ACCESS_TOKEN"); !token.empty())
    return Grant{.token = token};
  if (const std::string& path = environment.get("GOOGLE_APPLICATION_CREDENTIALS"); !path.empty())
    return token_by_file(path, fetch);
  const std::string usual = environment.get("HOME") + "/.config/gcloud/application_default_credentials.json";
  if (small_file(usual)) return token_by_file(usual, fetch);
  if (const std::string& host = environment.get("GCE_METADATA_HOST"); !host.empty())
    return token_by_metadata(host, fetch);
  if (is_of_google()) return token_by_metadata("metadata.google.internal", fetch);
  return Grant{};
}

}  // namespace carya::io
