#include "io/credentials/aws_keys.h"

#include <fmt/core.h>

#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/escape.h"
#include "io/credentials/aws_profile.h"
#include "io/credentials/percent_encoding.h"
#include "io/credentials/program_output.h"
#include "io/credentials/sigv4.h"
#include "io/credentials/token_answer.h"

namespace carya::io {
namespace {

using Values = std::map<std::string, std::string>;

constexpr int kProfilesMax = 8;         // that name each other
constexpr std::int64_t kNearMs = 2000;  // an address of this machine or its link
constexpr const char* kContainerHost = "http://169.254.170.2";
constexpr const char* kMetadata = "http://169.254.169.254";

/// Without line ends, as files of tokens may have them.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find_first_of("\r\n"));
}

/// Keys in JSON, as metadata services and programs give them; the session's token is called `token`.
Result<Grant> keys_of(const std::string& body, const char* token, const std::string& subject) {
  const auto document = nlohmann::json::parse(body, nullptr, false);
  Grant grant;
  if (document.is_object())
    grant = {.access_key = text_of(document, "AccessKeyId"),
             .secret_key = text_of(document, "SecretAccessKey"),
             .token = text_of(document, token),
             .expires_s = iso_time_seconds(text_of(document, "Expiration"))};
  if (grant.access_key.empty() || grant.secret_key.empty())
    return fail(Code::kIo, subject + ": its answer holds no keys");
  return grant;
}

/// The text of an element of STS's answer. Keys and tokens hold nothing that XML escapes.
std::string element(const std::string& body, const std::string& name) {
  const std::string open = "<" + name + ">";
  const std::size_t at = body.find(open);
  if (at == std::string::npos) return "";
  return body.substr(at + open.size(), body.find('<', at + open.size()) - at - open.size());
}

/// Asks for the keys of a role. Signed by `keys`, unless the form holds a token of its own.
Result<Grant> ask_sts(const Environment& environment, const Fetch& fetch, const Query& form,
                      const Grant& keys) {
  const AwsProfile profile = read_aws_profile(environment);
  std::string endpoint = environment.first({"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"});
  if (endpoint.empty()) endpoint = "https://sts." + profile.region + ".amazonaws.com";
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (!is_private_url(endpoint))
    return fail(Code::kInvalidArgument,
                "STS: " + escaped(endpoint) + ": no https:// URL; give AWS_ENDPOINT_URL_STS one");
  FetchQuestion question{.url = endpoint + "/", .method = "POST", .body = canonical_query(form)};
  question.headers = {"Content-Type: application/x-www-form-urlencoded"};
  const std::string host = endpoint.substr(endpoint.find("://") + 3);
  const std::int64_t now = unix_s();
  for (std::string& line : sigv4_headers(
           {.method = "POST", .host = host, .path = "/", .body = question.body, .unix_seconds = now}, keys,
           profile.region, "sts"))
    question.headers.push_back(std::move(line));
  const auto answer = fetch(question);
  if (!answer || answer->status != 200) {
    Error error = fetch_error(answer, "STS");
    const std::string code = answer ? element(answer->body, "Code") : "";
    if (!code.empty() && code.size() < 64)
      error.message += " (" + escaped(code) + "); look at the role and who may take it";
    return std::unexpected(std::move(error));
  }
  Grant grant{.access_key = element(answer->body, "AccessKeyId"),
              .secret_key = element(answer->body, "SecretAccessKey"),
              .token = element(answer->body, "SessionToken"),
              .expires_s = iso_time_seconds(element(answer->body, "Expiration"))};
  if (grant.access_key.empty() || grant.secret_key.empty())
    return fail(Code::kIo, "STS: its answer holds no keys");
  return grant;
}

std::string session_name(const std::string& given) {
  return given.empty() ? fmt::format("carya-{}", std::time(nullptr)) : given;
}

Result<Grant> by_web_identity(const Environment& environment, const Fetch& fetch, const std::string& path,
                              const std::string& role, const std::string& session) {
  ASSIGN(const std::string token, small_file(path));
  return ask_sts(environment, fetch,
                 {{"Action", "AssumeRoleWithWebIdentity"},
                  {"Version", "2011-06-15"},
                  {"RoleArn", role},
                  {"RoleSessionName", session_name(session)},
                  {"WebIdentityToken", first_line(token)}},
                 {});
}

/// Addresses to which a container's token may be sent.
bool is_container_url(const std::string& url) {
  if (is_private_url(url)) return true;
  for (const std::string_view host :
       {"http://169.254.170.2", "http://169.254.170.23", "http://[fd00:ec2::23]"}) {
    if (!url.starts_with(host)) continue;
    const std::string_view rest = std::string_view(url).substr(host.size());
    if (rest.empty() || rest[0] == '/' || rest[0] == ':') return true;
  }
  return false;
}

Result<Grant> by_container(const Environment& environment, const Fetch& fetch) {
  const std::string& relative = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const std::string url =
      relative.empty() ? environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") : kContainerHost + relative;
  if (url.empty()) return Grant{};
  if (!is_container_url(url))
    return fail(Code::kInvalidArgument,
                "AWS_CONTAINER_CREDENTIALS_FULL_URI: neither https:// nor an address of the machine; give "
                "such a one");
  std::string token = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const std::string& path = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !path.empty()) {
    ASSIGN(token, small_file(path));  // read each time: it is renewed
    token = first_line(token);
  }
  FetchQuestion question{.url = url, .limit_ms = kNearMs, .direct = true};
  if (!token.empty()) {
    if (!is_sendable(token))
      return fail(Code::kInvalidArgument,
                  "AWS_CONTAINER_AUTHORIZATION_TOKEN: no text of a header; give it anew");
    question.headers.push_back("Authorization: " + token);
  }
  const std::string subject = "the container's credential service";
  const auto answer = fetch(question);
  if (!answer || answer->status != 200) return std::unexpected(fetch_error(answer, subject));
  return keys_of(answer->body, "Token", subject);
}

