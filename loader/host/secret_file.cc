#include "loader/host/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "base/unique_fd.h"

namespace carya::loader {

Result<std::string> read_secret(const std::string& subject, const std::string& path,
                                std::uint64_t bytes_max) {
  constexpr std::size_t kPiece = 4096;
  constexpr const char* kSpace = " \t\r\n\v\f";
  const std::string what = subject + " " + path;
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts{};
  if (!file || fstat(file.get(), &facts) != 0) return fail_errno(what, errno);
  const mode_t allowed = facts.st_uid == geteuid() ? S_IRWXU : S_IRWXU | S_IRGRP;
  if (S_ISREG(facts.st_mode) && (facts.st_mode & ACCESSPERMS & ~allowed) != 0)
    return fail(
        Code::kInvalidArgument,
        what +
            ": other users may read or write it, and whoever knows the word may use the workers; give "
            "it mode 600 (chmod 600)");
  std::string text;
  while (text.size() <= bytes_max) {
    char piece[kPiece];
    const ssize_t got = read(file.get(), piece, std::min<std::uint64_t>(kPiece, bytes_max + 1 - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(what, errno);
    if (got == 0) break;
    text.append(piece, static_cast<std::size_t>(got));
  }
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (text.size() > bytes_max || begin == std::string::npos)
    return fail(Code::kInvalidArgument, fmt::format("{}: give 1 to {} bytes of text", what, bytes_max));
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

SecretFile::SecretFile(std::string subject, std::string path, std::uint64_t bytes_max)
    : subject_(std::move(subject)), path_(std::move(path)), bytes_max_(bytes_max) {}

Result<std::optional<std::string>> SecretFile::read() {
  struct stat facts{};
  if (seen_ && stat(path_.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode)) return std::nullopt;
  auto secret = read_secret(subject_, path_, bytes_max_);
  const std::string seen = secret ? *secret : secret.error().message;
  if (std::exchange(seen_, seen) == seen) return std::nullopt;
  if (!secret) return std::unexpected(std::move(secret.error()));
  return std::move(*secret);
}

}  // namespace carya::loader
