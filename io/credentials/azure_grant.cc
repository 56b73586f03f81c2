#include "io/credentials/azure_grant.h"

#include <map>
#include <string_view>
#include <utility>

#include "base/escape.h"
#include "io/credentials/base64.h"
#include "io/credentials/percent_encoding.h"
#include "io/credentials/token_answer.h"

namespace carya::io {
namespace {

constexpr std::int64_t kAzureNearMs = 2000;
constexpr const char* kAzureScope = "https://storage.azure.com/.default";
constexpr const char* kAuthority = "https://login.microsoftonline.com";
constexpr const char* kAzureMetadata = "http://169.254.169.254";
constexpr const char* kAssertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
// What the firmware of all machines of Azure says. Source: Azure, "Instance Metadata Service".
constexpr const char* kAssetTag = "7783-7084-3265-9085-8269-3286-77";

/// "AccountName=a;AccountKey=b" by name.
std::map<std::string, std::string, std::less<>> connection(const Environment& environment) {
  std::map<std::string, std::string, std::less<>> values;
  std::string_view rest = environment.get("AZURE_STORAGE_CONNECTION_STRING");
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    if (const std::size_t equals = part.find('='); equals != std::string_view::npos)
      values.emplace(part.substr(0, equals), part.substr(equals + 1));
  }
  return values;
}

/// A shared access signature as it is added to a query; it has been encoded by who made it.
Result<Grant> signature_of(std::string_view token) {
  while (token.starts_with('?') || token.starts_with('&')) token.remove_prefix(1);
  if (token.contains(' ') || token.contains('#') || !token.contains("sig="))
    return fail(Code::kInvalidArgument,
                "AZURE_STORAGE_SAS_TOKEN: no shared access signature; give one such as sv=...&sig=...");
  return Grant{.token = std::string(token), .in_query = true};
}

Result<Grant> by_entra(const Environment& environment, const Fetch& fetch) {
  const std::string &tenant = environment.get("AZURE_TENANT_ID"),
                    &client = environment.get("AZURE_CLIENT_ID");
  const std::string &path = environment.get("AZURE_FEDERATED_TOKEN_FILE"),
                    &secret = environment.get("AZURE_CLIENT_SECRET");
  if (tenant.empty() || client.empty() || (path.empty() && secret.empty())) return Grant{};
  std::string authority = environment.get("AZURE_AUTHORITY_HOST");
  if (authority.empty()) authority = kAuthority;
  while (authority.ends_with('/')) authority.pop_back();
  if (!is_private_url(authority))
    return fail(Code::kInvalidArgument, "AZURE_AUTHORITY_HOST: no https:// URL; give one");
  Query form = {{"grant_type", "client_credentials"}, {"client_id", client}, {"scope", kAzureScope}};
  if (!path.empty()) {
    ASSIGN(const std::string token, small_file(path));  // read each time: it is renewed
    form.emplace_back("client_assertion_type", kAssertionType);
    form.emplace_back("client_assertion", token.substr(0, token.find_first_of("\r\n")));
  } else {
    form.emplace_back("client_secret", secret);
  }
  return token_of(fetch({.url = authority + "/" + percent_encoded(tenant) + "/oauth2/v2.0/token",
                         .method = "POST",
                         .headers = {"Content-Type: application/x-www-form-urlencoded"},
                         .body = canonical_query(form)}),
                  escaped(authority));
}

Result<Grant> by_managed_identity(const Environment& environment, const Fetch& fetch) {
  std::string host = environment.get("AZURE_POD_IDENTITY_AUTHORITY_HOST");
  if (host.empty()) {
    const auto tag = small_file("/sys/class/dmi/id/chassis_asset_tag");
    if (!tag || !tag->starts_with(kAssetTag)) return Grant{};
    host = kAzureMetadata;
  }
  while (host.ends_with('/')) host.pop_back();
  std::string url = host + "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=" +
                    percent_encoded("https://storage.azure.com/");
  if (const std::string& client = environment.get("AZURE_CLIENT_ID"); !client.empty())
    url += "&client_id=" + percent_encoded(client);
  const auto answer =
      fetch({.url = url, .headers = {"Metadata: true"}, .limit_ms = kAzureNearMs, .direct = true});
  if (answer && (answer->status == 400 || answer->status == 404))
    return Grant{};  // a machine without an identity
  return token_of(answer, "the metadata service of Azure");
}

}  // namespace

Result<Grant> azure_grant(const Environment& environment, const std::string& account, const Fetch& fetch) {
  auto values = connection(environment);
  const std::string& named = environment.first({"AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"});
  const auto keys_of = [&](const std::string& owner, const std::string& key) -> Result<Grant> {
    if (key.empty() || (!owner.empty() && owner != account)) return Grant{};
    if (!base64_decoded(key))
      return fail(Code::kInvalidArgument,
                  "AZURE_STORAGE_KEY: no base64; give the key of the account as Azure shows it");
    return Grant{.access_key = account, .secret_key = key};
  };
  ASSIGN(Grant found, keys_of(named, environment.first({"AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"})));
  if (!found.empty()) return found;
  ASSIGN(found, keys_of(values["AccountName"], values["AccountKey"]));
  if (!found.empty()) return found;
  if (named.empty() || named == account)
    if (const std::string& token = environment.get("AZURE_STORAGE_SAS_TOKEN"); !token.empty())
      return signature_of(token);
  if (!values["SharedAccessSignature"].empty() &&
      (values["AccountName"].empty() || values["AccountName"] == account))
    return signature_of(values["SharedAccessSignature"]);
  ASSIGN(found, by_entra(environment, fetch));
  if (!found.empty()) return found;
  return by_managed_identity(environment, fetch);
}

std::string azure_endpoint(const Environment& environment) {
  if (const std::string& given = environment.get("AZURE_STORAGE_ENDPOINT"); !given.empty()) return given;
  auto values = connection(environment);
  std::string endpoint = values["BlobEndpoint"];
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const std::string tail = "/" + values["AccountName"];
  return tail.size() > 1 && endpoint.ends_with(tail) ? endpoint.substr(0, endpoint.size() - tail.size()) : "";
}

}  // namespace carya::io