/// Whether this is a machine of EC2, by what its firmware says.
bool is_of_amazon() {
  const auto vendor = small_file("/sys/class/dmi/id/sys_vendor"),
             bios = small_file("/sys/class/dmi/id/bios_version");
  return (vendor && vendor->starts_with("Amazon EC2")) || (bios && bios->find("amazon") != std::string::npos);
}

Result<Grant> by_metadata(const Environment& environment, const Fetch& fetch) {
  if (environment.get("AWS_EC2_METADATA_DISABLED") == "true") return Grant{};
  std::string endpoint = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (endpoint.empty() && !is_of_amazon()) return Grant{};
  if (endpoint.empty()) endpoint = kMetadata;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const std::string subject = "the metadata service of EC2";
  const auto token = fetch({.url = endpoint + "/latest/api/token",
                            .method = "PUT",
                            .headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600"},
                            .limit_ms = kNearMs,
                            .direct = true});
  if (!token || token->status != 200 || !is_sendable(token->body)) {
    Error error = fetch_error(token, subject);
    if (!token)
      error.message +=
          "; in a container, raise its hop limit to 2 (aws ec2 modify-instance-metadata-options)";
    return std::unexpected(std::move(error));
  }
  const auto ask = [&](const std::string& path) {
    return fetch({.url = endpoint + "/latest/meta-data/iam/security-credentials/" + path,
                  .headers = {"X-aws-ec2-metadata-token: " + token->body},
                  .limit_ms = kNearMs,
                  .direct = true});
  };
  const auto role = ask("");
  if (role && role->status == 404) return Grant{};  // a machine without a role
  if (!role || role->status != 200) return std::unexpected(fetch_error(role, subject));
  const auto keys = ask(percent_encoded(first_line(role->body)));
  if (!keys || keys->status != 200) return std::unexpected(fetch_error(keys, subject));
  return keys_of(keys->body, "Token", subject);
}

