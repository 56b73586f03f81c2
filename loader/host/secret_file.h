#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"

namespace carya::loader {

/// The text of a file that only its owner may read or write, without white space around it, of 1 to `bytes_max` bytes.
/// Where another user owns it, its group may read it too: so a cluster hands out its secrets (owner root, mode 440). A
/// file that is no regular one (a pipe that a program holds) may have any mode. `subject` begins an error, before the
/// path. Errors: those of opening and reading it; kInvalidArgument (others may read or write it, no text, too long).
Result<std::string> read_secret(const std::string& subject, const std::string& path, std::uint64_t bytes_max);

/// A secret in a file that may change, as where a cluster renews it. Threads: one at a time.
class SecretFile {
 public:
  /// As read_secret().
  SecretFile(std::string subject, std::string path, std::uint64_t bytes_max);

  /// The secret; nothing where the file, or what is wrong with it, is as it was the last time. What is no regular file is
  /// read once: a pipe would be waited for. Errors: those of read_secret().
  Result<std::optional<std::string>> read();

 private:
  const std::string subject_, path_;
  const std::uint64_t bytes_max_;
  std::optional<std::string> seen_;  // the secret, or what was wrong with it
};

}  // namespace carya::loader
