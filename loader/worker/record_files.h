#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "loader/wire/chunk_message.h"

namespace carya::loader {

/// Files of datasets that this machine sees too, under the folders that its owner named. A host's paths are hostile
/// until checked: nothing outside of those folders is opened, whatever a path or a link says.
/// Threads: const is thread-safe.
class RecordFiles {
 public:
  /// Open the roots. Each is "DIR", or "THEIRS=DIR" if hosts see that folder as THEIRS; all are absolute. A record has
  /// at most `bytes_max`. Errors: kInvalidArgument (another form), those of opening a folder.
  static Result<RecordFiles> open(const std::vector<std::string>& roots, std::uint64_t bytes_max);

  bool none() const { return roots_.empty(); }
  /// Checks that all these files can be read here and are as the host listed them. Errors: those of read().
  Status check(std::span<const RemoteFile> files) const;
  /// Read the bytes at an address, with kRemoteSlackBytes zeros behind them, into `memory`, which grows as needed and
  /// never shrinks. Errors: kPermission (under no root, leads out of it, no regular file), kNotFound, kIo (another size
  /// or time than the host's, or storage), kCorrupt (a range outside of the file), kExhausted (longer than bytes_max).
  Result<std::span<const std::byte>> read(const RemoteAddress& address, std::vector<std::byte>& memory) const;

 private:
  struct Root {
    std::string theirs;  // without a slash at its end; "" for "/"
    UniqueFd folder;
  };
  Result<UniqueFd> open_file(const RemoteFile& file) const;

  std::vector<Root> roots_;
  std::uint64_t bytes_max_ = 0;
};

}  // namespace carya::loader