Result<Grant> by_profile(const Environment& environment, const Fetch& fetch, const std::string& name,
                         int depth);

/// The keys that a role is asked for with.
Result<Grant> source_of(const Environment& environment, const Fetch& fetch, const Values& values,
                        const std::string& name, int depth) {
  const std::string other = value_of(values, "source_profile"),
                    source = value_of(values, "credential_source");
  if (other == name) return profile_keys(values);
  if (!other.empty()) return by_profile(environment, fetch, other, depth + 1);
  if (source == "Environment") return environment_keys(environment);
  if (source == "EcsContainer") return by_container(environment, fetch);
  if (source == "Ec2InstanceMetadata") return by_metadata(environment, fetch);
  return fail(Code::kInvalidArgument,
              "profile " + escaped(name) +
                  ": it has a role_arn and nobody to take it; give source_profile or "
                  "credential_source (Environment, EcsContainer, Ec2InstanceMetadata)");
}

Result<Grant> by_program(const Environment& environment, const std::string& command,
                         const std::string& name) {
  const std::string subject = "credential_process of profile " + escaped(name);
  ASSIGN(const std::string text, program_output(command, environment.all, subject));
  return keys_of(text, "SessionToken", subject);
}

Result<Grant> by_profile(const Environment& environment, const Fetch& fetch, const std::string& name,
                         int depth) {
  if (depth >= kProfilesMax)
    return fail(Code::kInvalidArgument,
                "profile " + escaped(name) + ": source_profile leads in a circle; give keys in one");
  const Values values = aws_profile_values(environment, name);
  const std::string role = value_of(values, "role_arn"),
                    identity = value_of(values, "web_identity_token_file");
  const std::string session = value_of(values, "role_session_name");
  if (!role.empty() && !identity.empty()) return by_web_identity(environment, fetch, identity, role, session);
  if (!role.empty()) {
    if (!value_of(values, "mfa_serial").empty())
      return fail(Code::kUnsupported, "profile " + escaped(name) +
                                          ": its role asks for a code of a device (mfa_serial); give keys by "
                                          "aws configure export-credentials");
    ASSIGN(const Grant keys, source_of(environment, fetch, values, name, depth));
    if (keys.empty())
      return fail(Code::kInvalidArgument,
                  "profile " + escaped(name) + ": its source has no keys; give them there");
    Query form = {{"Action", "AssumeRole"},
                  {"Version", "2011-06-15"},
                  {"RoleArn", role},
                  {"RoleSessionName", session_name(session)}};
    if (const std::string external = value_of(values, "external_id"); !external.empty())
      form.emplace_back("ExternalId", external);
    return ask_sts(environment, fetch, form, keys);
  }
  if (Grant keys = profile_keys(values); !keys.empty()) return keys;
  if (const std::string command = value_of(values, "credential_process"); !command.empty())
    return by_program(environment, command, name);
  if (!value_of(values, "sso_session").empty() || !value_of(values, "sso_start_url").empty())
    return fail(Code::kUnsupported,
                "profile " + escaped(name) +
                    ": it signs in by a browser (sso); give it credential_process = aws configure "
                    "export-credentials --profile NAME");
  return Grant{};
}

}  // namespace

Result<Grant> aws_keys(const Environment& environment, const Fetch& fetch) {
  if (Grant keys = environment_keys(environment); !keys.empty()) return keys;
  const std::string &identity = environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"),
                    &role = environment.get("AWS_ROLE_ARN");
  if (!identity.empty() && !role.empty())
    return by_web_identity(environment, fetch, identity, role, environment.get("AWS_ROLE_SESSION_NAME"));
  const std::string& named = environment.get("AWS_PROFILE");
  ASSIGN(Grant keys, by_profile(environment, fetch, named.empty() ? "default" : named, 0));
  if (!keys.empty()) return keys;
  ASSIGN(keys, by_container(environment, fetch));
  if (!keys.empty()) return keys;
  return by_metadata(environment, fetch);
}

}  // namespace carya::io
