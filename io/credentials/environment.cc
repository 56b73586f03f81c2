#include "io/credentials/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>

extern char** environ;

namespace carya::io {
namespace {

/// The beginnings of names that say how Amazon's, Google's and Azure's stores are asked.
constexpr std::array<std::string_view, 6> kBeginnings = {"AWS_",   "GOOGLE_",       "GS_",
                                                         "AZURE_", "GCE_METADATA_", "STORAGE_EMULATOR_"};
constexpr std::array<std::string_view, 10> kNames = {
    "HOME", "CURL_CA_BUNDLE", "SSL_CERT_FILE",
    // As libcurl takes them: HTTP_PROXY is none, since a client's header "Proxy" becomes that in a CGI program.
    "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"};

bool counts(std::string_view name) {
  return std::ranges::find(kNames, name) != kNames.end() ||
         std::ranges::any_of(kBeginnings, [&](std::string_view begin) { return name.starts_with(begin); });
}

}  // namespace

bool says_how_stores_are_asked(std::string_view name) {
  return counts(name) && name != "HOME";
}

const std::string& Environment::get(std::string_view name) const {
  static const std::string none;
  const auto found = variables.find(name);
  return found == variables.end() ? none : found->second;
}

const std::string& Environment::first(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names)
    if (const std::string& value = get(name); !value.empty()) return value;
  return get("");
}

Environment read_environment() {
  Environment found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    found.all.emplace_back(text);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos && counts(text.substr(0, equals)))
      found.variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

}  // namespace carya::io
