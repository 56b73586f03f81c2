#include "io/http/aws_profile.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <string_view>
#include <utility>

namespace carya::io {
namespace {

constexpr const char* kVariables[] = {
    "HOME", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE",
    // As libcurl takes them: HTTP_PROXY is none, since a client's header "Proxy" becomes that in a CGI program.
    "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"};
constexpr std::size_t kLinesMax = 100'000;  // of a profile file

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kBlank) + 1 - first));
}

/// Adds the values of one section that are not known yet.
void take_section(const std::string& path, const std::string& section,
                  std::map<std::string, std::string>* values) {
  std::ifstream file(path);
  std::string line;
  bool inside = false;
  for (std::size_t count = 0; count < kLinesMax && std::getline(file, line); ++count) {
    const bool indented = line.starts_with(' ') || line.starts_with('\t');  // a value of the line before
    line = trimmed(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      inside = line == "[" + section + "]";
      continue;
    }
    const std::size_t equals = line.find('=');
    if (!inside || indented || equals == std::string::npos) continue;
    values->emplace(trimmed(std::string_view(line).substr(0, equals)),
                    trimmed(std::string_view(line).substr(equals + 1)));
  }
}

}  // namespace

AwsProfile read_aws_profile(const Variable& variable) {
  const auto given = [&](const char* name) {
    const char* const value = variable(name);
    return std::string(value == nullptr ? "" : value);
  };
  const auto first = [](std::initializer_list<std::string> values) {
    for (const std::string& value : values)
      if (!value.empty()) return value;
    return std::string();
  };
  const std::string home = given("HOME");
  const std::string profile = first({given("AWS_PROFILE"), "default"});
  std::map<std::string, std::string> values;
  take_section(first({given("AWS_SHARED_CREDENTIALS_FILE"), home + "/.aws/credentials"}), profile, &values);
  take_section(first({given("AWS_CONFIG_FILE"), home + "/.aws/config"}),
               profile == "default" ? profile : "profile " + profile, &values);

  AwsProfile found;
  found.credentials = {.access_key = given("AWS_ACCESS_KEY_ID"),
                       .secret_key = given("AWS_SECRET_ACCESS_KEY"),
                       .session_token = given("AWS_SESSION_TOKEN")};
  // Keys of two places are never mixed.
  if (found.credentials.access_key.empty() || found.credentials.secret_key.empty())
    found.credentials = {.access_key = values["aws_access_key_id"],
                         .secret_key = values["aws_secret_access_key"],
                         .session_token = values["aws_session_token"]};
  if (found.credentials.secret_key.empty()) found.credentials = {};
  found.settings.region =
      first({given("AWS_REGION"), given("AWS_DEFAULT_REGION"), values["region"], "us-east-1"});
  found.settings.endpoint =
      first({given("AWS_ENDPOINT_URL_S3"), given("AWS_ENDPOINT_URL"), values["endpoint_url"]});
  found.settings.authority =
      first({given("CURL_CA_BUNDLE"), given("AWS_CA_BUNDLE"), given("SSL_CERT_FILE"), values["ca_bundle"]});
  return found;
}

AwsProfile read_aws_profile(std::map<std::string, std::string> variables) {
  AwsProfile profile = read_aws_profile([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  profile.variables = std::move(variables);
  return profile;
}

AwsProfile read_aws_profile() {
  std::map<std::string, std::string> variables;
  for (const char* name : kVariables)
    if (const char* const value = std::getenv(name); value != nullptr) variables[name] = value;
  return read_aws_profile(std::move(variables));
}

}  // namespace carya::io
