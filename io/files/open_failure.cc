#include "io/files/open_failure.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace carya::io {
namespace {

constexpr int kNamesMax = 1000;  // of a folder that are looked at for the nearest one

struct Split {
  std::string folder, name;
};

/// "/a/b/" is "b" in "/a"; "b" is "b" in ".".
Split split(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

/// Letters to insert, remove or exchange until one is the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t k = 0; k < b.size(); ++k) {
      const std::size_t changed = diagonal + (a[i] == b[k] ? 0 : 1);
      diagonal = std::exchange(row[k + 1], std::min({changed, row[k] + 1, row[k + 1] + 1}));
    }
  }
  return row.back();
}

/// The name in `folder` that is most like `name`; empty when none is.
std::string nearest(const std::string& folder, const std::string& name) {
  const std::unique_ptr<DIR, decltype([](DIR* open) { ::closedir(open); })> open(::opendir(folder.c_str()));
  std::string best;
  std::size_t least = name.size() / 3 + 1;
  for (int seen = 0; open != nullptr && seen < kNamesMax; ++seen) {
    const dirent* entry = ::readdir(open.get());
    if (entry == nullptr) break;
    const std::string_view other(entry->d_name);
    if (other.starts_with('.') || other.size() > 2 * name.size()) continue;
    if (const std::size_t far = distance(name, other); far < least) {
      least = far;
      best = other;
    }
  }
  return best;
}

std::string joined(const std::string& folder, const std::string& name) {
  if (folder == ".") return name;
  return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

std::string here() {
  const std::unique_ptr<char, decltype(&::free)> folder(::getcwd(nullptr, 0), &::free);
  return folder == nullptr ? "?" : folder.get();
}

/// The first part of the path that is not there.
std::string missing(const std::string& path) {
  struct stat status;
  Split at = split(path);
  std::string rest;  // behind it
  while (::stat(at.folder.c_str(), &status) != 0 && at.folder != "/" && at.folder != ".") {
    rest = rest.empty() ? at.name : joined(at.name, rest);
    at = split(at.folder);
  }
  const std::string whole = joined(at.folder, at.name);
  const std::string folder = at.folder == "." ? "the working folder " + here() : at.folder;
  if (::lstat(whole.c_str(), &status) == 0 && S_ISLNK(status.st_mode))
    return whole + " is a link to what is not there; mend the link, or give another path";
  std::string text = "there is no " + at.name + " in " + folder + "; give a path that exists";
  if (const std::string other = nearest(at.folder, at.name); !other.empty()) {
    const std::string offered = joined(at.folder, other);
    text += ", such as " + (rest.empty() ? offered : joined(offered, rest));
  }
  return text;
}

/// The part of the path that is a file where a folder should be.
std::string no_folder(const std::string& path) {
  struct stat status;
  std::string at = path;
  while (::stat(at.c_str(), &status) != 0 && split(at).folder != at) at = split(at).folder;
  const std::string what = at + " is a file, and no folder; ";
  if (at != path) return what + "give a path that exists";
  return what + "give the folder that holds the class folders, or single files to carya.files([...])";
}

/// What this user may not read or enter, whose it is, and its mode.
std::string forbidden(const std::string& path) {
  std::string at = path;
  struct stat status;
  while (::stat(at.c_str(), &status) != 0 && at != split(at).folder) at = split(at).folder;
  std::string text = this_user() + " may not read " + (at == path ? "it" : "what lies in " + at);
  if (::stat(at.c_str(), &status) == 0) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(status.st_mode & 07777));
    text += fmt::format(" (mode {}, of user {})", mode, status.st_uid);
  }
  return text + "; give that user the right to read it (chmod, setfacl), or run as one who has it";
}

}  // namespace

std::string this_user() {
  return fmt::format("user {} ({})", ::geteuid(), ::program_invocation_short_name);
}

std::unexpected<Error> fail_open(const std::string& path, int sys_errno) {
  const auto because = [&](const std::string& why) {
    return fail(fail_errno("", sys_errno).error().code, path + ": " + why, sys_errno);
  };
  switch (sys_errno) {
    case EXDEV:
      return fail(
          Code::kPermission,
          path +
              ": a link in it leads out of the data set's folder, and the daemon's roots allow none; put "
              "the files there, add their folder to roots in caryad.toml, or give daemon=\"embedded\"",
          sys_errno);
    case ENOENT:
      return because(missing(path));
    case ENOTDIR:
      return because(no_folder(path));
    case EACCES:
    case EPERM:
      return because(forbidden(path));
    default:
      return fail_errno(path, sys_errno);
  }
}

}  // namespace carya::io
