#include "io/credentials/aws_profile.h"

#include <fstream>
#include <initializer_list>
#include <string_view>

namespace carya::io {
namespace {

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

std::string first_of(std::initializer_list<std::string> values) {
  for (const std::string& value : values)
    if (!value.empty()) return value;
  return "";
}

/// Keys of two places are never mixed.
Grant whole(Grant keys) {
  return keys.access_key.empty() || keys.secret_key.empty() ? Grant{} : keys;
}

}  // namespace

std::string value_of(const std::map<std::string, std::string>& values, const char* name) {
  const auto found = values.find(name);
  return found == values.end() ? "" : found->second;
}

std::map<std::string, std::string> aws_profile_values(const Environment& environment,
                                                      const std::string& profile) {
  std::map<std::string, std::string> values;
  const std::string& home = environment.get("HOME");
  take_section(first_of({environment.get("AWS_SHARED_CREDENTIALS_FILE"), home + "/.aws/credentials"}),
               profile, &values);
  take_section(first_of({environment.get("AWS_CONFIG_FILE"), home + "/.aws/config"}),
               profile == "default" ? profile : "profile " + profile, &values);
  return values;
}

Grant profile_keys(const std::map<std::string, std::string>& values) {
  return whole({.access_key = value_of(values, "aws_access_key_id"),
                .secret_key = value_of(values, "aws_secret_access_key"),
                .token = value_of(values, "aws_session_token")});
}

Grant environment_keys(const Environment& environment) {
  return whole({.access_key = environment.get("AWS_ACCESS_KEY_ID"),
                .secret_key = environment.get("AWS_SECRET_ACCESS_KEY"),
                .token = environment.get("AWS_SESSION_TOKEN")});
}

AwsProfile read_aws_profile(const Environment& environment) {
  AwsProfile found;
  found.values = aws_profile_values(environment, first_of({environment.get("AWS_PROFILE"), "default"}));
  found.keys = environment_keys(environment);
  if (found.keys.empty()) found.keys = profile_keys(found.values);
  found.region = first_of({environment.first({"AWS_REGION", "AWS_DEFAULT_REGION"}),
                           value_of(found.values, "region"), "us-east-1"});
  found.endpoint = first_of({environment.first({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}),
                             value_of(found.values, "endpoint_url")});
  found.ca_bundle = first_of({environment.first({"CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE"}),
                              value_of(found.values, "ca_bundle")});
  return found;
}

}  // namespace carya::io
