#include "io/segments/segment_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/unique_fd.h"
#include "io/segments/segment_reader.h"
#include "io/store/store_file.h"

namespace carya::io {
namespace {

constexpr std::string_view kPrefix = "samples-", kSuffix = ".segment";
constexpr std::size_t kAboutMax = 64 << 10;

std::string about_path(const std::string& place) {
  return place + "/about.json";
}

bool is_place_name(std::string_view name) {
  return name.size() == kPrefix.size() + 32 && name.starts_with(kPrefix) &&
         name.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string_view::npos;
}

/// The place that the last 32 digits of a folder's name say.
Hash128 mark_of_place(std::string_view folder) {
  const std::string_view hex = folder.substr(folder.size() - std::min<std::size_t>(32, folder.size()));
  Hash128 place;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    std::uint64_t& half = i < 16 ? place.high : place.low;
    half = half << 4 | static_cast<std::uint64_t>(hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10);
  }
  return place;
}

/// The names in a folder. readdir() rather than an iterator that throws: names may vanish meanwhile.
Result<std::vector<std::string>> names_in(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open) return fail_errno("list " + folder, errno);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(open.get());
    if (entry == nullptr) break;
    names.emplace_back(entry->d_name);
  }
  if (errno != 0) return fail_errno("list " + folder, errno);
  std::ranges::sort(names);
  return names;
}

std::string read_about(const std::string& place) {
  const UniqueFd fd(::open(about_path(place).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  std::string text(kAboutMax, '\0');
  const ssize_t got = fd ? ::pread(fd.get(), text.data(), text.size(), 0) : 0;
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

}  // namespace

std::error_code make_tier_folder(const std::string& folder) {
  std::error_code made, ignored;
  if (std::filesystem::create_directories(folder, made))
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, ignored);
  return made;
}

std::error_code make_place_folder(const std::string& place) {
  std::error_code made, ignored;
  const std::filesystem::path folder(place), tier = folder.parent_path();
  if (made = make_tier_folder(tier); made) return made;
  if (std::filesystem::create_directory(folder, made))
    std::filesystem::permissions(folder, std::filesystem::status(tier, ignored).permissions(), ignored);
  return made;
}

std::string place_name(Hash128 place) {
  return std::string(kPrefix) + place.hex();
}

Result<std::vector<SegmentName>> list_segments(const std::string& place) {
  ASSIGN(const std::vector<std::string> names, names_in(place));
  std::vector<SegmentName> found;
  for (const std::string& name : names) {
    struct stat status;
    if (!std::string_view(name).ends_with(kSuffix)) continue;
    if (::lstat((place + "/" + name).c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    found.push_back({name, static_cast<std::uint64_t>(status.st_size),
                     static_cast<std::uint64_t>(status.st_blocks) * 512, status.st_uid,
                     static_cast<double>(status.st_mtim.tv_sec)});
  }
  return found;
}

Result<std::vector<PlaceInfo>> list_places(const std::string& folder) {
  const auto names = names_in(folder);
  if (!names && names.error().code == Code::kNotFound) return std::vector<PlaceInfo>{};
  if (!names) return std::unexpected(names.error());
  std::vector<PlaceInfo> places;
  for (const std::string& name : *names) {
    if (!is_place_name(name)) continue;
    PlaceInfo place{.path = folder + "/" + name};
    const auto segments = list_segments(place.path);
    if (!segments) continue;  // removed meanwhile, or no folder
    place.about = read_about(place.path);
    struct stat status;
    if (::stat(about_path(place.path).c_str(), &status) == 0)
      place.used_s = static_cast<double>(status.st_mtim.tv_sec);
    for (const SegmentName& segment : *segments) {
      ++place.segments;
      place.bytes += segment.bytes;
      place.disk_bytes += segment.disk_bytes;
      place.user_bytes[segment.user] += segment.bytes;
    }
    places.push_back(std::move(place));
  }
  return places;
}

Result<PlaceCheck> verify_place(const std::string& place, const VerifyProgress& go_on) {
  ASSIGN(const std::vector<SegmentName> segments, list_segments(place));
  const Hash128 expected = mark_of_place(place);
  PlaceCheck check;
  std::vector<std::byte> payload;
  for (const SegmentName& segment : segments) {
    if (go_on && !go_on(check.bytes)) break;
    check.bytes += segment.bytes;
    const std::string path = place + "/" + segment.name;
    const auto reader = SegmentReader::open(path, expected);
    if (!reader && reader.error().code == Code::kNotFound) continue;
    if (!reader && reader.error().code == Code::kPermission) {
      ++check.others;
      continue;
    }
    std::vector<SegmentRow> rows;
    if (!reader || !(*reader)->look(rows)) {
      ++check.damaged;
      continue;
    }
    check.damaged += (*reader)->damaged();
    for (const SegmentRow& row : rows) {
      if (row.offset + row.bytes > segment.bytes) {
        ++check.damaged;
        continue;
      }
      payload.resize(row.bytes);
      if ((*reader)->read(row, payload)) {
        ++check.entries;
        check.entry_bytes += row.bytes;
      } else {
        ++check.damaged;
      }
    }
  }
  return check;
}

Status remove_place(const std::string& place) {
  const std::size_t slash = place.rfind('/');
  if (!is_place_name(std::string_view(place).substr(slash == std::string::npos ? 0 : slash + 1)))
    return fail(Code::kInvalidArgument, "remove " + place + ": not a folder of samples");
  ASSIGN(const std::vector<SegmentName> segments, list_segments(place));
  for (const SegmentName& segment : segments)
    if (::unlink((place + "/" + segment.name).c_str()) != 0 && errno != ENOENT)
      return fail_errno("remove " + segment.name, errno);
  ASSIGN(const std::vector<std::string> names, names_in(place));
  for (const std::string& name : names)  // also what a killed writer of about.json left
    if (name.starts_with("about.json")) ::unlink((place + "/" + name).c_str());
  // A folder in which somebody begins a segment just now stays.
  if (::rmdir(place.c_str()) != 0 && errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT)
    return fail_errno("remove " + place, errno);
  return {};
}

Status write_about(const std::string& place, const std::string& text, bool own_only) {
  const std::string path = about_path(place);
  if (::access(path.c_str(), F_OK) == 0) return {};
  std::string temporary = path + ".XXXXXX";
  const UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return fail_errno("create " + temporary, errno);
  const Written written = write_whole(fd.get(), std::as_bytes(std::span(text)), 0);
  if (written.sys_errno == 0 && (own_only || ::fchmod(fd.get(), 0644) == 0) &&
      ::rename(temporary.c_str(), path.c_str()) == 0)
    return {};
  const int sys_errno = written.sys_errno != 0 ? written.sys_errno : errno;
  ::unlink(temporary.c_str());
  return fail_errno("write " + path, sys_errno);
}

double touch_about(const std::string& place) {
  const std::string path = about_path(place);
  struct stat status;
  if (::utimensat(AT_FDCWD, path.c_str(), nullptr, 0) != 0 || ::stat(path.c_str(), &status) != 0) return 0;
  return static_cast<double>(status.st_mtim.tv_sec);
}

}  // namespace carya::io
