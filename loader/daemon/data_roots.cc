#include "loader/daemon/data_roots.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace carya::loader {
namespace {

namespace fs = std::filesystem;

/// The path without links where it exists, "." and "..".
std::string resolved(const fs::path& path) {
  std::error_code error;
  const fs::path found = fs::weakly_canonical(path, error);
  return (error ? path.lexically_normal() : found).string();
}

bool holds(const std::vector<std::string>& folders, const std::string& path) {
  return std::ranges::any_of(folders, [&](const std::string& one) {
    std::string folder = resolved(one);
    if (!folder.ends_with('/')) folder += '/';
    return path.starts_with(folder) || path + '/' == folder;
  });
}

}  // namespace

std::string default_cache_dir() {
  const auto given = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string chosen = given("CARYA_CACHE_DIR"); !chosen.empty()) return chosen;
  if (const std::string base = given("XDG_CACHE_HOME"); !base.empty()) return base + "/carya";
  const std::string home = given("HOME");
  return home.empty() ? "" : home + "/.cache/carya";
}

Status AllowedFolders::check_root(const std::string& folder) const {
  if (roots.empty() || holds(roots, folder)) return {};
  return fail(Code::kPermission,
              "caryad: " + folder +
                  " lies outside of the folders that this daemon reads; add its folder to roots in "
                  "caryad.toml and reload, or use the loader with daemon=\"embedded\"");
}

Status AllowedFolders::check_source(const std::string& root, const io::StoreAccess* access) const {
  if (roots.empty() || !io::has_scheme(root)) return check_root(root);
  const auto place = [](const Result<io::StoreUrl>& url) {
    std::string text = url ? url->url() : "";
    while (text.ends_with('/')) text.pop_back();
    return url ? text + "/" : "";
  };
  const std::string asked = access == nullptr ? "" : place(access->parse(root));
  for (const std::string& one : roots) {
    const std::string allowed = io::has_scheme(one) ? place(io::parse_store_url(one, {})) : "";
    if (!allowed.empty() && asked.starts_with(allowed)) return {};
  }
  return fail(Code::kPermission,
              "caryad: " + root +
                  " lies outside of what this daemon reads; add its URL to roots in caryad.toml and "
                  "reload, or use the loader with daemon=\"embedded\"");
}

Status AllowedFolders::check_terms(const io::StoreTerms& terms) const {
  if (roots.empty()) return {};
  io::StoreSources own{.environment = io::read_environment(), .profile = {}};
  own.profile.ca_bundle = own.environment.first({"CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE"});
  const std::string authority = own.profile.ca_bundle.empty() ? "" : resolved(own.profile.ca_bundle);
  for (const bool tls : {false, true}) {
    const io::StoreWay& way = tls ? terms.tls : terms.plain;
    if (!way.proxy.empty() && way.proxy != io::way_of(own, tls).proxy)
      return fail(
          Code::kPermission,
          "caryad: a proxy that is not this daemon's; unset it, give the daemon the same http_proxy and "
          "https_proxy, or use the loader with daemon=\"embedded\"");
    if (!way.authority.empty() && way.authority != authority)
      return fail(
          Code::kPermission,
          "caryad: an authority that is not this daemon's; unset SSL_CERT_FILE and AWS_CA_BUNDLE, give the "
          "daemon the same, or use the loader with daemon=\"embedded\"");
  }
  return {};
}

Result<std::string> AllowedFolders::cache_dir(const std::string& asked) const {
  if (roots.empty() && cache_dirs.empty()) return asked;
  std::vector<std::string> allowed = cache_dirs;
  if (allowed.empty())
    if (std::string own = default_cache_dir(); !own.empty()) allowed.push_back(std::move(own));
  // Where none is named, indexes of tars would be kept beside them, wherever links lead.
  if (asked.empty())
    return allowed.empty() ? fail(Code::kPermission,
                                  "caryad: there is no cache folder; "
                                  "name one in cache_dirs of caryad.toml")
                           : Result<std::string>(resolved(allowed.front()));
  std::string real = resolved(asked);
  if (holds(allowed, real)) return real;
  return fail(Code::kPermission,
              "caryad: " + asked +
                  " is no cache folder of this daemon; add it to cache_dirs in caryad.toml and reload, "
                  "unset CARYA_CACHE_DIR, or use the loader with daemon=\"embedded\"");
}

Status AllowedFolders::check_remote(const RemoteOptions& asked, const RemoteOptions& configured) const {
  if (!asked.fleet_command.empty())
    return fail(
        Code::kPermission,
        "remote: the daemon runs no command for a loader; name the fleet in [remote] fleet_command of "
        "caryad.toml, or use the loader with daemon=\"embedded\"");
  if (roots.empty()) return {};
  for (const auto file : {&RemoteOptions::certificate, &RemoteOptions::key, &RemoteOptions::authority})
    if (const std::string& path = asked.*file;
        !path.empty() && path != configured.*file && !holds(roots, resolved(path)))
      return fail(Code::kPermission,
                  "remote_tls: " + path +
                      " lies outside of the roots of this daemon; name it in [remote] of caryad.toml, or use "
                      "the loader with daemon=\"embedded\"");
  return {};
}

}  // namespace carya::loader
