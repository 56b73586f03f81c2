#include "loader/host/accounts.h"

#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <utility>
#include <vector>

namespace carya::loader {
namespace {

constexpr std::size_t kEntryBytesMax = 1 << 20;

/// What `look` finds in the system's databases, with room for it.
template <typename Entry, typename Look, typename Take>
auto looked_up(Look look, Take take) -> std::optional<decltype(take(std::declval<const Entry&>()))> {
  for (std::size_t size = 1 << 12; size <= kEntryBytesMax; size *= 4) {
    std::vector<char> room(size);
    Entry entry{};
    Entry* found = nullptr;
    if (look(&entry, room.data(), room.size(), &found) == ERANGE) continue;
    return found != nullptr ? std::optional(take(*found)) : std::nullopt;
  }
  return std::nullopt;
}

/// The number under a name in one of them, or what its digits say.
template <typename Entry, typename Look>
Result<id_t> number_of(const std::string& name, const char* what, Look look, id_t Entry::* number) {
  const auto found =
      looked_up<Entry>([&](Entry* entry, char* room, std::size_t size,
                           Entry** result) { return look(name.c_str(), entry, room, size, result); },
                       [&](const Entry& entry) { return entry.*number; });
  if (found) return *found;
  if (const auto digits = id_of_digits(name)) return *digits;
  return fail(Code::kInvalidArgument, std::string("there is no ") + what + " " + name);
}

template <typename Take>
auto account_of(uid_t user, Take take) {
  return looked_up<passwd>([&](passwd* entry, char* room, std::size_t size,
                               passwd** found) { return getpwuid_r(user, entry, room, size, found); },
                           take);
}

}  // namespace

std::optional<id_t> id_of_digits(const std::string& digits) {
  id_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, value);
  return read.ec == std::errc() && read.ptr == end ? std::optional(value) : std::nullopt;
}

Result<uid_t> user_number(const std::string& name) {
  return number_of<passwd>(name, "user", getpwnam_r, &passwd::pw_uid);
}

std::string user_name(uid_t user) {
  return account_of(user, [](const passwd& entry) { return std::string(entry.pw_name); })
      .value_or(std::to_string(user));
}

std::string user_home(uid_t user) {
  return account_of(user, [](const passwd& entry) { return std::string(entry.pw_dir); }).value_or("");
}

Result<gid_t> group_number(const std::string& name) {
  return number_of<group>(name, "group", getgrnam_r, &group::gr_gid);
}

}  // namespace carya::loader
